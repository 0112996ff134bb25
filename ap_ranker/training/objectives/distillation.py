"""Distillation: the student learns the teacher's distribution over answers beside the labels.

Hinton, Vinyals & Dean, Distilling the Knowledge in a Neural Network, 2015 (section 2).

    p = softmax(z / T)    z: (N,) the teacher's scores, divided by its own temperature
    q = softmax(s / T)    s: (N,) the student's scores, likewise
    loss = λ T² KL(p || q) + (1 - λ) (-log of the softmax probability of a+)

The gradient of the first term shrinks with 1 / T², which the factor makes up for. Both softmaxes are over the answers
of the batch that the teacher has scored for the question.
"""

from __future__ import annotations

from torch import Tensor

from ap_ranker.training.objectives.softmax import in_batch_softmax
from ap_ranker.training.objectives.spec import ObjectiveSpec, ScoredBatch


def distillation(batch: ScoredBatch) -> Tensor:
    """The loss above; a question without labels adds only its first term.

    Args:
        batch: scores and labels (B, N), target (B,), temperature, teacher's. A question without labels has only
            `IGNORE`.

    Returns:
        The mean over the batch.
    """
    assert batch.teacher is not None
    known, softness, weight = ~batch.teacher.isnan(), batch.teacher_temperature, batch.teacher_weight
    wanted = batch.teacher.masked_fill(~known, float("-inf")) / softness
    found = (batch.scores / batch.temperature / softness).masked_fill(~known, float("-inf"))
    p, log_p = wanted.softmax(dim=1), wanted.log_softmax(dim=1)
    terms = p * (log_p - found.log_softmax(dim=1)).masked_fill(~known, 0.0)
    divergence = terms.sum(dim=1).mean() * softness**2
    return divergence if weight == 1.0 else weight * divergence + (1 - weight) * in_batch_softmax(batch)


SPEC = ObjectiveSpec("distillation", distillation, needs_teacher=True)

OWN_CANDIDATES = ObjectiveSpec(
    "listwise-distillation",
    distillation,
    own_candidates=True,
    batch_size=16,
    random_negatives=15,
    hard_negatives=15,
    taught_answers=8,
    needs_teacher=True,
)
"""For models that are expensive to match, and for judged candidates."""
