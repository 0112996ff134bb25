"""Whether one ranking is better than another by more than chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import permutation_test

RESAMPLES = 9_999


def randomisation_test(first: np.ndarray, second: np.ndarray, seed: int = 1) -> float:
    """Two-sided p-value of Fisher's paired randomisation test (Smucker, Allan & Carterette 2007).

    Were both systems equal, each question's two values could as well be swapped.

    Args:
        first: (Q,) a measure's values of one system, question by question.
        second: (Q,) of the other.
        seed: for the random swaps; with few questions all of them are tried.
    """
    if len(first) < 2 or np.array_equal(first, second):
        return 1.0  # of one question, the swapped difference is as large as the found one
    result = permutation_test(
        (first, second),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=500,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for having made several tests (Holm 1979): those below α are significant at α together."""
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected
