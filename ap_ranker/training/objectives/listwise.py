"""Softmax over a question's own candidates (Wang & Jiang, A Compare-Aggregate Model, ICLR 2017)."""

from __future__ import annotations

from torch import Tensor

from ap_ranker.training.objectives.spec import IGNORE, POSITIVE, ObjectiveSpec, ScoredBatch


def listwise(batch: ScoredBatch) -> Tensor:
    """-log of the softmax over a question's own candidates, averaged over its right answers.

    As the Kullback-Leibler divergence of Bian et al. 2017 (section 3), whose other term is a constant.

    Args:
        batch: scores and labels (B, N), temperature; each question has at least one right answer, and only its own
            candidates are not ignored.

    Returns:
        The mean over the questions.
    """
    relevance = batch.relevance
    logits = (batch.scores / batch.temperature).masked_fill(relevance == IGNORE, float("-inf"))
    right = relevance == POSITIVE
    losses = -logits.log_softmax(dim=1).masked_fill(~right, 0.0).sum(dim=1) / right.sum(dim=1)
    return losses.mean()


SPEC = ObjectiveSpec(
    "listwise",
    listwise,
    own_candidates=True,
    batch_size=16,
    random_negatives=15,
    hard_negatives=15,
)
