"""What a search by words finds among all answers, with a stemmer or with synonyms: no ranker finds more than that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ap_ranker.data.dataset import Dataset, Question, answerable
from ap_ranker.evaluation.metrics import Levels
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.text.synonyms import Synonyms

DEPTHS = (10, 100)
"""Numbers of candidates: few, and what a pipeline usually fetches."""

SYNONYMS_DEPTH = 10
"""The recall of a `SynonymPreview` is the share of questions with a right answer among so many."""


def bm25_recall(dataset: Dataset, language: str | None = None) -> dict[int, float]:
    """Number of candidates -> share of the answerable questions with a right answer among BM25's best; without pools.

    Where the last of the best are tied with others, a question counts by the chance that right ones are among them.
    """
    questions = answerable(dataset)
    index = BM25([answer.text for answer in dataset.answers], language=language)
    found = [_found(index.scores(question.text), question) for question in questions]
    return {depth: float(np.mean([levels.success(depth) for levels in found])) for depth in DEPTHS}


@dataclass(frozen=True)
class Moved:
    """A question whose first right answer has another rank with synonyms; `None`: no word finds it."""

    question: str
    before: float | None
    after: float | None

    @property
    def rises(self) -> bool:
        """Whether the answer is now nearer to the top."""
        return self.after is not None and (self.before is None or self.after < self.before)


@dataclass(frozen=True)
class SynonymPreview:
    """The effect of synonyms on BM25: MRR and recall before and after, and who moved, the farthest first."""

    n_questions: int
    concerned: int
    mrr: tuple[float, float]
    recall: tuple[float, float]
    moved: list[Moved]


def preview(data: Dataset, synonyms: Synonyms) -> SynonymPreview:
    """Search the questions of a data set without and with synonyms, among all of its answers."""
    index = BM25((answer.text for answer in data.answers), language=synonyms.language)
    found: list[tuple[Levels, Levels]] = []
    concerned = 0
    for question in data.answerable:
        forms = [index.scores(form) for form in synonyms.forms(question.text)]
        found.append((_found(forms[0], question), _found(np.maximum.reduce(forms), question)))
        concerned += len(forms) > 1
    mrr, recall = (
        (float(np.mean([measure(old) for old, _ in found])), float(np.mean([measure(new) for _, new in found])))
        for measure in (Levels.reciprocal_rank, lambda levels: levels.success(SYNONYMS_DEPTH))
    )
    moved = [
        (abs(new.reciprocal_rank() - old.reciprocal_rank()), Moved(question.text, old.first_rank(), new.first_rank()))
        for question, (old, new) in zip(data.answerable, found, strict=True)
        if old.first_rank() != new.first_rank()
    ]
    farthest = [each for _, each in sorted(moved, key=lambda pair: -pair[0])]
    return SynonymPreview(len(found), concerned, mrr, recall, farthest)


def _found(scores: np.ndarray, question: Question) -> Levels:
    """The ranking of the texts that share a word with a question."""
    rows = np.flatnonzero(scores > 0)
    return Levels.of(scores[rows], np.isin(rows, question.positives))
