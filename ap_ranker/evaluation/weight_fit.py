"""The weights of the known wordings and of BM25 beside a model's scores: the most probable ones, given a prior.

The prior is what was right on other FAQs. A few questions hardly move a weight from there, many replace it; no test
switches a weight on or off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ap_ranker.ranking.rule import Signals, Weights, ranked_scores


@dataclass(frozen=True)
class WeightPrior:
    """The normal distribution of a weight's logarithm: the median weight, and the deviation of the logarithm."""

    median: float
    deviation: float

    def log_density(self, weight: float) -> float:
        """Of the logarithm of a weight above 0, but for a constant."""
        return -0.5 * float((np.log(weight / self.median) / self.deviation) ** 2)


PRIORS = {"wording": WeightPrior(0.6, 1.0), "bm25": WeightPrior(0.04, 1.2)}
"""Of v, and of u as a multiple of the spread of the ranked scores over that of BM25's, which differs between FAQs: what
was best on all questions of four FAQs after training with 100 (`python examples/training_gain/run.py weights`)."""

STEPS = np.linspace(-5, 5, 51)
"""The weights to try, in deviations from the median."""

SAME = 1e-6
"""The log-likelihoods of all weights, if BM25 ranks as the model does: then there is nothing to add."""

_STEPS = 8  # of Newton's method: more changed no weight


UNTRAINED = WeightPrior(0.3, 0.5)
"""That of v with an untrained encoder. On users' questions of seven FAQs, .3 was about the best weight where an owner
had written 10 or 30 wordings, and .6 to 1 with 100 (`python examples/every_step/wording_weights.py`)."""


def fit_weight(
    signals: Sequence[Signals],
    right: Sequence[NDArray[np.bool_]],
    weights: Weights,
    added: str,
    prior: WeightPrior | None = None,
) -> Weights:
    """The weights with the most probable one of `added`, `wording` or `bm25`.

    The likelihood is that of a conditional logit (McFadden 1974): a right answer is meant with a probability that is
    its share of exp(a f) among the candidates, where f is what they are ranked by and a is fitted for each weight. It
    changes smoothly with the weight, while MRR jumps by chance. Without any question, or where BM25 ranks as the model
    does, nothing tells how much the added scores should count: the weight stays. The `prior` is by default that of
    `PRIORS`, of trained models.
    """
    prior = prior or PRIORS[added]
    if added == "wording":
        unit = 1.0
        is_scored = any(question.best_wording is not None for question in signals)
    else:
        unit = _unit_of_bm25(signals, weights)
        is_scored = any(question.bm25 is not None for question in signals)
    if not unit or not is_scored:
        return weights
    multiples = prior.median * np.exp(STEPS * prior.deviation)
    tried = [replace(weights, **{added: float(multiple * unit)}) for multiple in multiples]
    likelihoods: list[float] = []
    for tried_weights in tried:
        scores = [ranked_scores(question, tried_weights) for question in signals]
        likelihoods.append(log_likelihood(scores, right))
    if added == "bm25" and np.ptp(likelihoods) < SAME:
        return weights
    densities = [prior.log_density(multiple) for multiple in multiples.tolist()]
    return tried[int(np.argmax(np.add(likelihoods, densities)))]


def _unit_of_bm25(signals: Sequence[Signals], weights: Weights) -> float:
    """The spread of the scores without BM25 over that of BM25's; 0 if one of them has none."""
    without_bm25 = replace(weights, bm25=0.0)
    spread = _spread(ranked_scores(question, without_bm25) for question in signals)
    added_spread = _spread(question.bm25 for question in signals if question.bm25 is not None)
    return spread / added_spread if added_spread else 0.0


def log_likelihood(scores: Sequence[NDArray[np.float64]], right: Sequence[NDArray[np.bool_]]) -> float:
    """That of the right answers of all questions, given the (N,) scores of each one's candidates, at the best a."""
    all_lists = _Lists.of(scores)
    right_scores: list[NDArray[np.float64]] = []
    for values, is_right in zip(scores, right, strict=True):
        right_scores.append(values[is_right])
    right_lists = _Lists.of(right_scores)
    scale = 1 / (_spread(scores) or 1.0)
    total = -np.inf
    for _ in range(_STEPS):
        log_all, mean_all, variance_all = all_lists.softmax(scale)
        log_right, mean_right, variance_right = right_lists.softmax(scale)
        total = float((log_right - log_all).sum())
        slope = (mean_right - mean_all).sum()
        bend = (variance_all - variance_right).sum()
        step = slope / bend if bend > 0 else np.copysign(np.inf, slope)
        scale = float(np.clip(scale + step, scale / 3, scale * 3))
    return total


@dataclass(frozen=True)
class _Lists:
    """The values of Q lists, end to end, as they lie below the highest of their list."""

    below: NDArray[np.float64]  # (N,) of all lists
    starts: NDArray[np.int64]  # (Q,) the first place of each list
    highest: NDArray[np.float64]  # (Q,) of each list

    @classmethod
    def of(cls, lists: Sequence[NDArray[np.float64]]) -> _Lists:
        """None of the lists may be empty."""
        values = np.concatenate(lists)
        sizes = [len(members) for members in lists]
        starts = np.cumsum([0, *sizes[:-1]])
        highest = np.maximum.reduceat(values, starts)
        return cls(values - np.repeat(highest, sizes), starts, highest)

    def softmax(self, scale: float) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(Q,) each: log of the sum of exp(a value); the values' mean and variance, weighted by their exp(a value)."""
        weights = np.exp(scale * self.below)
        total = np.add.reduceat(weights, self.starts)
        first = np.add.reduceat(weights * self.below, self.starts)
        second = np.add.reduceat(weights * self.below**2, self.starts)
        mean = first / total
        return np.log(total) + scale * self.highest, self.highest + mean, second / total - mean**2


def _spread(scores: Iterable[NDArray[np.float64]]) -> float:
    """Standard deviation of the scores of a question's candidates, averaged over the questions."""
    return float(np.mean([values.std() for values in scores] or [0.0]))
