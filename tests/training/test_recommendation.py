"""Whether a new search is at least as good as the one before, against plain loops and made gains."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ap_ranker.ranking.decision import Decider
from ap_ranker.ranking.rule import MODEL, Calibration, Signals, Weights
from ap_ranker.ranking.verdict import WRONG_COSTS
from ap_ranker.training.recommendation import GAINS, MRR, SHRUNK, UTILITY, GainPrior, Served, verdict


def naive_certainty(prior: GainPrior, gains: list[float]) -> float:
    """By the density of the mean gain on a fine grid: prior times likelihood."""
    grid = np.linspace(-2, 2, 200_001)
    log_density = -0.5 * ((grid - prior.mean) / prior.deviation) ** 2
    if gains:
        mean = sum(gains) / len(gains)
        squares = sum((gain - mean) ** 2 for gain in gains)
        variance = (SHRUNK * prior.of_question**2 + squares) / (SHRUNK + len(gains) - 1)
        for gain in gains:
            log_density = log_density - 0.5 * (gain - grid) ** 2 / variance
    density = np.exp(log_density - log_density.max())
    return float(density[grid >= 0].sum() / density.sum())


@pytest.mark.parametrize("count", [0, 1, 3, 20, 200])
@pytest.mark.parametrize("mean", [-0.1, 0.0, 0.05])
def test_the_certainty_is_that_of_the_posterior(count: int, mean: float) -> None:
    draw = np.random.default_rng(count)
    prior = GainPrior(mean, 0.08, 0.5)
    gains = draw.normal(0.02, 0.4, size=count)
    assert prior.certainty(gains) == pytest.approx(naive_certainty(prior, gains.tolist()), abs=2e-4)


def test_a_few_equal_gains_prove_nothing() -> None:
    prior = GainPrior(-0.02, 0.05, 0.8)
    assert prior.certainty(np.ones(3)) < 0.7
    assert prior.certainty(np.ones(300)) > 0.999


def served(utility: np.ndarray, ranks: np.ndarray) -> Served:
    return Served(utility > 0, utility < 0, ranks)


def drawn(right: float, wrong: float, rank: float, count: int, seed: int) -> Served:
    """Answers of which so many are right, so many wrong, and the others a maybe, and ranks with that mean."""
    draw = np.random.default_rng(seed).random((2, count))
    utility = np.where(draw[0] < right, 1.0, np.where(draw[0] > 1 - wrong, -1.0, 0.0))
    return served(utility, np.where(draw[1] < rank, 1.0, 0.25))


def test_a_training_that_clearly_gains_is_recommended() -> None:
    before, after = drawn(0.5, 0.08, 0.6, 200, 1), drawn(0.75, 0.04, 0.8, 200, 1)
    found = verdict(before, after, range(200), "untrained", learnt=1000)
    assert found.recommended
    assert found.certainty > 0.95
    assert found.utility_after == pytest.approx((after.right.sum() - WRONG_COSTS * after.wrong.sum()) / 200)
    assert found.mrr_before == pytest.approx(before.reciprocal_rank.mean())
    assert found.explained().startswith("Recommended")


@pytest.mark.parametrize(("right", "wrong", "rank"), [(0.3, 0.08, 0.8), (0.75, 0.3, 0.8), (0.75, 0.04, 0.35)])
def test_a_training_that_loses_in_one_is_not(right: float, wrong: float, rank: float) -> None:
    """Fewer right answers asserted, more wrong ones, or a worse order, whatever else it gains."""
    before, after = drawn(0.5, 0.08, 0.6, 200, 1), drawn(right, wrong, rank, 200, 1)
    found = verdict(before, after, range(200), "untrained", learnt=1000)
    assert not found.recommended
    assert "Not recommended" in found.explained()


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize(("learnt", "recommended"), [(10, False), (30, False), (300, True)])
def test_hardly_any_questions_leave_it_to_what_other_trainings_gained(
    count: int, learnt: int, recommended: bool
) -> None:
    """With few questions to learn from, hardly anything is gained elsewhere: then the search before stays."""
    same = drawn(0.6, 0.1, 0.7, count, 1)
    found = verdict(same, same, range(count), "untrained", learnt=learnt)
    by_prior = min(gains.prior(learnt).certainty(np.zeros(0)) for gains in GAINS.values())
    assert found.n_questions == count
    assert found.certainty == pytest.approx(by_prior, abs=0.02)
    assert found.recommended == recommended


def test_many_equal_questions_are_as_good_as_before() -> None:
    """A search that answers all the same as the one before loses nothing, and gains nothing: the prior still counts."""
    same = drawn(0.6, 0.1, 0.7, 500, 1)
    assert 0.5 < verdict(same, same, range(500), "untrained", learnt=100).certainty < 0.75


def test_near_copies_count_as_one_question() -> None:
    before, after = drawn(0.5, 0.08, 0.6, 60, 1), drawn(0.62, 0.08, 0.68, 60, 2)
    alone = verdict(before, after, range(60), "untrained", learnt=100)
    repeated = [
        Served(*(np.repeat(values, 5) for values in (each.right, each.wrong, each.reciprocal_rank)))
        for each in (before, after)
    ]
    copies = verdict(*repeated, np.repeat(np.arange(60), 5).tolist(), "untrained", learnt=100)
    assert copies.certainty == pytest.approx(alone.certainty)


def test_what_a_training_gains_grows_from_nothing_and_is_less_over_a_trained_search() -> None:
    for measure in (UTILITY, MRR):
        means = [GAINS[measure].prior(number).mean for number in (0, 10, 100, 1000)]
        assert means[0] == 0
        assert means == sorted(means)
        assert GAINS[measure].prior(300, 300).mean == 0
        assert 0 < GAINS[measure].prior(300, 100).mean < means[2]


def test_what_is_served_is_what_a_loop_over_answers_finds() -> None:
    draw = np.random.default_rng(0)
    calibration = Calibration(4.0, 2.0, -3.0, {"0.8": 0.6}, floor=-0.5)
    decider = Decider("d", Weights(), {MODEL: calibration}, lambda scores: scores)
    signals = [Signals(draw.normal(size=5) - (row % 3)) for row in range(60)]
    right = [np.arange(5) == draw.integers(5) for _ in signals]
    found = Served.of(signals, right, [decider] * len(signals))
    for row, (one, relevant) in enumerate(zip(signals, right, strict=True)):
        ordered = sorted(range(5), key=lambda place: -one.model[place])
        first, second = one.model[ordered[0]], one.model[ordered[1]]
        probability = 1 / (1 + math.exp(-(4 * first + 2 * (first - second) - 3)))
        is_none = first < -0.5
        is_answer = not is_none and probability >= 0.6
        assert found.right[row] == (is_answer and relevant[ordered[0]])
        assert found.wrong[row] == (is_answer and not relevant[ordered[0]])
        expected = 0.0 if is_none else 1 / (1 + ordered.index(int(np.flatnonzero(relevant)[0])))
        assert found.reciprocal_rank[row] == pytest.approx(expected)
    assert 0 < found.right.sum() < 60
    assert found.wrong.any()
    assert (found.reciprocal_rank == 0).any()
