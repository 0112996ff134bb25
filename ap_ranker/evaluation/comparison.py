"""Differences between two models on the same questions and candidates."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ap_ranker.data.faq import Match
from ap_ranker.evaluation.metrics import Levels
from ap_ranker.evaluation.significance import randomisation_test

if TYPE_CHECKING:
    from ap_ranker.evaluation.evaluation_report import EvaluationReport
    from ap_ranker.evaluation.evaluation_set import EvaluationSet

SHOWN = 10
"""Maximum number of improved questions to list, and of worsened ones."""


@dataclass(frozen=True)
class Change:
    """A question whose first right answer changed its rank.

    Attributes:
        question: its text.
        rank_before: of the first right answer among the candidates, from 1; the mean rank if candidates are tied.
        rank_after: the same with the later model.
        first_before: the text of the earlier model's first answer.
        first_after: the text of the later model's.
    """

    question: str
    rank_before: float
    rank_after: float
    first_before: str
    first_after: str


@dataclass(frozen=True)
class Differences:
    """Measure -> value after minus before, and uncorrected p-value of the paired randomisation test."""

    difference: dict[str, float]
    p_value: dict[str, float]


@dataclass(frozen=True)
class RankingChanges:
    """The later model against the earlier one.

    Attributes:
        model: differences by the models' own scores.
        fusion: differences with BM25's score added, with each checkpoint's weight; `None` if both weights are 0.
        better: number of questions whose first right answer ranks higher, by the models' own scores.
        worse: number of questions whose first right answer ranks lower.
        improved: the largest gains in reciprocal rank, the largest first.
        worsened: the largest losses.
    """

    model: Differences
    fusion: Differences | None
    better: int
    worse: int
    improved: list[Change]
    worsened: list[Change]


@dataclass(frozen=True)
class EarlierCheckpoint:
    """An earlier checkpoint on the same questions and candidates.

    Attributes:
        checkpoint: its folder or hub name.
        before: its report.
        changes: the differences to it.
        match: the text of an entry that both checkpoints ranked.
        trained_match: the text that the earlier checkpoint was trained with.
    """

    checkpoint: str
    before: EvaluationReport
    changes: RankingChanges
    match: Match
    trained_match: Match

    def as_json(self) -> dict[str, Any]:
        """The comparison as basic types."""
        measures = {"model": self.before.model, "fusion": self.before.fusion}
        return {"checkpoint": self.checkpoint, "measures": measures, **asdict(self.changes)}


def changes(evaluation_set: EvaluationSet, before: EvaluationReport, after: EvaluationReport) -> RankingChanges:
    """Compare two reports of the same questions.

    Args:
        evaluation_set: the questions of both reports.
        before: the report of the earlier model.
        after: the report of the later one.
    """
    gains = after.model_each["MRR"] - before.model_each["MRR"]
    order = np.argsort(gains, kind="stable")
    improved = [int(row) for row in np.argsort(-gains, kind="stable")[:SHOWN] if gains[row] > 0]
    worsened = [int(row) for row in order[:SHOWN] if gains[row] < 0]
    fusion = None
    if before.fusion_each or after.fusion_each:
        fusion = _differences(before.fusion_each or before.model_each, after.fusion_each or after.model_each)
    return RankingChanges(
        model=_differences(before.model_each, after.model_each),
        fusion=fusion,
        better=int((gains > 0).sum()),
        worse=int((gains < 0).sum()),
        improved=[_change(evaluation_set, before, after, row) for row in improved],
        worsened=[_change(evaluation_set, before, after, row) for row in worsened],
    )


def _differences(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> Differences:
    difference = {name: float(values.mean() - before[name].mean()) for name, values in after.items()}
    return Differences(difference, {name: randomisation_test(values, before[name]) for name, values in after.items()})


def _change(evaluation_set: EvaluationSet, before: EvaluationReport, after: EvaluationReport, row: int) -> Change:
    rankings, pool = (before.rankings[row], after.rankings[row]), evaluation_set.pools[row]
    # A changed reciprocal rank is never 0: a right answer is among the candidates, which both models ranked.
    before_, after_ = (Levels.of(-each.levels, evaluation_set.right[row]).first_rank() or 0.0 for each in rankings)
    first = (evaluation_set.dataset.answers[pool[each.order[0]]].text for each in rankings)
    return Change(evaluation_set.questions[row].text, before_, after_, *first)
