"""Soft alignment of each token of one text with the tokens of the other. P pairs of M and L tokens."""

from __future__ import annotations

from torch import Tensor

from ap_ranker.models.pooling import masked_softmax


def dot_products(first: Tensor, second: Tensor) -> Tensor:
    """(P, M, C), (P, L, C) -> (P, M, L)."""
    return first @ second.transpose(1, 2)


def align(scores: Tensor, others: Tensor, mask: Tensor) -> Tensor:
    """For each token, the mean of the other text's states, weighted by the softmax of its scores.

    Args:
        scores: (P, M, L).
        others: (P, L, C) states of the other text.
        mask: (P, L) True on real tokens of the other text.

    Returns:
        (P, M, C).
    """
    return masked_softmax(scores, mask.unsqueeze(1)) @ others
