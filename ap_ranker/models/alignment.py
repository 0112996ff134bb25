"""Soft alignment: for each token of one text, what the other text says about it. P pairs of M and L tokens."""

from __future__ import annotations

from torch import Tensor

from ap_ranker.models.pooling import masked_softmax


def dot_products(first: Tensor, second: Tensor) -> Tensor:
    """(P, M, C), (P, L, C) -> (P, M, L)."""
    return first @ second.transpose(1, 2)


def align(scores: Tensor, others: Tensor, mask: Tensor) -> Tensor:
    """Each token's mean of the other text's states, weighted by the softmax of its scores.

    Args:
        scores: (P, M, L).
        others: (P, L, C) the other text's states.
        mask: (P, L) the other text's real tokens.

    Returns:
        (P, M, C).
    """
    return masked_softmax(scores, mask.unsqueeze(1)) @ others
