"""Hinge loss on the hardest negative (dos Santos et al., Attentive Pooling Networks, 2016, section 2.3)."""

from __future__ import annotations

import torch
from torch import Tensor

from ap_ranker.training.objectives.spec import NEGATIVE, ObjectiveSpec, ScoredBatch


def hinge(batch: ScoredBatch) -> Tensor:
    """max(0, m - s(q, a+) + s(q, a-)) with the highest-scoring a- of the batch; m is the margin.

    Args:
        batch: scores and labels (B, N), target (B,), margin.

    Returns:
        The mean over the batch; a question without any negative in the batch adds nothing.
    """
    positive = batch.scores.gather(1, batch.target.unsqueeze(1)).squeeze(1)
    hardest = batch.scores.masked_fill(batch.relevance != NEGATIVE, float("-inf")).amax(dim=1)
    return torch.relu(batch.margin - positive + hardest).mean()


SPEC = ObjectiveSpec("hinge", hinge, random_negatives=50)  # as in the papers
