"""Fusion of a model's score with another one, s + w t, with a weight chosen on the dev questions.

The other score is BM25's, or that of the best known wording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = Sequence[NDArray[np.float64]]
"""One array per question: a number for each of its candidates."""

RATIOS = np.geomspace(0.02, 50, 35)
"""The weights to try, as multiples of the spread of the model's scores over that of the added ones."""

FOLDS = 5


@dataclass(frozen=True)
class FusionWeights:
    """The weights of a checkpoint beside the model's score; 0: it does not help.

    Attributes:
        wording: of the best known wording.
        bm25: of BM25's score.
    """

    wording: float
    bm25: float


def fit_weight(model: Scores, added: Scores, right: Sequence[NDArray[np.bool_]]) -> float:
    """The weight of the added score with the best MRR, or 0 if it does not help.

    It helps if, in five-fold cross-validation, weights chosen on four folds raise the MRR of the held-out folds.

    Args:
        model: the model's scores, one array per question.
        added: the other scores of the same candidates.
        right: one array per question: whether each candidate is right; at least one is.
    """
    spread = _spread(model), _spread(added)
    if len(model) < 2 * FOLDS or 0 in spread:
        return 0.0
    weights = np.array([0.0, *RATIOS * spread[0] / spread[1]])
    ranks = np.array(
        [reciprocal_ranks(fuse(model, added, weight), right) for weight in weights]
    )  # (weights, questions)
    fold = np.arange(len(model)) % FOLDS
    gain = 0.0
    for held_out in range(FOLDS):
        best = ranks[:, fold != held_out].mean(axis=1).argmax()
        gain += (ranks[best] - ranks[0])[fold == held_out].sum()
    return float(weights[ranks.mean(axis=1).argmax()]) if gain > 0 else 0.0


def fuse(model: Scores, added: Scores, weight: float) -> list[NDArray[np.float64]]:
    """The fused scores of each question's candidates."""
    return [scores + weight * others for scores, others in zip(model, added, strict=True)]


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
