"""Padded batches of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PAD = 0
"""The id of the padding token in every vocabulary; its vector is zero."""

UNKNOWN = 1
"""The id of `[UNK]` in every vocabulary: a word that is not in it."""

Span = tuple[int, int]
"""The character offsets of a token in a text: its start and its end (exclusive)."""


@dataclass(frozen=True)
class TokenBatch:
    """Token ids of N texts, padded to the longest of them (T tokens).

    Attributes:
        ids: (N, T) int64; `PAD` after the end of a text.
        mask: (N, T) bool; True on real tokens. Every text has at least one token.
    """

    ids: Tensor
    mask: Tensor

    @classmethod
    def from_lists(cls, texts: Sequence[Sequence[int]], device: torch.device | str | None = None) -> TokenBatch:
        """Pad lists of token ids, none of which may be empty."""
        width = max(map(len, texts))
        ids = torch.full((len(texts), width), PAD)
        mask = torch.zeros(len(texts), width, dtype=torch.bool)
        for row, tokens in enumerate(texts):
            ids[row, : len(tokens)] = torch.as_tensor(tokens)
            mask[row, : len(tokens)] = True
        return cls(ids.to(device), mask.to(device))
