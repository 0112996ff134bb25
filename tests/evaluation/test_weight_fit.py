"""The weights beside a model's scores, against the formula: each question and each weight one after the other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from ap_ranker.evaluation.weight_fit import PRIORS, UNTRAINED, WeightPrior, fit_weight, log_likelihood
from ap_ranker.ranking.rule import SOFTNESS, Signals, Weights

Planted = tuple[list[Signals], list[np.ndarray]]


def planted(seed: int, questions: int, help_of_others: float = 1.0) -> Planted:
    """Five to eight candidates, one or two of them right, which all scores raise."""
    rng = np.random.default_rng(seed)
    signals: list[Signals] = []
    right: list[np.ndarray] = []
    for size in rng.integers(5, 9, questions):
        is_right = rng.permutation(size) < rng.integers(1, 3)
        model, cosines, wordings, bm25 = (rng.normal(size=size) + help_of_others * is_right for _ in range(4))
        signals.append(Signals(model, cosines, wordings, 7 * bm25))
        right.append(is_right)
    return signals, right


def naive_score(signals: Signals, row: int, wording: float, bm25: float) -> float:
    """f of a candidate."""
    score = float(signals.model[row])
    if wording and signals.cosines is not None and signals.wordings is not None:
        near, other = float(signals.cosines[row]), float(signals.wordings[row])
        soft = max(near, other) + SOFTNESS * math.log1p(math.exp(-abs(near - other) / SOFTNESS))
        score = (score + wording * soft) / (1 + wording)
    if signals.bm25 is not None:
        score += bm25 * float(signals.bm25[row])
    return score


def naive_likelihood(scores: list[list[float]], right: list[np.ndarray]) -> float:
    """McFadden's, at the best scale."""

    def loss(logarithm: float) -> float:
        scale = math.exp(logarithm)
        total = 0.0
        for values, is_right in zip(scores, right, strict=True):
            shares = [math.exp(scale * (value - max(values))) for value in values]
            meant = sum(share for share, flag in zip(shares, is_right, strict=True) if flag)
            total -= math.log(meant / sum(shares))
        return total

    best = minimize_scalar(loss, bounds=(-6, 4), method="bounded", options={"xatol": 1e-9})
    return -float(best.fun)


def naive_weights(planted: Planted, weights: Weights, added: str, prior: WeightPrior) -> list[float]:
    """The weights to try, the most probable one first; each of 51 steps, five deviations to both sides."""
    signals, right = planted
    unit = 1.0
    if added == "bm25":
        spread = np.mean(
            [np.std([naive_score(one, row, weights.wording, 0.0) for row in range(len(one.model))]) for one in signals]
        )
        unit = float(spread / np.mean([np.std(one.bm25) for one in signals if one.bm25 is not None]))
    ranked: list[tuple[float, float]] = []
    for place in range(51):
        deviations = -5 + 0.2 * place
        weight = prior.median * math.exp(deviations * prior.deviation) * unit
        used = replace(weights, **{added: weight})
        scores = [[naive_score(one, row, used.wording, used.bm25) for row in range(len(one.model))] for one in signals]
        ranked.append((naive_likelihood(scores, right) - deviations**2 / 2, weight))
    return [weight for _, weight in sorted(ranked, reverse=True)]


@pytest.mark.parametrize(
    ("added", "beside", "prior"),
    [
        ("bm25", Weights(), None),
        ("bm25", Weights(wording=0.8), None),
        ("bm25", Weights(wording=0.8, bm25=9.0), WeightPrior(0.5, 0.7)),
        ("wording", Weights(), None),
        ("wording", Weights(bm25=0.1), None),
        ("wording", Weights(), UNTRAINED),
    ],
)
@pytest.mark.parametrize(("seed", "questions"), [(1, 4), (2, 12)])
def test_the_weight_is_the_most_probable_one(
    added: str, beside: Weights, prior: WeightPrior | None, seed: int, questions: int
) -> None:
    signals, right = planted(seed, questions)
    fitted = fit_weight(signals, right, beside, added, prior)
    expected, *_ = naive_weights((signals, right), beside, added, prior or PRIORS[added])
    assert getattr(fitted, added) == pytest.approx(expected, rel=1e-6)
    other = "wording" if added == "bm25" else "bm25"
    assert getattr(fitted, other) == getattr(beside, other)


@pytest.mark.parametrize("prior", [WeightPrior(0.6, 1.0), WeightPrior(0.04, 1.2)])
def test_a_prior_is_a_normal_distribution_of_the_logarithm(prior: WeightPrior) -> None:
    distribution = norm(math.log(prior.median), prior.deviation)
    assert prior.log_density(prior.median) == 0
    for weight in (0.001, 0.3, 2.0, 50.0):
        expected = distribution.logpdf(math.log(weight)) - distribution.logpdf(math.log(prior.median))
        assert prior.log_density(weight) == pytest.approx(expected)


def test_where_nothing_tells_a_weight_it_stays() -> None:
    signals, right = planted(3, 10)
    weights = Weights(wording=0.3, bm25=0.2)
    without = [replace(one, bm25=None) for one in signals]
    level = [replace(one, bm25=np.full(len(one.model), 3.0)) for one in signals]
    same_order = [replace(one, cosines=None, bm25=5 * one.model - 2) for one in signals]
    nothing = [replace(one, model=np.zeros(len(one.model)), cosines=None) for one in signals]
    for known in (without, level, same_order, nothing):
        assert fit_weight(known, right, weights, "bm25") == weights
    for known in ([replace(one, wordings=None) for one in signals], [replace(one, cosines=None) for one in signals]):
        assert fit_weight(known, right, weights, "wording") == weights
    for added in PRIORS:
        assert fit_weight([], [], weights, added) == weights


def test_wordings_of_some_questions_are_enough() -> None:
    signals, right = planted(4, 12)
    some = [replace(one, wordings=one.wordings if place % 2 else None) for place, one in enumerate(signals)]
    expected, *_ = naive_weights((some, right), Weights(), "wording", PRIORS["wording"])
    assert fit_weight(some, right, Weights(), "wording").wording == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("shift", [0.0, 900.0])
def test_scores_without_a_difference_have_the_likelihood_of_chance(shift: float) -> None:
    scores = [np.full(4, shift), np.full(10, shift)]
    right = [np.arange(4) < 1, np.arange(10) < 5]
    assert log_likelihood(scores, right) == pytest.approx(math.log(1 / 4) + math.log(5 / 10))


def test_the_likelihood_of_scores_that_are_always_right() -> None:
    """The best scale has no bound; eight steps of at most three times come near to certainty."""
    rng = np.random.default_rng(5)
    right = [np.arange(6) == rng.integers(6) for _ in range(20)]
    scores = [is_right + 0.01 * rng.normal(size=6) for is_right in right]
    assert -0.01 < log_likelihood(scores, right) <= 0
    opposite = [-values for values in scores]
    assert log_likelihood(opposite, right) == pytest.approx(20 * math.log(1 / 6), abs=0.1), "no scale is negative"
