"""Coordinate ascent: weights of a linear ranker that maximise MAP directly (Metzler & Croft 2007, section 4).

Each step moves one weight to the value with the highest MAP and holds the others, until no weight can raise MAP. MAP is
a step function of one weight: each candidate's score is a straight line in it, and ranks change only where two lines
cross. So the crossings give the best value of that weight exactly, without step sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_ROUNDS, LEAST_GAIN = 20, 1e-5
"""Maximum number of passes over all weights, and minimum gain in MAP for which a weight is changed."""


def average_precision(scores: np.ndarray, relevant: np.ndarray) -> float:
    """The mean precision at each relevant candidate, 0 without any; (n,), (n,) bool. Ties keep their order."""
    hits = relevant[np.argsort(-scores, kind="stable")]
    ranks = np.flatnonzero(hits) + 1
    return float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else 0.0


def coordinate_ascent(features: Sequence[np.ndarray], relevant: Sequence[np.ndarray], start: np.ndarray) -> np.ndarray:
    """(F,) weights w whose ranking by `features @ w` has an MAP that no change of a single weight can raise.

    They have the same sum of absolute values as those at the `start`: scaling does not change the ranking.

    Args:
        features: per question, (n_candidates, F).
        relevant: per question, (n_candidates,) bool; questions without a right candidate are ignored.
        start: (F,).
    """
    questions = [(f.astype(float), r.astype(bool)) for f, r in zip(features, relevant, strict=True) if r.any()]
    weights = start.astype(float)
    if not questions:
        return weights
    best = _map(questions, weights)
    for _ in range(MOST_ROUNDS):
        before = best
        for j in range(len(weights)):
            moved = weights.copy()
            moved[j] = _best_value(questions, weights, j)
            mean_average_precision = _map(questions, moved)
            if mean_average_precision > best + LEAST_GAIN:
                weights, best = moved, mean_average_precision
        if best == before:
            break
    return weights * np.abs(start).sum() / (np.abs(weights).sum() or 1.0)


Questions = list[tuple[np.ndarray, np.ndarray]]


def _map(questions: Questions, weights: np.ndarray) -> float:
    return float(np.mean([average_precision(_scores(f, weights), r) for f, r in questions]))


def _scores(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    # A sum per row in a fixed order gives equal candidates exactly equal scores; a matrix product may not.
    scores: np.ndarray = (features * weights).sum(axis=1)
    return scores


def _best_value(questions: Questions, weights: np.ndarray, j: int) -> float:
    """The value of weight j with the highest MAP, the others held; of several, the nearest to the current one."""
    others = weights.copy()
    others[j] = 0.0
    crossings, changes, first = [], [], 0.0
    for f, r in questions:
        offset, slope = _scores(f, others), f[:, j]
        for k in np.flatnonzero(r).tolist():
            at, precision = _precision(offset, slope, r, k)
            share = 1 / r.sum() / len(questions)
            crossings.append(at)
            changes.append(np.diff(precision) * share)
            first += precision[0] * share
    at, change = np.concatenate(crossings), np.concatenate(changes)
    if not len(at):
        return float(weights[j])
    order = np.argsort(at, kind="stable")
    at = at[order]
    means = first + np.concatenate([[0.0], np.cumsum(change[order])])  # MAP before, between and after the crossings
    points = np.concatenate([[at[0] - 1], (at[:-1] + at[1:]) / 2, [at[-1] + 1]])
    gaps = np.concatenate([[np.inf], np.diff(at), [np.inf]])
    means[gaps <= 1e-9 * (1 + np.abs(points))] = -np.inf  # no room between two crossings
    equal = points[means >= means.max() - 1e-12]
    return float(equal[np.abs(equal - weights[j]).argmin()])


def _precision(offset: np.ndarray, slope: np.ndarray, relevant: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Precision at the rank of candidate k, as a function of one weight w: scores are offset + w · slope.

    (C,) ascending values of w where a line crosses that of k; (C + 1,) precision before, between and after.
    """
    lead, steeper = offset - offset[k], slope - slope[k]
    crosses = steeper != 0
    # For w towards minus infinity the flatter lines are above; parallel ones are above or below for every w.
    above = np.where(crosses, steeper < 0, (lead > 0) | ((lead == 0) & (np.arange(len(offset)) < k)))
    at = -lead[crosses] / steeper[crosses]
    order = np.argsort(at, kind="stable")
    step = np.sign(steeper[crosses])[order]
    rank = 1 + above.sum() + np.concatenate([[0.0], np.cumsum(step)])
    hits = 1 + above[relevant].sum() + np.concatenate([[0.0], np.cumsum(step * relevant[crosses][order])])
    return at[order], hits / rank
