"""Cross-entropy of each (question, answer, label) on its own (Severyn & Moschitti, SIGIR 2015)."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from ap_ranker.training.objectives.spec import IGNORE, POSITIVE, ObjectiveSpec, ScoredBatch


def pointwise(batch: ScoredBatch) -> Tensor:
    """-log P(label of the pair); a score over the temperature is the log-odds of a right answer.

    Args:
        batch: scores (B, N), or (B, N, K) logits of K classes, which no temperature divides; labels (B, N).

    Returns:
        The mean over all pairs that are not ignored.
    """
    labelled = batch.labels != IGNORE
    scores = batch.scores[labelled]
    if scores.dim() > 1:
        return cross_entropy(scores, batch.labels[labelled])
    right = (batch.relevance[labelled] == POSITIVE).to(scores.dtype)
    return binary_cross_entropy_with_logits(scores / batch.temperature, right)


SPEC = ObjectiveSpec(
    "pointwise",
    pointwise,
    own_candidates=True,  # comparing all B x N pairs by a network would cost too much
    batch_size=16,
    random_negatives=15,
    hard_negatives=15,
    classes=True,
)
