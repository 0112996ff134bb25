"""Calibration of scores: the probability that an answer is right, and the thresholds for target precisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MODEL, FUSED = "model", "fused"
"""The two scores that answers are ranked by, each with its own calibration: the model's, and that with BM25's added."""


@dataclass(frozen=True)
class Calibration:
    """A logistic model over a ranking: p_i = sigmoid(a s_i + b (s_i - the best other s_j) + c).

    This is Platt scaling (Platt 1999) with a second feature, the margin: a high score means less if other answers have
    one, too. Neither weight is negative, so a better score never has a lower probability.

    Attributes:
        score: a, the weight of the score; 0 or more.
        margin: b, the weight of its lead over the best other answer; 0 or more.
        bias: c.
        thresholds: the `key` of a target precision -> the minimum probability of a returned answer.
    """

    score: float
    margin: float
    bias: float
    thresholds: Mapping[str, float]

    def __post_init__(self) -> None:
        numbers = [self.score, self.margin, self.bias, *self.thresholds.values()]
        if not all(map(math.isfinite, numbers)) or min(self.score, self.margin) < 0:
            raise ValueError(f"expected finite numbers, of which score and margin are not negative, found {numbers}")
        if not all(0 <= threshold <= 1 for threshold in self.thresholds.values()):
            raise ValueError(f"expected thresholds from 0 to 1, found {dict(self.thresholds)}")

    def probabilities(self, scores: NDArray[np.floating]) -> NDArray[np.float64]:
        """(N,) probabilities that each answer is right, given the (N,) scores of all candidates of one question."""
        values = np.asarray(scores, dtype=np.float64)
        logits = self.score * values + self.margin * margins(values) + self.bias
        return (1 + np.tanh(logits / 2)) / 2  # the sigmoid, without overflow

    def threshold(self, precision: float) -> float | None:
        """The minimum probability of a returned answer for a target precision; `None` if it was not calibrated."""
        return self.thresholds.get(key(precision))


def key(precision: float) -> str:
    """The key of a precision in `thresholds`, as text because JSON keys are text."""
    return f"{precision:g}"


def margins(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N,) differences of each of (N,) scores to the best of the others; negative for all but the best.

    The margin of a single score is 0, the minimum for a best score.
    """
    if len(scores) < 2:
        return np.zeros(len(scores))
    second, first = np.partition(scores, -2)[-2:]
    leads = scores - first
    leads[scores.argmax()] = first - second
    return leads
