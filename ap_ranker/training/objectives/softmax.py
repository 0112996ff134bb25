"""In-batch softmax: every other answer of the batch is a negative at no extra cost.

Henderson et al., Efficient Natural Language Response Suggestion for Smart Reply, 2017.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ap_ranker.training.objectives.spec import NEGATIVE, ObjectiveSpec, ScoredBatch


def in_batch_softmax(batch: ScoredBatch) -> Tensor:
    """-log of the softmax probability of a+ among itself and the negatives, at a temperature.

    Other right answers of the question are left out of the sum: they are no competitors.

    Args:
        batch: scores and labels (B, N), target (B,), temperature.

    Returns:
        The mean over the batch.
    """
    target = batch.target
    competes = (batch.relevance == NEGATIVE).scatter(1, target.unsqueeze(1), True)
    logits = (batch.scores / batch.temperature).masked_fill(~competes, float("-inf"))
    return torch.nn.functional.cross_entropy(logits, target)


SPEC = ObjectiveSpec("softmax", in_batch_softmax)
