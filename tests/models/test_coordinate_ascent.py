"""Against trec_eval's average precision, and against trying every weight of a fine grid."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.models.baselines import average_precision, coordinate_ascent

GRID = np.concatenate([np.linspace(-4, 4, 1601), [-1e3, 1e3]])


def trec_eval_map(features: list[np.ndarray], relevant: list[np.ndarray], weights: np.ndarray) -> float:
    """Equal scores are ranked by position: their names stand in that order."""
    run, truth = {}, {}
    for q, (f, r) in enumerate(zip(features, relevant, strict=True)):
        order = sorted(range(len(f)), key=lambda i: (-(f @ weights)[i], i))
        run[str(q)] = {str(i): float(-place) for place, i in enumerate(order)}
        truth[str(q)] = {str(i): int(r[i]) for i in range(len(f))}
    found = pytrec_eval.RelevanceEvaluator(truth, {"map"}).evaluate(run)
    return float(np.mean([measures["map"] for measures in found.values()]))


def problem(seed: int, n_features: int, integers: bool = False) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Twelve questions, whose right answers a hidden weighting of noisy features would rank high."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=n_features)
    features, relevant = [], []
    for _ in range(12):
        f = rng.normal(size=(int(rng.integers(3, 15)), n_features))
        truth = f @ hidden + rng.normal(scale=0.7, size=len(f))
        features.append(f.round() if integers else f)
        relevant.append(truth >= np.sort(truth)[-int(rng.integers(1, 4))])
    return features, relevant


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=12))
def test_average_precision_is_trec_evals(candidates: list[tuple[int, bool]]) -> None:
    """Ties and all."""
    scores, relevant = (np.array(column) for column in zip(*candidates, strict=True))
    expected = trec_eval_map([scores[:, None]], [relevant], np.ones(1))
    assert average_precision(scores, relevant) == pytest.approx(expected)


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 5))])
def test_two_weights_are_the_best_of_a_fine_grid(seed: int, integers: bool) -> None:
    """Only the ratio of two weights counts, so where no weight alone can be improved, none on that side is better."""
    features, relevant = problem(seed, 2, integers)
    start = np.array([0.0, 1.0]) if seed % 2 else np.array([1.0, 0.0])
    weights = coordinate_ascent(features, relevant, start)
    sign = np.sign(weights[0])
    brute_force = max(trec_eval_map(features, relevant, np.array([sign, w])) for w in GRID)
    assert trec_eval_map(features, relevant, weights) >= brute_force - 1e-5


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_in_the_end_no_single_weight_can_be_improved(seed: int, integers: bool) -> None:
    features, relevant = problem(seed, 4, integers)
    start = np.array([0.85, 0.0, 0.10, 0.05])
    weights = coordinate_ascent(features, relevant, start)
    reached = trec_eval_map(features, relevant, weights)
    assert reached > trec_eval_map(features, relevant, start)
    for j in range(4):
        for value in GRID[::8]:
            moved = weights.copy()
            moved[j] = value
            assert trec_eval_map(features, relevant, moved) <= reached + 1e-5
    assert np.abs(weights).sum() == pytest.approx(np.abs(start).sum())


def test_same_weights_every_time() -> None:
    runs = [coordinate_ascent(*problem(1, 3), np.ones(3)) for _ in range(2)]
    np.testing.assert_array_equal(*runs)


def test_a_weight_that_does_not_matter_stays() -> None:
    """The second feature is the same for all candidates of a question."""
    features = [np.array([[0.0, 5.0], [1.0, 5.0]]), np.array([[2.0, 3.0], [4.0, 3.0]])]
    relevant = [np.array([False, True]), np.array([False, True])]
    np.testing.assert_array_equal(coordinate_ascent(features, relevant, np.array([0.5, 0.5])), [0.5, 0.5])
    turned = coordinate_ascent(features, relevant, np.array([-0.5, 0.5]))
    assert turned[0] > 0 and turned[1] > 0


def test_nothing_to_learn_leaves_the_weights_alone() -> None:
    start = np.array([1.0, 2.0])
    np.testing.assert_array_equal(coordinate_ascent([], [], start), start)
    np.testing.assert_array_equal(coordinate_ascent([np.ones((3, 2))], [np.zeros(3, dtype=bool)], start), start)
    np.testing.assert_array_equal(coordinate_ascent([np.ones((3, 2))], [np.array([True, False, True])], start), start)
