"""Quantization of states: half precision or 8-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.models.base import States


class StateDtype(StrEnum):
    """The data type of stored states."""

    float32 = "float32"
    float16 = "float16"
    int8 = "int8"


def parse_dtype(name: str | None) -> StateDtype | None:
    """Look up a dtype by name; `None` stays `None`.

    Raises:
        InputError: the name is unknown.
    """
    if name is None:
        return None
    if name not in list(StateDtype):
        raise InputError(f"Expected --dtype to be one of {', '.join(StateDtype)}, found {name!r}.")
    return StateDtype(name)


_DTYPES = {StateDtype.float32: torch.float32, StateDtype.float16: torch.float16, StateDtype.int8: torch.int8}

_SCALE = ".scale"
_LARGEST = 127


@dataclass(frozen=True)
class QuantizedStates:
    """The `States` of N texts in fewer bits. An int8 tensor `x` has its scales beside it as `x.scale`, one per state.

    Attributes:
        lengths: (N,) number of tokens of each text.
        per_token: (N, T, C) numbers or (N, T) integers by name, zero on padding.
        per_text: (N, C) numbers by name.
    """

    lengths: Tensor
    per_token: Mapping[str, Tensor]
    per_text: Mapping[str, Tensor]

    @classmethod
    def quantize(cls, states: States, dtype: StateDtype) -> QuantizedStates:
        """Quantize states; with int8, a state's numbers are rounded to 127ths of its largest absolute value."""
        return cls(states.mask.sum(dim=1), _quantized(states.per_token, dtype), _quantized(states.per_text, dtype))

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers, without padding."""
        tokens = int(self.lengths.sum())
        per_token = sum(value[0, 0].nbytes * tokens for value in self.per_token.values())
        return per_token + sum(value.nbytes for value in self.per_text.values())

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, as `token.NAME` and `text.NAME`."""
        kinds = (("token", self.per_token), ("text", self.per_text))
        return {f"{kind}.{name}": value for kind, tensors in kinds for name, value in tensors.items()}

    def converted(self, dtype: StateDtype, device: torch.device) -> QuantizedStates:
        """The same states in this dtype and on this device, copied only if necessary."""
        dtypes = {value.dtype for name, value in self.tensors().items() if not name.endswith(_SCALE)}
        if dtypes <= {_DTYPES[dtype], torch.int32}:  # ids are whole numbers in any dtype
            return QuantizedStates(self.lengths, _moved(self.per_token, device), _moved(self.per_text, device))
        return QuantizedStates.quantize(self.dequantize(device), dtype)

    def is_finite(self) -> bool:
        """Whether all numbers are finite; those too large for a dtype become infinite."""
        return all(bool(value.isfinite().all()) for value in self.tensors().values())

    def dequantize(self, device: torch.device) -> States:
        """The states in float32; T may exceed the longest text."""
        per_token = _restored(_moved(self.per_token, device))
        width = max((value.shape[1] for value in per_token.values()), default=int(self.lengths.max()))
        mask = torch.arange(width, device=device) < self.lengths.to(device).unsqueeze(1)
        return States(mask, per_token, _restored(_moved(self.per_text, device)))


def _quantized(tensors: Mapping[str, Tensor], dtype: StateDtype) -> dict[str, Tensor]:
    quantized: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if not value.is_floating_point():
            quantized[name] = value.int()
        elif dtype == StateDtype.int8:
            quantized[name], quantized[name + _SCALE] = _rounded(value)
        else:
            quantized[name] = value.to(_DTYPES[dtype])
    return quantized


def _restored(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    restored: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if value.dtype == torch.int8:
            restored[name] = value.float() * tensors[name + _SCALE].float()
        elif not name.endswith(_SCALE):
            restored[name] = value.float() if value.is_floating_point() else value.long()
    return restored


def _moved(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: value.to(device) for name, value in tensors.items()}


def _rounded(value: Tensor) -> tuple[Tensor, Tensor]:
    # Half precision cannot represent very small scales; a state of such small numbers is practically zero.
    scale = (value.float().abs().amax(dim=-1, keepdim=True) / _LARGEST).half()
    rounded = (value.float() / scale.float().clamp(min=1e-7)).round().clamp(-_LARGEST, _LARGEST)
    return rounded.to(torch.int8), scale
