"""What a file of synonyms changes for questions whose right answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ap_ranker.data.dataset import Dataset
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.text.synonyms import Synonyms

DEPTH = 10
"""Recall is the share of questions with a right answer among so many."""


@dataclass(frozen=True)
class Moved:
    """A question whose first right answer has another rank; a rank is `None` if no word finds the answer.

    Attributes:
        question: the question.
        before: the rank without synonyms, from 1.
        after: the rank with them.
    """

    question: str
    before: int | None
    after: int | None

    @property
    def rises(self) -> bool:
        """Whether the answer is now nearer to the top."""
        return _reciprocal(self.after) > _reciprocal(self.before)


@dataclass(frozen=True)
class SynonymPreview:
    """The effect of synonyms on BM25.

    Attributes:
        n_questions: number of questions with a right answer.
        concerned: number of those that have a synonym.
        mrr: before and after.
        recall: of the first `DEPTH` answers, before and after.
        moved: the questions whose right answer rises or falls, those that move farthest first.
    """

    n_questions: int
    concerned: int
    mrr: tuple[float, float]
    recall: tuple[float, float]
    moved: list[Moved]


def preview(data: Dataset, synonyms: Synonyms) -> SynonymPreview:
    """Search the questions of a data set without and with synonyms, among all of its answers.

    Args:
        data: the questions and answers; at least one question has a right answer.
        synonyms: the synonyms, for the stemmer that BM25 is to use.
    """
    index = BM25((answer.text for answer in data.answers), language=synonyms.language)
    ranks: list[tuple[int | None, int | None]] = []
    concerned = 0
    for question in data.answerable:
        first, *others = (index.scores(form) for form in synonyms.forms(question.text))
        concerned += bool(others)
        before = _rank(first, question.positives)
        after = _rank(np.maximum.reduce([first, *others]), question.positives) if others else before
        ranks.append((before, after))
    moved = [
        Moved(question.text, before, after)
        for question, (before, after) in zip(data.answerable, ranks, strict=True)
        if before != after
    ]
    mrr, recall = (
        tuple(float(np.mean([measure(pair[side]) for pair in ranks])) for side in (0, 1))
        for measure in (_reciprocal, _is_found)
    )
    return SynonymPreview(
        len(ranks),
        concerned,
        (mrr[0], mrr[1]),
        (recall[0], recall[1]),
        sorted(moved, key=lambda each: -abs(_reciprocal(each.after) - _reciprocal(each.before))),
    )


def _rank(scores: np.ndarray, positives: Sequence[int]) -> int | None:
    """The rank of the best right answer, from 1; ties count in order."""
    best = min(positives, key=lambda row: (-scores[row], row))
    if scores[best] <= 0:
        return None
    return 1 + int((scores > scores[best]).sum()) + int((scores[:best] == scores[best]).sum())


def _reciprocal(rank: int | None) -> float:
    return 1 / rank if rank else 0.0


def _is_found(rank: int | None) -> float:
    return float(rank is not None and rank <= DEPTH)
