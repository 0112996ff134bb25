"""The weights of the known wordings and of BM25 beside a model's scores, fitted to questions with known answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ap_ranker.evaluation.metrics import Levels
from ap_ranker.ranking.rule import Signals, Weights, rank

RATIOS = np.geomspace(0.02, 50, 35)
"""The weights to try, as multiples of the spread of the ranked scores over that of the added ones."""

MIN_QUESTIONS = 10
"""Fewer questions show nothing."""

_STEPS = 8  # of Newton's method: more changed no weight


def fit_weight(signals: Sequence[Signals], right: Sequence[NDArray[np.bool_]], weights: Weights, added: str) -> Weights:
    """The weights with the likeliest one of `added`, `wording` or `bm25`, or with 0 if it does not help.

    The likelihood is that of a conditional logit (McFadden 1974): a right answer is meant with a probability that is
    its share of exp(a f) among the candidates, where f is what they are ranked by and a is fitted for each weight. It
    changes smoothly with the weight, while MRR jumps by chance. A weight helps if the log-likelihood of all questions
    rises by more than 1, what one parameter more is worth (Akaike 1974), and if MRR rises, too. With fewer than
    `MIN_QUESTIONS` the weights stay as they are.
    """
    without = replace(weights, **{added: 0.0})
    values = (each.best_wording if added == "wording" else each.bm25 for each in signals)
    spread = _spread(rank(each, without).scores for each in signals)
    added_spread = _spread(each for each in values if each is not None)
    if len(signals) < MIN_QUESTIONS or not spread or not added_spread:
        return weights
    tried = [replace(weights, **{added: float(each)}) for each in (0.0, *RATIOS * spread / added_spread)]
    likelihoods = [log_likelihood([rank(each, one).scores for each in signals], right) for one in tried]
    best = tried[int(np.argmax(likelihoods))]
    helps = max(likelihoods) > likelihoods[0] + 1 and _mrr(signals, right, best) > _mrr(signals, right, without)
    return best if helps else without


def log_likelihood(scores: Sequence[NDArray[np.float64]], right: Sequence[NDArray[np.bool_]]) -> float:
    """That of the right answers of all questions, given the (N,) scores of each one's candidates, at the best a."""
    rights = [values[relevant] for values, relevant in zip(scores, right, strict=True)]
    scale, total = 1 / _spread(scores), -np.inf
    for _ in range(_STEPS):
        (log_all, mean_all, variance_all), (log_right, mean_right, variance_right) = (
            _softmax(each, scale) for each in (scores, rights)
        )
        total = float((log_right - log_all).sum())
        slope, bend = (mean_right - mean_all).sum(), (variance_all - variance_right).sum()
        step = slope / bend if bend > 0 else np.copysign(np.inf, slope)
        scale = float(np.clip(scale + step, scale / 3, scale * 3))
    return total


def _softmax(each: Sequence[NDArray[np.float64]], scale: float) -> tuple[NDArray[np.float64], ...]:
    """(Q,) each: log of the sum of exp(a value); mean and variance of the values, weighted by their exp(a value)."""
    values, sizes = np.concatenate(each), [*map(len, each)]
    starts = np.cumsum([0, *sizes[:-1]])
    highest = np.maximum.reduceat(values, starts)
    below = values - np.repeat(highest, sizes)
    weights = np.exp(scale * below)
    total, first, second = (np.add.reduceat(weights * below**power, starts) for power in (0, 1, 2))
    mean = first / total
    return np.log(total) + scale * highest, highest + mean, second / total - mean**2


def _mrr(signals: Sequence[Signals], right: Sequence[NDArray[np.bool_]], weights: Weights) -> float:
    levels = (-rank(each, weights).levels for each in signals)
    return float(np.mean([Levels.of(*pair).reciprocal_rank() for pair in zip(levels, right, strict=True)]))


def _spread(scores: Iterable[NDArray[np.float64]]) -> float:
    """Standard deviation of the scores of a question's candidates, averaged over the questions."""
    return float(np.mean([values.std() for values in scores] or [0.0]))
