"""Operations on token states, which ignore padding: softmax, pooling, alignment; and on whole vectors: similarities.

Sizes: N texts, T tokens, C state size, P pairs of M and L tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def masked_softmax(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Softmax over a dimension that gives masked positions no weight; `mask` broadcasts."""
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=dim)


class _RowAndColumnMax(torch.autograd.Function):
    """The largest values along two dimensions, with one gradient where autograd would add two."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, first: int, second: int) -> tuple[Tensor, Tensor]:
        along_first, along_second = scores.max(dim=first), scores.max(dim=second)
        ctx.save_for_backward(along_first.indices, along_second.indices)
        ctx.dims, ctx.shape = (first, second), scores.shape
        return along_first.values, along_second.values

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        gradient = gradients[0].new_zeros(ctx.shape)
        for dim, indices, values in zip(ctx.dims, ctx.saved_tensors, gradients, strict=True):
            gradient.scatter_add_(dim, indices.unsqueeze(dim), values.unsqueeze(dim))
        return gradient, None, None


def row_and_column_max(scores: Tensor, first: int, second: int) -> tuple[Tensor, Tensor]:
    """The largest values along the first dimension, and along the second; the gradient of each goes to one element."""
    # Autograd's `amax` spreads it over ties instead, and costs several times as much.
    if not scores.requires_grad:
        return scores.amax(dim=first), scores.amax(dim=second)
    return _RowAndColumnMax.apply(scores, first, second)


def max_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): the largest value of each dimension over the text's tokens."""
    real = states.masked_fill(~mask.unsqueeze(2), float("-inf"))
    # `amax` has a slow gradient; `max` also computes indices.
    return real.max(dim=1).values if real.requires_grad else real.amax(dim=1)


def mean_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): the mean over the text's tokens; `states` are zero on padding."""
    return states.sum(dim=1) / mask.sum(dim=1, keepdim=True)


def last_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): the state of the text's last token."""
    last = mask.sum(dim=1) - 1
    return states[torch.arange(len(states), device=states.device), last]


def ends_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): the final states of a biLSTM, forward at the last token, backward at the first."""
    forward, backward = states.chunk(2, dim=2)
    return torch.cat([last_pool(forward, mask), backward[:, 0]], dim=1)


def align(scores: Tensor, others: Tensor, mask: Tensor) -> Tensor:
    """Means of the other text's states, weighted by softmax: (P, M, L), (P, L, C), (P, L) -> (P, M, C)."""
    return masked_softmax(scores, mask.unsqueeze(1)) @ others


def unit(vectors: Tensor) -> Tensor:
    """Vectors (..., C) divided by their length, so that a dot product is a cosine; a zero vector stays zero."""
    return nn.functional.normalize(vectors, dim=-1)


def in_float32(values: Tensor) -> Tensor:
    """Float32 for half precision, in which a GPU trains, and where 1 - 5e-4 is 1; float64 stays float64."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def exact(values: Tensor) -> Tensor:
    """In float64 where a CPU computes without a gradient: its sums, rounded to float32, are the same in any company.

    In float32 the last bit of a product's row depends on the other rows. A bit matters where it is magnified: in an
    answer's 4 bits, where it may turn a step, or near the edge of a hyperbolic ball.
    """
    return values if torch.is_grad_enabled() or values.device.type != "cpu" else values.double()


def gesd(questions: Tensor, answers: Tensor) -> Tensor:
    """1 / (1 + |x - y|) · 1 / (1 + exp(-γ (x·y + c))) with γ = c = 1, between 0 and 1 (Feng et al. 2015, section 3).

    (B, C), (N, C) -> (B, N); leading dimensions, as in (P, 1, C), are aligned pairs.
    """
    distance = torch.cdist(questions, answers, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.sigmoid(questions @ answers.mT + 1) / (1 + distance)
