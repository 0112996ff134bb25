"""The probabilities of candidates that nothing but their scores orders."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ap_ranker.ranking.rule import Calibration, Signals, rank


def probabilities(calibration: Calibration, scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """(N,) by the rule of ranking."""
    found = rank(Signals(scores), calibration=calibration).probabilities
    assert found is not None
    return found
