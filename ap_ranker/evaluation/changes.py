"""What changed from one model to another on the same questions and candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ap_ranker.evaluation.evaluate import EvaluationReport, EvaluationSet
from ap_ranker.evaluation.significance import randomisation_test

SHOWN = 10
"""Maximum number of improved questions listed, and of worsened ones."""

Each = dict[str, np.ndarray]
"""Measure -> (Q,) values of the single questions."""


@dataclass(frozen=True)
class Change:
    """A question whose first right answer moved.

    Attributes:
        question: its text.
        rank_before: of the first right answer among the candidates, from 1.
        rank_after: the same with the later model.
        first_before: the text of the earlier model's first answer.
        first_after: the text of the later model's.
    """

    question: str
    rank_before: int
    rank_after: int
    first_before: str
    first_after: str


@dataclass(frozen=True)
class Differences:
    """After minus before, by measure; `p_value` is the paired randomisation test's, uncorrected."""

    difference: dict[str, float]
    p_value: dict[str, float]


@dataclass(frozen=True)
class RankingChanges:
    """The later model against the earlier one.

    Attributes:
        model: by the models' own scores.
        fusion: with BM25's score added by each checkpoint's weight, 0 where that did not help; `None` if both are 0.
        better: how many questions have their first right answer higher up, by the models' own scores.
        worse: how many have it further down.
        improved: the biggest gains in reciprocal rank, the biggest first.
        worsened: the biggest losses.
    """

    model: Differences
    fusion: Differences | None
    better: int
    worse: int
    improved: list[Change]
    worsened: list[Change]


def changes(evaluation_set: EvaluationSet, before: EvaluationReport, after: EvaluationReport) -> RankingChanges:
    """Compare two reports of the same questions.

    Args:
        evaluation_set: what both reports are about.
        before: of the earlier model.
        after: of the later one.
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


def _differences(before: Each, after: Each) -> Differences:
    difference = {name: float(values.mean() - before[name].mean()) for name, values in after.items()}
    return Differences(difference, {name: randomisation_test(values, before[name]) for name, values in after.items()})


def _change(evaluation_set: EvaluationSet, before: EvaluationReport, after: EvaluationReport, row: int) -> Change:
    # A changed reciprocal rank is never 0: a right answer is among the candidates, which both have ranked.
    ranks = (round(1 / report.model_each["MRR"][row]) for report in (before, after))
    top_answers = (evaluation_set.first(row, report.scores[row]).text for report in (before, after))
    return Change(evaluation_set.questions[row].text, *ranks, *top_answers)
