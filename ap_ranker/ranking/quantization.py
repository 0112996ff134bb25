"""States in as few bits as wished: half precision or 8-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.models.base import States


class StateDtype(StrEnum):
    """How the numbers of a state are kept."""

    float32 = "float32"
    float16 = "float16"
    int8 = "int8"


def parse_dtype(name: str) -> StateDtype:
    """The dtype of that name.

    Raises:
        InputError: there is none.
    """
    if name not in list(StateDtype):
        raise InputError(f"Expected --dtype to be one of {', '.join(StateDtype)}, found {name!r}.")
    return StateDtype(name)


_DTYPES = {StateDtype.float32: torch.float32, StateDtype.float16: torch.float16, StateDtype.int8: torch.int8}

_SCALE = ".scale"
_LARGEST = 127


def is_per_token(name: str) -> bool:
    """Whether a field has a state per token, not one per text."""
    return not name.startswith("vector")


@dataclass(frozen=True)
class QuantizedStates:
    """The `States` of N texts in fewer bits.

    Attributes:
        fields: those of `States` but the mask: (N, T, C) per token or (N, T) for ids, zero on padding; (N, C) for
            `vector`. An int8 field `x` has its scales beside it as `x.scale`, one per state.
        lengths: (N,) tokens of each text; 1 for models that keep one vector.
    """

    fields: Mapping[str, Tensor]
    lengths: Tensor

    @classmethod
    def quantize(cls, states: States, dtype: StateDtype) -> QuantizedStates:
        """Reduce states; with int8, a state's numbers are rounded to 127ths of its largest."""
        filled = states.filled()
        mask = filled.pop("mask", None)
        fields: dict[str, Tensor] = {}
        for name, value in filled.items():
            if not value.is_floating_point():
                fields[name] = value.int()
            elif dtype == StateDtype.int8:
                fields[name], fields[name + _SCALE] = _rounded(value)
            else:
                fields[name] = value.to(_DTYPES[dtype])
        return cls(fields, torch.ones(len(states), dtype=torch.long) if mask is None else mask.sum(dim=1))

    def converted(self, dtype: StateDtype, device: torch.device) -> QuantizedStates:
        """The same states in this dtype, on this device; as they are if they are so already."""
        dtypes = {value.dtype for name, value in self.fields.items() if not name.endswith(_SCALE)}
        if dtypes <= {_DTYPES[dtype], torch.int32}:  # ids are whole numbers in any dtype
            return QuantizedStates({name: value.to(device) for name, value in self.fields.items()}, self.lengths)
        return QuantizedStates.quantize(self.dequantize(device), dtype)

    def is_finite(self) -> bool:
        """Whether all numbers are; those too large for a dtype become infinite."""
        return all(bool(value.isfinite().all()) for value in self.fields.values())

    def dequantize(self, device: torch.device) -> States:
        """The states in float32; T may exceed the longest text."""
        fields: dict[str, Tensor] = {}
        for name, value in self.fields.items():
            if name.endswith(_SCALE):
                continue
            here = value.to(device)
            if value.dtype == torch.int8:
                fields[name] = here.float() * self.fields[name + _SCALE].to(device).float()
            else:
                fields[name] = here.float() if value.is_floating_point() else here.long()
        width = max((value.shape[1] for name, value in fields.items() if is_per_token(name)), default=0)
        if width:
            fields["mask"] = torch.arange(width, device=device) < self.lengths.to(device).unsqueeze(1)
        return States(**fields)


def _rounded(value: Tensor) -> tuple[Tensor, Tensor]:
    # Half precision cannot hold very small scales; a state of such numbers is zero for every purpose.
    scale = (value.float().abs().amax(dim=-1, keepdim=True) / _LARGEST).half()
    rounded = (value.float() / scale.float().clamp(min=1e-7)).round().clamp(-_LARGEST, _LARGEST)
    return rounded.to(torch.int8), scale
