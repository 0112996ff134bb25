from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.evaluation.significance import holm, randomisation_test


def test_p_value_is_the_share_of_swaps_at_least_as_extreme() -> None:
    """All 2^8 ways to swap the two systems' values."""
    first = np.array([1.0, 0.5, 0.25, 1.0, 0.2, 1.0, 0.5, 0.125])
    second = np.array([0.5, 0.5, 1.0, 0.25, 0.1, 0.5, 0.25, 0.0625])
    difference = first - second
    means = [abs(np.mean(difference * np.array(signs))) for signs in product([1, -1], repeat=8)]
    expected = np.mean([mean >= abs(difference.mean()) - 1e-12 for mean in means])
    assert randomisation_test(first, second) == pytest.approx(expected, abs=1e-9)
    assert randomisation_test(second, first) == pytest.approx(expected, abs=1e-9)


def test_p_values_of_equal_and_of_very_different_systems() -> None:
    rng = np.random.default_rng(0)
    values = rng.random(300)
    assert randomisation_test(values, values) == 1.0
    assert randomisation_test(values + 0.2, values) == pytest.approx(2 / 10_000)  # two-sided
    assert randomisation_test(values, rng.permutation(values)) > 0.05


def test_one_question_proves_nothing() -> None:
    assert randomisation_test(np.array([1.0]), np.array([0.1])) == 1.0


def test_holms_own_steps() -> None:
    # Sorted: .01 x 4, .02 x 3, .03 x 2, .04 x 1, and never below the one before.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_step_by_step(p_values: list[float]) -> None:
    """Holm 1979: go up from the smallest while p(k) <= alpha / (n - k + 1)."""
    alpha, rejected = 0.05, set()
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if (len(p_values) - rank) * p_values[i] > alpha:
            break
        rejected.add(i)
    assert {i for i, p in enumerate(holm(p_values)) if p <= alpha} == rejected
