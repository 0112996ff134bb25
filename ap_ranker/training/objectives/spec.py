"""An objective as data: its loss, and what it needs from the batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

POSITIVE, NEGATIVE, IGNORE = 1, 0, -1
"""The relevance of an answer to a question: right, counted as wrong, or nothing may be learnt from the pair."""


@dataclass(frozen=True)
class ScoredBatch:
    """What a loss sees of a batch: B questions, each scored with N answers.

    Attributes:
        scores: (B, N); (B, N, K) logits where the objective learns classes and the model has K > 2 of them.
        labels: (B, N) class of each answer for each question, from 0, the worst, to `n_classes` - 1; or `IGNORE`.
        target: (B,) the column of each question's own right answer, a+.
        margin: how far a+ must lead.
        temperature: divides the scores.
        n_classes: classes in the data; the last one is right, all others are wrong.
        teacher: (B, N) a teacher's scores divided by its own temperature; NaN where it has not scored.
        teacher_temperature: T, by which both distributions are softened.
        teacher_weight: λ, the share of the teacher's term in the loss.
    """

    scores: Tensor
    labels: Tensor
    target: Tensor
    margin: float
    temperature: float
    n_classes: int = 2
    teacher: Tensor | None = None
    teacher_temperature: float = 1.0
    teacher_weight: float = 1.0

    @property
    def relevance(self) -> Tensor:
        """(B, N) of `POSITIVE`, `NEGATIVE` and `IGNORE`."""
        return torch.where(self.labels > NEGATIVE, (self.labels == self.n_classes - 1).long(), self.labels)


Loss = Callable[[ScoredBatch], Tensor]
"""A scalar to minimise: the mean over the batch."""


@dataclass(frozen=True)
class ObjectiveSpec:
    """What the trainer knows of an objective.

    Attributes:
        name: what a user types.
        loss: `None` for an objective of the untrained baselines, which need no gradient.
        own_candidates: each question is scored with its own candidates only; otherwise all questions of a batch share
            all its answers.
        batch_size: questions per step, unless the settings say otherwise.
        random_negatives: answers drawn from the whole answer set: per question with own candidates, else per batch.
        hard_negatives: answers drawn per question where the settings ask for hard ones.
        taught_answers: answers per question that are drawn from those that a teacher ranks highest.
        classes: learns all classes of the labels where the model is a classifier, not only the best against the rest.
        needs_teacher: learns from the scores of another model.
        training: without a loss, what takes the place of training, in words.
    """

    name: str
    loss: Loss | None = None
    own_candidates: bool = False
    batch_size: int = 64
    random_negatives: int = 0
    hard_negatives: int = 2  # the whole batch shares them, so a batch of 64 has up to 128
    taught_answers: int = 2  # likewise
    classes: bool = False
    needs_teacher: bool = False
    training: str = ""

    @property
    def needs_gradient(self) -> bool:
        """Whether the model is trained in epochs."""
        return self.loss is not None
