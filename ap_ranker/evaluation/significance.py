"""Significance tests for the difference between two rankings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import permutation_test

RESAMPLES = 9_999


def randomisation_test(first: np.ndarray, second: np.ndarray, seed: int = 1) -> float:
    """Two-sided p-value of Fisher's paired randomisation test (Smucker, Allan & Carterette 2007).

    Under the null hypothesis that both systems are equal, each question's two values are exchangeable.

    Args:
        first: (Q,) values of a measure for one system, one per question.
        second: (Q,) values for the other.
        seed: seed of the random swaps; with few questions all swaps are tried.
    """
    if len(first) < 2 or np.array_equal(first, second):
        return 1.0  # with one question, the swapped difference is as large as the observed one
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
    """p-values corrected for multiple testing (Holm 1979): those below α are significant at α together."""
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = highest
    return corrected
