from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ap_ranker.evaluation.significance import Difference, Gain

BM25 = np.array([0.5, 0.2, 1.0, 0.25, 0.5, 1.0, 0.1, 0.2])
ABOVE, BELOW = np.minimum(BM25 + 0.3, 1.3), BM25 - 0.05


def naive_p(first: np.ndarray, second: np.ndarray) -> float:
    """All ways to swap the two systems' values."""
    gap = first - second
    swapped = [abs(np.mean(gap * signs)) for signs in product((1, -1), repeat=len(gap))]
    return float(np.mean([value >= abs(gap.mean()) - 1e-12 for value in swapped]))


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
    assert gain.facts()["better_than_bm25"] is gain.better


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
