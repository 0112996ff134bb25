"""What a file of synonyms changes for questions whose right answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ap_ranker.data.dataset import Dataset
from ap_ranker.evaluation.metrics import Levels
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.text.synonyms import Synonyms

DEPTH = 10
"""Recall is the share of questions with a right answer among so many."""


@dataclass(frozen=True)
class Moved:
    """A question whose first right answer has another rank; a rank is `None` if no word finds the answer.

    Among answers with equal scores, a rank is the mean over their orders.

    Attributes:
        question: the question.
        before: the rank without synonyms, from 1.
        after: the rank with them.
    """

    question: str
    before: float | None
    after: float | None

    @property
    def rises(self) -> bool:
        """Whether the answer is now nearer to the top."""
        return self.after is not None and (self.before is None or self.after < self.before)


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
    found: list[tuple[Levels, Levels]] = []
    concerned = 0
    for question in data.answerable:
        first, *others = (index.scores(form) for form in synonyms.forms(question.text))
        concerned += bool(others)
        before = _found(first, question.positives)
        found.append((before, _found(np.maximum.reduce([first, *others]), question.positives) if others else before))
    ranks = [(before.first_rank(), after.first_rank()) for before, after in found]
    gains = [after.reciprocal_rank() - before.reciprocal_rank() for before, after in found]
    moved = [
        (gain, Moved(question.text, *pair))
        for gain, question, pair in zip(gains, data.answerable, ranks, strict=True)
        if pair[0] != pair[1]
    ]
    mrr, recall = (
        [float(np.mean([measure(pair[side]) for pair in found])) for side in (0, 1)]
        for measure in (Levels.reciprocal_rank, lambda levels: levels.success(DEPTH))
    )
    return SynonymPreview(
        len(found),
        concerned,
        (mrr[0], mrr[1]),
        (recall[0], recall[1]),
        [each for _, each in sorted(moved, key=lambda pair: -abs(pair[0]))],
    )


def _found(scores: np.ndarray, positives: Sequence[int]) -> Levels:
    """The ranking of the texts that share a word with a question."""
    rows = np.flatnonzero(scores > 0)
    return Levels.of(scores[rows], np.isin(rows, positives))
