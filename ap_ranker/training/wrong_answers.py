"""Which answers are wrong for a question, and which of them are hard to tell from the right ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, zip_longest

import numpy as np

from ap_ranker.data.dataset import Dataset
from ap_ranker.ranking.bm25 import BM25, best_rows
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.nearly_equal import nearly_equal_pairs
from ap_ranker.text.reading import normalized

NEARLY_RIGHT = 0.05
"""An answer whose cosine with a question is less than so much below that of its right answer may be right, too."""

DRAWN_FROM = 2
"""Hard answers that each one in a batch is drawn from: the hardest of all would be there in every epoch."""

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


class HardWrongAnswers:
    """Finds the wrong answers of each question that the model of the present epoch, or BM25, takes for right ones.

    Nobody has labelled them wrong, and some of the hardest are right. So those are left out that the model, as it was
    before it learnt anything of this FAQ, finds nearly as good as the right answer: while it learns, it comes to tell
    them apart by their labels alone. `most` are wanted for a question in a batch.
    """

    def __init__(self, dataset: Dataset, untrained: Ranker, language: str | None, most: int) -> None:
        self._dataset = dataset
        self._language = language
        self._most = most
        self._left_out = not_wrong(dataset)
        questions, answers = self._vectors(untrained)
        for row, question in enumerate(dataset.questions):
            cosines = answers @ questions[row]
            least = cosines[list(question.positives)].max() - NEARLY_RIGHT
            self._left_out[row] |= set(np.flatnonzero(cosines >= least).tolist())

    def found_by(self, ranker: Ranker) -> list[list[int]]:
        """(Q,) the rows to draw from, the hardest first, as the model is now."""
        questions, answers = self._vectors(ranker)
        hard = HardAnswers(self._dataset.answer_texts, answers, self._language)
        rows_of_questions: list[list[int]] = []
        for question, vector, left_out in zip(self._dataset.questions, questions, self._left_out, strict=True):
            rows = [row for row in hard.hardest(question.text, vector) if row not in left_out]
            rows_of_questions.append(rows[: DRAWN_FROM * self._most])
        return rows_of_questions

    def _vectors(self, ranker: Ranker) -> tuple[np.ndarray, np.ndarray]:
        """(Q, C) and (N, C) of the questions and answers, of length 1."""
        questions = ranker.embed_questions(self._dataset.question_texts)
        answers = ranker.embed_answers(self._dataset.answer_texts)
        return questions.float().numpy(), answers.float().numpy()
