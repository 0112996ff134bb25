from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.evaluation.significance import Difference, Gain, holm, randomisation_test


def naive_p(first: np.ndarray, second: np.ndarray) -> float:
    """All ways to swap the two systems' values."""
    gap = first - second
    swapped = [abs(np.mean(gap * signs)) for signs in product((1, -1), repeat=len(gap))]
    return float(np.mean([value >= abs(gap.mean()) - 1e-12 for value in swapped]))


def test_p_value_is_the_share_of_swaps_at_least_as_extreme() -> None:
    first = np.array([1.0, 0.5, 0.25, 1.0, 0.2, 1.0, 0.5, 0.125])
    second = np.array([0.5, 0.5, 1.0, 0.25, 0.1, 0.5, 0.25, 0.0625])
    assert randomisation_test(first, second) == pytest.approx(naive_p(first, second), abs=1e-9)
    assert randomisation_test(second, first) == pytest.approx(naive_p(first, second), abs=1e-9)


def test_p_values_of_equal_and_of_very_different_systems() -> None:
    rng = np.random.default_rng(0)
    values = rng.random(300)
    assert randomisation_test(values, values) == 1.0
    assert randomisation_test(values + 0.2, values) == pytest.approx(2 / 10_000)  # two-sided
    assert randomisation_test(values, rng.permutation(values)) > 0.05


def test_one_question_proves_nothing() -> None:
    assert randomisation_test(np.array([1.0]), np.array([0.1])) == 1.0
    assert randomisation_test(np.array([1.0, 0.5]), np.array([0.1, 0.2])) == 0.5  # two of the four swaps of two


def test_a_report_that_is_made_again_says_the_same() -> None:
    """Of many questions, swaps are drawn: by the seed 1, of which another one is nearly the same."""
    rng = np.random.default_rng(7)
    first, second = rng.random(60), rng.random(60)
    p_value = randomisation_test(first, second)
    assert randomisation_test(first, second) == randomisation_test(first, second, seed=1) == p_value
    others = [randomisation_test(first, second, seed=seed) for seed in (2, 3, 4)]
    assert set(others) != {p_value}
    assert others == pytest.approx([p_value] * 3, abs=0.03)


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


BM25 = np.array([0.5, 0.2, 1.0, 0.25, 0.5, 1.0, 0.1, 0.2])
ABOVE, BELOW = np.minimum(BM25 + 0.3, 1.3), BM25 - 0.05


def test_both_tests_are_exact_and_corrected() -> None:
    uneven = np.array([0.9, 0.1, 1.0, 0.3, 0.7, 1.0, 0.2, 0.25])
    gain = Gain.over_bm25(uneven, BM25, ABOVE)
    assert gain.fusion is not None
    small, large = sorted([naive_p(uneven, BM25), naive_p(ABOVE, BM25)])
    assert naive_p(ABOVE, BM25) == small == 2 / 2**8
    assert gain.fusion.p_value == pytest.approx(2 * small)
    assert gain.model.p_value == pytest.approx(max(large, 2 * small))
    assert gain.model.mrr == pytest.approx(uneven.mean() - BM25.mean())
    alone = Gain.over_bm25(uneven, BM25, None)
    assert (alone.fusion, alone.model.p_value) == (None, pytest.approx(large))
    assert (alone.n_questions, alone.only_new) == (8, False)
    assert Gain.over_bm25(uneven, BM25, None, only_new=True).only_new


CASES = {"better": (0.3, 0.0004), "worse": (-0.3, 0.0004), "undecided": (-0.01, 0.3), "equal": (0.0, 1.0)}
CHANCE = "not shown to be better than BM25 (chance may explain the difference)"
SENTENCES = {
    ("better", None): "Better than BM25",
    ("worse", None): "Worse than BM25",
    ("undecided", None): "Not shown to be better than BM25 (chance may explain the difference)",
    ("equal", None): "Not better than BM25",
    ("better", "better"): "Better than BM25, alone and with BM25's score added,",
    ("better", "worse"): "Alone better than BM25, with BM25's score added worse than BM25,",
    ("better", "undecided"): f"Alone better than BM25, with BM25's score added {CHANCE},",
    ("better", "equal"): "Alone better than BM25, with BM25's score added not better than BM25,",
    ("worse", "better"): "Alone worse than BM25, with BM25's score added better than BM25,",
    ("worse", "worse"): "Worse than BM25, alone and with BM25's score added,",
    ("worse", "undecided"): f"Alone worse than BM25, with BM25's score added {CHANCE},",
    ("worse", "equal"): "Alone worse than BM25, with BM25's score added not better than BM25,",
    ("undecided", "better"): f"Alone {CHANCE}, with BM25's score added better than BM25,",
    ("undecided", "worse"): f"Alone {CHANCE}, with BM25's score added worse than BM25,",
    ("undecided", "undecided"): f"N{CHANCE[1:]}, alone and with BM25's score added,",
    ("undecided", "equal"): f"Alone {CHANCE}, with BM25's score added not better than BM25,",
    ("equal", "better"): "Alone not better than BM25, with BM25's score added better than BM25,",
    ("equal", "worse"): "Alone not better than BM25, with BM25's score added worse than BM25,",
    ("equal", "undecided"): f"Alone not better than BM25, with BM25's score added {CHANCE},",
    ("equal", "equal"): "Not better than BM25, alone and with BM25's score added,",
}
"""What is said of the model alone and of its fusion, `None` where there is none."""


@pytest.mark.parametrize(("model", "fusion"), SENTENCES)
def test_the_verdict_fits_the_numbers_beside_it(model: str, fusion: str | None) -> None:
    gain = Gain(8, Difference(*CASES[model]), Difference(*CASES[fusion]) if fusion else None)
    added = "; with BM25's score added MRR {:+.3f}, p = {:.4f}".format(*CASES[fusion]) if fusion else ""
    alone = "alone MRR {:+.3f}, p = {:.4f}".format(*CASES[model])
    assert str(gain) == f"{SENTENCES[model, fusion]} on the 8 dev questions ({alone}{added})."
    assert gain.better is ("better" in (model, fusion))


def test_every_combination_is_told() -> None:
    assert set(SENTENCES) == set(product(CASES, [*CASES, None]))


@pytest.mark.parametrize(
    ("mrr", "p_value", "verdict"),
    [
        (0.1, 0.0499, "better"),
        (0.1, 0.05, "undecided"),
        (-0.1, 0.0499, "worse"),
        (-0.1, 0.05, "undecided"),
        (0.0, 1.0, "equal"),
    ],
)
def test_what_chance_may_explain(mrr: float, p_value: float, verdict: str) -> None:
    assert Difference(mrr, p_value).verdict == verdict


def test_measured_ranks_get_the_verdict_of_their_test() -> None:
    verdicts = {"better": ABOVE, "worse": BELOW, "equal": BM25, "undecided": BM25 + np.eye(8)[0] / 2}
    for (model, ranks), (fusion, fused) in product(verdicts.items(), repeat=2):
        gain = Gain.over_bm25(ranks, BM25, fused)
        assert gain.fusion is not None
        assert (gain.model.verdict, gain.fusion.verdict) == (model, fusion)
