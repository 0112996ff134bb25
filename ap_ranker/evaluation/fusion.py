"""Fits the weights beside the model's score, of the best known wording and of BM25, to the dev questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ap_ranker.evaluation.metrics import Levels
from ap_ranker.ranking.rule import Signals, Weights, rank

RATIOS = np.geomspace(0.02, 50, 35)
"""The weights to try, as multiples of the spread of the ranked scores over that of the added ones."""

FOLDS = 5


def fit_weight(signals: Sequence[Signals], right: Sequence[NDArray[np.bool_]], weights: Weights, added: str) -> Weights:
    """The weights with the one of an added signal that has the best MRR, or 0 if it does not help.

    It helps if, in five-fold cross-validation, weights chosen on four folds raise the MRR of the held-out folds.
    `added` is `wording` or `bm25`; the other weight counts as it is given.
    """
    without = replace(weights, **{added: 0.0})
    values = [each.best_wording if added == "wording" else each.bm25 for each in signals]
    spread = (
        _spread([rank(each, without).scores for each in signals]),
        _spread([each for each in values if each is not None]),
    )
    if len(signals) < 2 * FOLDS or 0 in spread:
        return without
    tried = [replace(weights, **{added: float(each)}) for each in (0.0, *RATIOS * spread[0] / spread[1])]
    ranks = np.array([reciprocal_ranks(signals, right, each) for each in tried])  # (weights, questions)
    fold = np.arange(len(signals)) % FOLDS
    gain = 0.0
    for held_out in range(FOLDS):
        best = ranks[:, fold != held_out].mean(axis=1).argmax()
        gain += (ranks[best] - ranks[0])[fold == held_out].sum()
    return tried[ranks.mean(axis=1).argmax()] if gain > 0 else without


def reciprocal_ranks(
    signals: Sequence[Signals], right: Sequence[NDArray[np.bool_]], weights: Weights
) -> NDArray[np.float64]:
    """(Q,) the expected value of one over the rank of each question's first right candidate."""
    pairs = zip(signals, right, strict=True)
    return np.array([Levels.of(-rank(each, weights).levels, relevant).reciprocal_rank() for each, relevant in pairs])


def _spread(scores: Sequence[NDArray[np.float64]]) -> float:
    """Standard deviation of the scores of a question's candidates, averaged over the questions."""
    return float(np.mean([values.std() for values in scores])) if scores else 0.0
