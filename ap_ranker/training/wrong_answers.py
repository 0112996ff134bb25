"""Which answers are wrong for a question, and which of them are hard to tell from the right ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, zip_longest

import numpy as np

from ap_ranker.data.dataset import Dataset
from ap_ranker.ranking.bm25 import BM25, best_rows
from ap_ranker.text.nearly_equal import nearly_equal_pairs
from ap_ranker.text.reading import normalized

HARDEST = 100
"""Number of answers that BM25 and the vectors find for a question, each: the wrong ones among them are hard."""


def not_wrong(dataset: Dataset) -> list[frozenset[int]]:
    """(Q,) answers that must not count as wrong: right ones of the question and near-copies of these.

    Those of an equal question are right, too, whatever its case and white space.
    """
    right: defaultdict[str, set[int]] = defaultdict(set)
    for question in dataset.questions:
        right[normalized(question.text)].update(question.positives)
    texts = [normalized(answer.text) for answer in dataset.answers]
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(texts):
        rows_of[text].append(row)
    distinct = list(rows_of)
    near = {text: [text] for text in distinct}
    for i, j in nearly_equal_pairs(distinct):
        near[distinct[i]].append(distinct[j])
        near[distinct[j]].append(distinct[i])
    rows_not_wrong: list[frozenset[int]] = []
    for question in dataset.questions:
        rows: set[int] = set()
        for row in right[normalized(question.text)]:
            for text in near[texts[row]]:
                rows.update(rows_of[text])
        rows_not_wrong.append(frozenset(rows))
    return rows_not_wrong


class HardAnswers:
    """Finds the answers that are most like a question: BM25's best and those by vectors in turn.

    `vectors` (N, H) are of the answers, of length 1; `language` is that of BM25's stemmer.
    """

    def __init__(self, answers: Sequence[str], vectors: np.ndarray, language: str | None = None) -> None:
        self._bm25 = BM25(answers, language=language)
        self._vectors = vectors

    def hardest(self, question: str, vector: np.ndarray, among: Sequence[int] | None = None) -> list[int]:
        """The rows of answers, the hardest first; of all answers `HARDEST` of each kind, or all of those given.

        `vector` (H,) is the question's, of length 1.
        """
        by_words = self._bm25.scores(question)
        by_meaning = self._vectors @ vector
        rows = np.arange(len(by_meaning))
        if among is not None:
            rows = np.array(among, dtype=int)
        most = HARDEST if among is None else len(rows)
        places_by_words = best_rows(by_words[rows], most)
        places_by_meaning = best_rows(by_meaning[rows], most, above=-np.inf)
        in_turn = chain.from_iterable(zip_longest(places_by_words.tolist(), places_by_meaning.tolist()))
        places = dict.fromkeys(place for place in in_turn if place is not None)
        return rows[list(places)].tolist()
