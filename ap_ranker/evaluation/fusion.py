"""Fusion of a model's score and BM25's, s + w BM25, with a weight chosen on the dev questions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Scores = Sequence[NDArray[np.float64]]
"""One array per question: a number for each of its candidates."""

RATIOS = np.geomspace(0.02, 50, 35)
"""The weights to try, as multiples of the spread of the model's scores over that of BM25's."""

FOLDS = 5


def fit_weight(model: Scores, bm25: Scores, right: Sequence[NDArray[np.bool_]]) -> float:
    """The weight of BM25's score with the best MRR, or 0 if fusion does not help.

    It helps if, in five-fold cross-validation, weights chosen on four folds raise the MRR of the held-out folds.

    Args:
        model: the model's scores, one array per question.
        bm25: BM25's scores of the same candidates.
        right: one array per question: whether each candidate is right; at least one is.
    """
    spread = _spread(model), _spread(bm25)
    if len(model) < 2 * FOLDS or 0 in spread:
        return 0.0
    weights = np.array([0.0, *RATIOS * spread[0] / spread[1]])
    ranks = np.array([reciprocal_ranks(fuse(model, bm25, weight), right) for weight in weights])  # (weights, questions)
    fold = np.arange(len(model)) % FOLDS
    gain = 0.0
    for held_out in range(FOLDS):
        best = ranks[:, fold != held_out].mean(axis=1).argmax()
        gain += (ranks[best] - ranks[0])[fold == held_out].sum()
    return float(weights[ranks.mean(axis=1).argmax()]) if gain > 0 else 0.0


def fuse(model: Scores, bm25: Scores, weight: float) -> list[NDArray[np.float64]]:
    """The fused scores of each question's candidates."""
    return [scores + weight * others for scores, others in zip(model, bm25, strict=True)]


def reciprocal_ranks(scores: Scores, right: Sequence[NDArray[np.bool_]]) -> NDArray[np.float64]:
    """(Q,) one over the rank of each question's first right candidate; equal scores keep the given order."""
    above = [
        int(relevant[np.argsort(-values, kind="stable")].argmax())
        for values, relevant in zip(scores, right, strict=True)
    ]
    return 1 / (1 + np.array(above))


def _spread(scores: Scores) -> float:
    """Standard deviation of the scores of a question's candidates, averaged over the questions."""
    return float(np.mean([values.std() for values in scores]))
