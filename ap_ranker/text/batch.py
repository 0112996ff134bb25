"""Padded batches of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PAD = 0  # the id of the padding token in every vocabulary; its vector is zero
UNKNOWN = 1  # the id of `[UNK]` in every vocabulary: a word that is not in it


@dataclass(frozen=True)
class TokenBatch:
    """Token ids of N texts (N, T), int64, `PAD` after the end of a text; `mask` (N, T) is True on real tokens."""

    ids: Tensor
    mask: Tensor

    @classmethod
    def from_lists(cls, texts: Sequence[Sequence[int]], device: torch.device | str | None = None) -> TokenBatch:
        """Pad lists of token ids, none of which may be empty."""
        lengths = list(map(len, texts))
        width = max(lengths)
        ids = torch.tensor([[*tokens, *[PAD] * (width - len(tokens))] for tokens in texts])
        mask = torch.arange(width) < torch.tensor(lengths).unsqueeze(1)
        return cls(ids.to(device), mask.to(device))
