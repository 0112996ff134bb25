"""What training optimises. An objective is a loss of a `ScoredBatch`, the mean over it, and a line in `OBJECTIVES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from ap_ranker.errors import check_known

POSITIVE = 1
NEGATIVE = 0
IGNORE = -1
"""The relevance of an answer to a question: right, counted as wrong, or nothing may be learnt from the pair."""


@dataclass(frozen=True)
class ScoredBatch:
    """What a loss sees of a batch: B questions, each scored with N answers."""

    scores: Tensor  # (B, N); (B, N, K) logits where the objective learns classes and the model has K > 2 of them
    labels: Tensor  # (B, N) class of each answer, from 0 to `n_classes` - 1, which alone is right; or `IGNORE`
    target: Tensor  # (B,) the column of each question's own right answer, a+
    margin: float  # how far a+ must lead
    temperature: float  # divides the scores
    n_classes: int = 2
    teacher: Tensor | None = None  # (B, N) its scores divided by its own temperature; NaN where it has not scored
    teacher_temperature: float = 1.0  # T, by which both distributions are softened
    teacher_weight: float = 1.0  # λ, the share of the teacher's term in the loss

    @property
    def relevance(self) -> Tensor:
        """(B, N) of `POSITIVE`, `NEGATIVE` and `IGNORE`."""
        return relevance(self.labels, self.n_classes)


def relevance(labels: Tensor, n_classes: int) -> Tensor:
    """(B, N) classes, or `IGNORE`, as `POSITIVE`, the best class alone, `NEGATIVE` and `IGNORE`."""
    return torch.where(labels > NEGATIVE, (labels == n_classes - 1).long(), labels)


Loss = Callable[[ScoredBatch], Tensor]


def softmax(batch: ScoredBatch) -> Tensor:
    """-log of the softmax probability of a+ among itself and the negatives, which are the batch's other answers.

    Henderson et al., Efficient Natural Language Response Suggestion for Smart Reply, 2017. Other right answers of the
    question are left out of the sum: they are no competitors.
    """
    competes = (batch.relevance == NEGATIVE).scatter(1, batch.target.unsqueeze(1), True)
    return cross_entropy((batch.scores / batch.temperature).masked_fill(~competes, float("-inf")), batch.target)


def hinge(batch: ScoredBatch) -> Tensor:
    """max(0, m - s(q, a+) + s(q, a-)) with the highest-scoring a- of the batch; m is the margin.

    dos Santos et al., Attentive Pooling Networks, 2016, section 2.3. A question without any negative adds nothing.
    """
    positive = batch.scores.gather(1, batch.target.unsqueeze(1)).squeeze(1)
    hardest = batch.scores.masked_fill(batch.relevance != NEGATIVE, float("-inf")).amax(dim=1)
    return torch.relu(batch.margin - positive + hardest).mean()


def pointwise(batch: ScoredBatch) -> Tensor:
    """-log P(label of the pair) of each pair on its own (Severyn & Moschitti, SIGIR 2015).

    A score over the temperature is the log-odds of a right answer; no temperature divides logits of classes.
    """
    labelled = batch.labels != IGNORE
    scores = batch.scores[labelled]
    if scores.dim() > 1:
        return cross_entropy(scores, batch.labels[labelled])
    right = (batch.relevance[labelled] == POSITIVE).to(scores.dtype)
    return binary_cross_entropy_with_logits(scores / batch.temperature, right)


def listwise(batch: ScoredBatch) -> Tensor:
    """-log of the softmax over a question's own candidates, averaged over its right answers, at least one.

    Wang & Jiang, A Compare-Aggregate Model, ICLR 2017; as the Kullback-Leibler divergence of Bian et al. 2017
    (section 3), whose other term is a constant.
    """
    logits = (batch.scores / batch.temperature).masked_fill(batch.relevance == IGNORE, float("-inf"))
    right = batch.relevance == POSITIVE
    of_right = logits.log_softmax(dim=1).masked_fill(~right, 0.0)
    return (-of_right.sum(dim=1) / right.sum(dim=1)).mean()


def distillation(batch: ScoredBatch) -> Tensor:
    """The student learns the teacher's distribution over answers beside the labels.

    Hinton, Vinyals & Dean, Distilling the Knowledge in a Neural Network, 2015 (section 2).

        p = softmax(z / T)    z: (N,) the teacher's scores, divided by its own temperature
        q = softmax(s / T)    s: (N,) the student's scores, likewise
        loss = λ T² KL(p || q) + (1 - λ) (-log of the softmax probability of a+)

    The gradient of the first term shrinks with 1 / T², which the factor makes up for. Both softmaxes are over the
    answers of the batch that the teacher has scored for the question. A question without labels has only `IGNORE`, and
    adds only its first term.
    """
    assert batch.teacher is not None
    is_taught = ~batch.teacher.isnan()
    softness = batch.teacher_temperature
    weight = batch.teacher_weight
    wanted = batch.teacher.masked_fill(~is_taught, float("-inf")) / softness
    logits = (batch.scores / batch.temperature / softness).masked_fill(~is_taught, float("-inf"))
    p = wanted.softmax(dim=1)
    log_p = wanted.log_softmax(dim=1)
    terms = p * (log_p - logits.log_softmax(dim=1)).masked_fill(~is_taught, 0.0)
    divergence = terms.sum(dim=1).mean() * softness**2
    if weight == 1.0:
        return divergence
    return weight * divergence + (1 - weight) * softmax(batch)


@dataclass(frozen=True)
class ObjectiveSpec:
    """What the trainer knows of an objective."""

    name: str  # that a user types
    loss: Loss | None = None  # None for the untrained baselines, which need no gradient
    own_candidates: bool = False  # a question is scored with its own candidates only, not with all of the batch
    batch_size: int = 64  # questions per step, unless the settings say otherwise
    negatives: int = 0  # drawn from all answers: per question with own candidates, else per batch
    taught_answers: int = 2  # per question, drawn from those that a teacher ranks highest; up to 128 are shared
    classes: bool = False  # learns all classes of the labels where the model is a classifier, not the best against all
    needs_teacher: bool = False  # learns from the scores of another model
    training: str = ""  # without a loss, what takes the place of training, in words

    @property
    def needs_gradient(self) -> bool:
        """Whether the model is trained in epochs."""
        return self.loss is not None


_OWN: dict[str, Any] = {"own_candidates": True, "batch_size": 16, "negatives": 15}

SHARED_DISTILLATION = "distillation"
OWN_DISTILLATION = "listwise-distillation"
"""The second is for judged candidates, and for models that are expensive to match."""

OBJECTIVES: dict[str, ObjectiveSpec] = {
    spec.name: spec
    for spec in (
        ObjectiveSpec("softmax", softmax),
        ObjectiveSpec("hinge", hinge, negatives=50),  # as in the papers
        ObjectiveSpec("pointwise", pointwise, classes=True, **_OWN),  # B x N pairs cost a network too much
        ObjectiveSpec("listwise", listwise, **_OWN),
        ObjectiveSpec(SHARED_DISTILLATION, distillation, needs_teacher=True),
        ObjectiveSpec(OWN_DISTILLATION, distillation, needs_teacher=True, taught_answers=8, **_OWN),
        # Of models that `AnswerModel.fit` fits (Metzler & Croft 2007, section 4), or that only count words.
        ObjectiveSpec("counts", training="none: it counts words"),
        ObjectiveSpec("coordinate-ascent", training="its weights are fitted to MAP"),
    )
}


def objective_spec(name: str) -> ObjectiveSpec:
    """Look an objective up; InputError, which lists the known ones, if the name is unknown."""
    check_known("objective", name, OBJECTIVES)
    return OBJECTIVES[name]
