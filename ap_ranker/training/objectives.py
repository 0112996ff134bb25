"""What a batch's scores should look like.

Every objective is a function of the (B, N) scores of B questions with N answers and their (B, N) relevance: `POSITIVE`
where the answer is right, `NEGATIVE` where it counts as wrong, `IGNORE` where nothing may be learnt from the pair.
"""

from __future__ import annotations

import torch
from torch import Tensor

POSITIVE, NEGATIVE, IGNORE = 1, 0, -1


def hinge(scores: Tensor, relevance: Tensor, target: Tensor, margin: float) -> Tensor:
    """max(0, m - s(q, a+) + s(q, a-)) with the highest-scoring a- (dos Santos et al. 2016, section 2.3).

    Args:
        scores: (B, N).
        relevance: (B, N).
        target: (B,) which answer is the question's a+ in this batch.
        margin: m.

    Returns:
        The mean over the batch; a question without any negative in the batch adds nothing.
    """
    positive = scores.gather(1, target.unsqueeze(1)).squeeze(1)
    hardest = scores.masked_fill(relevance != NEGATIVE, float("-inf")).amax(dim=1)
    return torch.relu(margin - positive + hardest).mean()


def in_batch_softmax(scores: Tensor, relevance: Tensor, target: Tensor, temperature: float) -> Tensor:
    """-log of the softmax probability of a+ among itself and the negatives, at a temperature.

    Other right answers of the question are left out of the sum: they are no competitors.

    Args:
        scores: (B, N).
        relevance: (B, N).
        target: (B,) which answer is the question's a+ in this batch.
        temperature: divides the scores.

    Returns:
        The mean over the batch.
    """
    competes = (relevance == NEGATIVE).scatter(1, target.unsqueeze(1), True)
    logits = (scores / temperature).masked_fill(~competes, float("-inf"))
    return torch.nn.functional.cross_entropy(logits, target)


def pointwise(scores: Tensor, relevance: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of each (question, answer, label) on its own; a score over the temperature is a log-odds.

    Args:
        scores: (B, N).
        relevance: (B, N).
        temperature: divides the scores.

    Returns:
        The mean over all pairs that are not ignored.
    """
    judged = relevance != IGNORE
    labels = (relevance[judged] == POSITIVE).to(scores.dtype)
    return torch.nn.functional.binary_cross_entropy_with_logits(scores[judged] / temperature, labels)


def listwise(scores: Tensor, relevance: Tensor, temperature: float) -> Tensor:
    """-log of the softmax over a question's own candidates, averaged over its right answers (Wang & Jiang 2017).

    As the Kullback-Leibler divergence of Bian et al. 2017 (section 3), whose other term is a constant.

    Args:
        scores: (B, N).
        relevance: (B, N); each question has at least one right answer, and only its own candidates are not ignored.
        temperature: divides the scores.

    Returns:
        The mean over the questions.
    """
    logits = (scores / temperature).masked_fill(relevance == IGNORE, float("-inf"))
    right = relevance == POSITIVE
    losses = -logits.log_softmax(dim=1).masked_fill(~right, 0.0).sum(dim=1) / right.sum(dim=1)
    return losses.mean()
