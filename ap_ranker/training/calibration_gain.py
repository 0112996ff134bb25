"""Does a calibration on questions make a search worse than what was known without them?

Both decide on the same rankings, the new one of each question by a fit to others alone. The mean gain in utility is
judged as that of a training is (`recommendation.py`), but expected to be 0: another threshold gains where the one
before kept another precision than its target, and nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ap_ranker.evaluation.calibration_fit import CrossFit
from ap_ranker.evaluation.first_answers import Rankings, top_answers
from ap_ranker.ranking.decision import PRECISION
from ap_ranker.ranking.rule import Calibration
from ap_ranker.training.recommendation import GainPrior, utility_of

EXPECTED = GainPrior(mean=0.0, deviation=0.1, of_question=0.8)
"""The gain before any question is known. A question's gain differs as much as that of a training does."""

DOUBTFUL = 0.1
"""The certainty below which a calibration is not taken: its loss is hardly chance."""


@dataclass(frozen=True)
class CalibrationGain:
    """What a calibration changes at the default precision: mean utility of a question before and after.

    `certainty` is the probability that the new one is at least as good.
    """

    utility_before: float
    utility_after: float
    certainty: float

    @property
    def is_loss(self) -> bool:
        """Whether the search would be worse with the new one."""
        return self.certainty < DOUBTFUL

    @classmethod
    def of(cls, before: Calibration, crossed: Sequence[CrossFit]) -> CalibrationGain:
        """Compare them on all questions, each of which is in one part of `crossed`."""
        utilities_before: list[NDArray[np.float64]] = []
        utilities_after: list[NDArray[np.float64]] = []
        for part in crossed:
            utilities_before.append(_weighted_utilities(before, part.rankings))
            utilities_after.append(_weighted_utilities(part.calibration, part.rankings))
        total = sum(float(part.rankings.weights.sum()) for part in crossed)
        old = np.concatenate(utilities_before)
        new = np.concatenate(utilities_after)
        gains = (new - old) * len(new) / total  # their mean is the gain of a question
        return cls(float(old.sum() / total), float(new.sum() / total), EXPECTED.certainty(gains))


def _weighted_utilities(calibration: Calibration, rankings: Rankings) -> NDArray[np.float64]:
    """(Q,) the utility of each question, times its weight."""
    answers = top_answers(calibration, rankings)
    is_asserted = (answers.probabilities >= calibration.threshold(PRECISION)) & ~answers.below
    return utility_of(is_asserted & answers.right, is_asserted & ~answers.right) * answers.weights
