"""From one state per token to one per text, and softmax over tokens; padding never counts."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension that gives masked-out positions no weight; `mask` broadcasts."""
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)


def max_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): the greatest value of each dimension over the text's tokens."""
    return states.masked_fill(~mask.unsqueeze(2), float("-inf")).amax(dim=1)


def mean_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): the mean over the text's tokens; `states` are zero on padding."""
    return states.sum(dim=1) / mask.sum(dim=1, keepdim=True)


def last_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): the state of the text's last token."""
    last = mask.sum(dim=1) - 1
    return states[torch.arange(len(states), device=states.device), last]


def ends_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): where each direction of a biLSTM ends, forward at the last token, backward at the first."""
    forward, backward = states.chunk(2, dim=2)
    return torch.cat([last_pool(forward, mask), backward[:, 0]], dim=1)
