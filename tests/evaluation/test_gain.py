from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ap_ranker.evaluation.gain import gain_over_bm25

BM25 = np.array([0.5, 0.2, 1.0, 0.25, 0.5, 1.0, 0.1, 0.2])
ABOVE, BELOW = np.minimum(BM25 + 0.3, 1.3), BM25 - 0.05


def naive_p(first: np.ndarray, second: np.ndarray) -> float:
    """All ways to swap the two systems' values."""
    gap = first - second
    swapped = [abs(np.mean(gap * signs)) for signs in product((1, -1), repeat=len(gap))]
    return float(np.mean([value >= abs(gap.mean()) - 1e-12 for value in swapped]))


def test_both_tests_are_exact_and_corrected() -> None:
    uneven = np.array([0.9, 0.1, 1.0, 0.3, 0.7, 1.0, 0.2, 0.25])
    found = gain_over_bm25(uneven, BM25, ABOVE)
    assert found.fusion is not None
    small, large = sorted([naive_p(uneven, BM25), naive_p(ABOVE, BM25)])
    assert naive_p(ABOVE, BM25) == small == 2 / 2**8
    assert found.fusion.p_value == pytest.approx(2 * small)
    assert found.model.p_value == pytest.approx(max(large, 2 * small))
    assert found.model.mrr == pytest.approx(uneven.mean() - BM25.mean())
    alone = gain_over_bm25(uneven, BM25, None)
    assert (alone.fusion, alone.model.p_value) == (None, pytest.approx(large))


@pytest.mark.parametrize(
    ("model", "fusion", "better", "sentence"),
    [
        (ABOVE, None, True, "Better than BM25 on the 8 dev questions (alone MRR +0.300, p = 0.0078)."),
        (
            BM25,
            ABOVE,
            True,
            "Better than BM25 only with BM25's score added on the 8 dev questions (alone MRR +0.000, p = 1.0000; "
            "with BM25's score added MRR +0.300, p = 0.0156).",
        ),
        (BELOW, None, False, "Not better than BM25 on the 8 dev questions (alone MRR -0.050, p = 0.0078)."),
        (BM25, None, False, "Not better than BM25 on the 8 dev questions (alone MRR +0.000, p = 1.0000)."),
        (
            BM25 + np.eye(8)[0] / 2,
            None,
            False,
            "Not shown to be better than BM25, as chance may explain the difference, on the 8 dev questions (alone "
            "MRR +0.062, p = 1.0000).",
        ),
    ],
)
def test_the_verdict(model: np.ndarray, fusion: np.ndarray | None, better: bool, sentence: str) -> None:
    found = gain_over_bm25(model, BM25, fusion)
    assert (found.better, str(found)) == (better, sentence)
    assert found.facts()["better_than_bm25"] is better
