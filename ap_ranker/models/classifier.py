"""Models that classify a pair into one of K classes and rank by the odds of the best class."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from ap_ranker.models.base import PairModel, States
from ap_ranker.models.spec import Bounds, Option

CLASSES = Option(
    2,
    "number of classes of the answers' labels; `train` takes it from the data",
    bounds=Bounds(least=2, most=100),
)


class Classifier(PairModel):
    """A softmax over K classes, ordered from worst to best; the score is the log-odds of the last class.

    log P(best) / (1 - P(best)) orders answers as P(best) does, and does not saturate.
    """

    @abstractmethod
    def classify(self, questions: States, answers: States) -> Tensor:
        """(P, K) logits of each question with the answer at the same position."""

    def compare(self, questions: States, answers: States) -> Tensor:
        return log_odds(self.classify(questions, answers))

    def training_pairs(self, questions: States, answers: States, rows: Tensor, columns: Tensor, classes: int) -> Tensor:
        if classes > 2:
            return self.classify(questions[rows], answers[columns])
        return super().training_pairs(questions, answers, rows, columns, classes)


def log_odds(logits: Tensor) -> Tensor:
    """(P, K) -> (P,): the last class against all others."""
    return logits[:, -1] - logits[:, :-1].logsumexp(dim=1)


def hidden_layer(inputs: int, hidden: int, classes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """One hidden layer, then one logit per class."""
    return nn.Sequential(nn.Linear(inputs, hidden), activation(), nn.Linear(hidden, classes))


def both_ways(first: Tensor, second: Tensor) -> Tensor:
    """[x ; y ; x·y ; x-y] of two vectors (P, C) -> (P, 4C)."""
    return torch.cat([first, second, first * second, first - second], dim=1)
