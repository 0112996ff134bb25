"""States of single texts in as few bytes as wished: no padding, half precision or 8-bit integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ap_ranker.models.base import States


class Precision(StrEnum):
    """How the numbers of a state are kept."""

    float32 = "float32"
    float16 = "float16"
    int8 = "int8"


Packed = Mapping[str, Tensor]
"""The fields of one text's `States`: (T, C) per token, (T,) for ids, (C,) for its vector; no mask, since nothing is
padded. An int8 field `x` has its scales beside it as `x.scale`, one per state."""

_SCALE = ".scale"
_LARGEST = 127


def pack(states: States, precision: Precision) -> list[Packed]:
    """The states of N texts as N packed ones.

    With int8, a state's numbers are rounded to 127ths of its largest.
    """
    return [
        {
            key: part.contiguous().clone()  # a copy of its own: a view would keep the whole batch in memory
            for name, value in single.filled().items()
            if name != "mask"
            for key, part in _reduced(name, value[0], precision).items()
        }
        for single in states.split()
    ]


def unpack(texts: Sequence[Packed], device: torch.device) -> States:
    """Packed states of N texts as padded ones in float32."""
    fields: dict[str, Tensor] = {}
    lengths: list[int] = []
    for name in texts[0]:
        if name.endswith(_SCALE):
            continue
        parts = [text[name] for text in texts]
        if name == "vector":
            value = torch.stack(parts)
        else:
            value = pad_sequence(parts, batch_first=True)
            lengths = lengths or [len(part) for part in parts]
        value = value.to(device)
        if value.dtype == torch.int8:
            scales = [text[name + _SCALE] for text in texts]
            scale = torch.stack(scales) if name == "vector" else pad_sequence(scales, batch_first=True)
            value = value.float() * scale.to(device).float()
        elif value.is_floating_point():
            value = value.float()
        else:
            value = value.long()
        fields[name] = value
    if lengths:
        places = torch.arange(max(lengths), device=device)
        fields["mask"] = places < torch.tensor(lengths, device=device).unsqueeze(1)
    return States(**fields)


def length(packed: Packed) -> int:
    """Tokens of a text; 1 for models that keep one vector."""
    return max((len(value) for name, value in packed.items() if not name.startswith("vector")), default=1)


def size(packed: Packed) -> int:
    """Bytes."""
    return sum(value.nbytes for value in packed.values())


def _reduced(name: str, value: Tensor, precision: Precision) -> dict[str, Tensor]:
    if not value.is_floating_point():
        return {name: value.int()}
    if precision == Precision.int8:
        scale = value.float().abs().amax(dim=-1, keepdim=True) / _LARGEST
        # Half precision cannot hold very small scales; a state of such numbers is zero for every purpose.
        scale = scale.half().float()
        reduced = (value.float() / scale.clamp(min=1e-7)).round().clamp(-_LARGEST, _LARGEST)
        return {name: reduced.to(torch.int8), name + _SCALE: scale.half()}
    return {name: value.to(torch.float16 if precision == Precision.float16 else torch.float32)}
