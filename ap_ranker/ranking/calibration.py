"""Calibration of scores: the probability that an answer is right, and the thresholds for target precisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ap_ranker.settings import settings

MODEL, FUSED = "model", "fused"
"""The two scores that answers are ranked by, each with its own calibration: the model's, and that with BM25's added."""


@settings
class Calibration:
    """A logistic model over a ranking: p_i = sigmoid(a s_i + b m_i + c), m_i the margin over the best different answer.

    This is Platt scaling (Platt 1999) with a second feature, the margin: a high score means less if other answers have
    one, too. Without it, the example FAQ's test questions are told apart with an AUC of .846 instead of .876, and 37 %
    instead of 45 % of them are answered at precision .95. Neither weight is negative, so a better score never has a
    lower probability.

    Attributes:
        score: a, the weight of the score; 0 or more.
        margin: b, the weight of its lead over the best different answer; 0 or more.
        bias: c.
        thresholds: the `key` of a target precision -> the minimum probability of a returned answer.
    """

    score: Annotated[float, Field(ge=0)]
    margin: Annotated[float, Field(ge=0)]
    bias: float
    thresholds: Mapping[str, Annotated[float, Field(ge=0, le=1)]]

    def probabilities(
        self, scores: NDArray[np.floating], answers: Sequence[Sequence[str]] | None = None
    ) -> NDArray[np.float64]:
        """(N,) probabilities that each answer is right, given the scores of all N candidates, as for `margins`."""
        values = np.asarray(scores, dtype=np.float64)
        logits = self.score * values + self.margin * margins(values, answers) + self.bias
        return (1 + np.tanh(logits / 2)) / 2  # the sigmoid, without overflow

    def threshold(self, precision: float) -> float | None:
        """The minimum probability of a returned answer for a target precision; `None` if it was not calibrated."""
        return self.thresholds.get(key(precision))


def key(precision: float) -> str:
    """The key of a precision in `thresholds`, as text because JSON keys are text."""
    return f"{precision:g}"


def margins(scores: NDArray[np.float64], answers: Sequence[Sequence[str]] | None = None) -> NDArray[np.float64]:
    """(N,) the lead of each of (N,) scores over the best different answer; negative for all but the best answer.

    Copies of the best answer that follow it directly are that answer, so that a document which was indexed twice leaves
    no doubt. The margin is 0, the minimum for a best answer, if no other answer is there.

    Args:
        scores: of the candidates.
        answers: the texts of each that tell which candidates are the same answer; `None`: all differ.
    """
    order = np.argsort(-scores, kind="stable")
    copies = 1  # of the best answer, itself included
    if answers is not None:
        from ap_ranker.ranking.same_answer import same_answer  # loads scipy

        while copies < len(order) and same_answer(answers[order[0]], answers[order[copies]]):
            copies += 1
    if copies >= len(order):
        return np.zeros(len(scores))
    leads: NDArray[np.float64] = scores - scores[order[0]]
    leads[order[:copies]] = scores[order[:copies]] - scores[order[copies]]
    return leads
