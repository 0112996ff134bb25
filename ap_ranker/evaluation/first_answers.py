"""The first answers of many rankings: how probable a calibration makes them, and what a threshold does with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ap_ranker.ranking import rule
from ap_ranker.ranking.rule import Calibration, Signals


@dataclass(frozen=True)
class Rankings:
    """Q questions: what ranks their candidates, as `model`, which are right; (Q,) whether the data has an answer."""

    signals: Sequence[Signals]
    right: Sequence[NDArray[np.bool_]]
    answerable: NDArray[np.bool_]
    weights: NDArray[np.float64]
    n_asked: int | None = None  # the number of different questions, if some count again with their answers hidden

    @property
    def tops(self) -> NDArray[np.float64]:
        """(Q,) the score of each question's best candidate; without any, -inf."""
        return np.array([signals.model.max(initial=-np.inf) for signals in self.signals])

    @property
    def can_hide(self) -> bool:
        """Whether a question has a wrong answer among its candidates, which is left if the right ones are hidden."""
        return not all(right.all() for right in self.right)

    def between(self, start: int, end: int) -> Rankings:
        """Those of the questions from one place to before another."""
        return self.of(np.arange(start, end))

    def of(self, rows: NDArray[np.int64]) -> Rankings:
        """Those of the questions in these rows."""
        places = rows.tolist()
        signals = [self.signals[row] for row in places]
        right = [self.right[row] for row in places]
        return Rankings(signals, right, self.answerable[rows], self.weights[rows])


@dataclass(frozen=True)
class TopAnswers:
    """The first answers of Q rankings: (Q,) the probability that each is right, whether it is; the rest as above.

    Those `below` the floor of what is worth showing are no answers, whatever their probability.
    """

    probabilities: NDArray[np.float64]
    right: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    weights: NDArray[np.float64]
    below: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: Sequence[TopAnswers]) -> TopAnswers:
        """Those of several parts of the questions, one after the other."""
        columns: dict[str, NDArray[Any]] = {}
        for field in fields(cls):
            columns[field.name] = np.concatenate([getattr(part, field.name) for part in parts])
        return cls(**columns)


def top_answers(calibration: Calibration, rankings: Rankings) -> TopAnswers:
    """The first answer of each ranking; ties keep the given order."""
    floor = -np.inf if calibration.floor is None else calibration.floor
    probabilities: list[float] = []
    is_right: list[bool] = []
    is_below: list[bool] = []
    for signals, right in zip(rankings.signals, rankings.right, strict=True):
        ranking = rule.rank(signals, calibration=calibration)
        first = ranking.order[0]
        assert ranking.probabilities is not None  # a ranking with a calibration has them
        probabilities.append(ranking.probabilities[first])
        is_right.append(right[first])
        is_below.append(ranking.scores[first] - ranking.excess < floor)
    return TopAnswers(
        probabilities=np.array(probabilities),
        right=np.array(is_right),
        answerable=rankings.answerable,
        weights=rankings.weights,
        below=np.array(is_below),
    )


def outcome(answers: TopAnswers, least: float, of_each: NDArray[np.float64] | None = None) -> dict[str, float | None]:
    """The effect of returning only first answers with a probability of at least `least`, its threshold.

    By cross-fitting, each question has a threshold of its own (`of_each`), and `least` is that of all.

    Shares: `answered` of the questions, `none` of those that nothing is shown for, `precision` of the answered that are
    right, `rejected` of the unanswerable ones that are not answered; `None` if there are none to be a share of.
    """
    thresholds = least if of_each is None else of_each
    is_answered = (answers.probabilities >= thresholds) & ~answers.below
    is_unanswerable = ~answers.answerable

    def weight_of(rows: NDArray[np.bool_]) -> float:
        return float(answers.weights[rows].sum())

    total = float(answers.weights.sum())
    answered = weight_of(is_answered)
    unanswerable = weight_of(is_unanswerable)
    return {
        "threshold": least,
        "answered": answered / total,
        "none": weight_of(answers.below) / total,
        "precision": weight_of(is_answered & answers.right) / answered if answered else None,
        "rejected": weight_of(~is_answered & is_unanswerable) / unanswerable if unanswerable else None,
    }


def reliability(answers: TopAnswers) -> list[dict[str, float]]:
    """The first answers in ten equally wide bins of probability, without empty ones: their `share` of all, their mean
    `probability` and the share that is `right`."""
    group_of = np.minimum((answers.probabilities * 10).astype(int), 9)
    bins = []
    for group in np.unique(group_of):
        rows = group_of == group
        weights = answers.weights[rows]
        probability = np.average(answers.probabilities[rows], weights=weights)
        right = np.average(answers.right[rows], weights=weights)
        share = weights.sum() / answers.weights.sum()
        bins.append({"share": float(share), "probability": float(probability), "right": float(right)})
    return bins


def calibration_error(bins: Sequence[Mapping[str, float]]) -> float:
    """The mean |probability - share that is right| over the bins, each of which counts by its share."""
    return sum(group["share"] * abs(group["probability"] - group["right"]) for group in bins)
