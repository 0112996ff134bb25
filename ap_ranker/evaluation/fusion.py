"""A model's score and BM25's added, s + w BM25, with a weight that is worth it on the dev questions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Scores = Sequence[NDArray[np.float64]]
"""One array per question: a number for each of its candidates."""

RATIOS = np.geomspace(0.02, 50, 35)
"""The weights that are tried, each times the spread of the model's scores over that of BM25's."""

FOLDS = 5


def fit_weight(model: Scores, bm25: Scores, right: Sequence[NDArray[np.bool_]]) -> float:
    """The weight of BM25's score with the best MRR, or 0 if fusion does not help.

    It helps if weights that were chosen on four fifths of the questions raise the MRR of the other fifths.

    Args:
        model: the model's scores.
        bm25: BM25's.
        right: which candidates are right; at least one of each question.
    """
    spread = _spread(model), _spread(bm25)
    if len(model) < 2 * FOLDS or 0 in spread:
        return 0.0
    weights = np.array([0.0, *RATIOS * spread[0] / spread[1]])
    each = np.array([reciprocal_ranks(fuse(model, bm25, weight), right) for weight in weights])  # (weights, questions)
    fold = np.arange(len(model)) % FOLDS
    gain = 0.0
    for held in range(FOLDS):
        best = each[:, fold != held].mean(axis=1).argmax()
        gain += (each[best] - each[0])[fold == held].sum()
    return float(weights[each.mean(axis=1).argmax()]) if gain > 0 else 0.0


def fuse(model: Scores, bm25: Scores, weight: float) -> list[NDArray[np.float64]]:
    """The fused scores of each question's candidates."""
    return [scores + weight * others for scores, others in zip(model, bm25, strict=True)]


def reciprocal_ranks(scores: Scores, right: Sequence[NDArray[np.bool_]]) -> NDArray[np.float64]:
    """(Q,) one over the rank of each question's first right candidate; equal scores keep the given order."""
    found = []
    for values, relevant in zip(scores, right, strict=True):
        place = int(relevant[np.argsort(-values, kind="stable")].argmax())
        found.append(1 / (1 + place))
    return np.array(found)


def _spread(scores: Scores) -> float:
    """How far the scores of a question's candidates lie apart, on average."""
    return float(np.mean([values.std() for values in scores]))
