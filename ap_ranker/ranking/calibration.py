"""From scores to the probability that an answer is right, and what to leave out for a target precision."""

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

    Platt's scaling (Platt 1999) with a second feature, the margin: a score says less about an answer that others match.
    Neither weight is negative, so a better score never has the lower probability.

    Attributes:
        score: a, what the score counts; 0 or more.
        margin: b, what its lead over the best other answer counts; 0 or more.
        bias: c.
        thresholds: the `key` of a target precision -> the least probability of an answer that is given.
    """

    score: float
    margin: float
    bias: float
    thresholds: Mapping[str, float]

    def __post_init__(self) -> None:
        numbers = [self.score, self.margin, self.bias, *self.thresholds.values()]
        if not all(map(math.isfinite, numbers)) or min(self.score, self.margin) < 0:
            raise ValueError(f"expected finite numbers, of which score and margin are not negative, found {numbers}")
        if not all(0 <= least <= 1 for least in self.thresholds.values()):
            raise ValueError(f"expected thresholds from 0 to 1, found {dict(self.thresholds)}")

    def probabilities(self, scores: NDArray[np.floating]) -> NDArray[np.float64]:
        """(N,) how probably each answer is right, given the (N,) scores of all candidates of one question."""
        values = np.asarray(scores, dtype=np.float64)
        logits = self.score * values + self.margin * margins(values) + self.bias
        return (1 + np.tanh(logits / 2)) / 2  # the sigmoid, without overflow

    def threshold(self, precision: float) -> float | None:
        """The least probability of an answer that is given, where this share is to be right; `None` if unknown."""
        return self.thresholds.get(key(precision))


def key(precision: float) -> str:
    """How thresholds name a precision: JSON has no numbers for names."""
    return f"{precision:g}"


def margins(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N,) how far each of (N,) scores is above the best of the others; negative for all but the best.

    A single score has no others. Its margin is 0, the least that a best one can have: nothing speaks for it but itself.
    """
    if len(scores) < 2:
        return np.zeros(len(scores))
    second, first = np.partition(scores, -2)[-2:]
    leads = scores - first
    leads[scores.argmax()] = first - second
    return leads
