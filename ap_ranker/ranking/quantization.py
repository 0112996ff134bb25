"""Quantization of states: half precision, 8-bit or 4-bit integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.models.base import AnswerModel, States, StoredStates


class StateDtype(StrEnum):
    """The data type of stored states. int4: states of tokens in 4 bits a number, those of whole texts in 8."""

    float32 = "float32"
    float16 = "float16"
    int8 = "int8"
    int4 = "int4"


def parse_dtype(name: str | None) -> StateDtype | None:
    """Look up a dtype by name, with an InputError if it is unknown; `None` stays `None`."""
    if name is not None and name not in list(StateDtype):
        raise InputError(f"Expected --dtype to be one of {', '.join(StateDtype)}, found {name!r}.")
    return None if name is None else StateDtype(name)


def state_dtype(
    model: AnswerModel, wanted: StateDtype | None, otherwise: StateDtype = StateDtype.float32
) -> StateDtype:
    """The data type in which a model's states are stored: the wanted one, or that with the fewest bits that cost
    nothing.

    `otherwise` is that of a model that any fewer bits cost something.
    """
    if not model.supports_quantization:
        return StateDtype.float32
    return wanted or (StateDtype.int8 if model.stored_bits == 8 else otherwise)


_FLOATS = {StateDtype.float32: torch.float32, StateDtype.float16: torch.float16}

_PACKED = torch.uint8
"""The dtype of two 4-bit numbers in a byte, so that they cannot be taken for 8-bit ones."""

_SCALE = ".scale"
_LARGEST = 127
_LARGEST_OF_4_BITS = 7


@dataclass(frozen=True)
class QuantizedStates(StoredStates):
    """The `States` of N texts in fewer bits; `per_token` has (R, C / 2) bytes in 4 bits."""

    @classmethod
    def quantize(cls, states: States, dtype: StateDtype) -> QuantizedStates:
        """Quantize states: a state's numbers are rounded to 127ths of its largest absolute value, to 7ths in 4 bits.

        A token's state of an odd number of numbers takes 8 bits a number also with int4.
        """
        per_token = {name: value[states.mask] for name, value in states.per_token.items()}
        lengths = states.mask.sum(dim=1).cpu().numpy()
        return cls(lengths, _quantized(per_token, dtype), _quantized(states.per_text, _of_texts(dtype)))

    @classmethod
    def joined(cls, parts: Sequence[QuantizedStates]) -> QuantizedStates:
        """The texts of all parts."""
        lengths = np.concatenate([part.lengths for part in parts])
        per_token = _joined([part.per_token for part in parts])
        per_text = _joined([part.per_text for part in parts])
        return cls(lengths, per_token, per_text)

    def split(self) -> list[QuantizedStates]:
        """Each text alone, in memory of its own."""
        per_token = {name: value.split(self.lengths.tolist()) for name, value in self.per_token.items()}
        rows: list[QuantizedStates] = []
        for row in range(len(self.lengths)):
            own_tokens = {name: values[row].clone() for name, values in per_token.items()}
            own_text = {name: value[row : row + 1].clone() for name, value in self.per_text.items()}
            rows.append(QuantizedStates(self.lengths[row : row + 1], own_tokens, own_text))
        return rows

    def __getitem__(self, rows: Sequence[int]) -> QuantizedStates:
        texts = self.split()
        return QuantizedStates.joined([texts[row] for row in rows])

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return sum(value.nbytes for value in (*self.per_token.values(), *self.per_text.values()))

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, as `token.NAME` and `text.NAME`."""
        of_tokens = {f"token.{name}": value for name, value in self.per_token.items()}
        return of_tokens | {f"text.{name}": value for name, value in self.per_text.items()}

    def converted(self, dtype: StateDtype, device: torch.device) -> QuantizedStates:
        """The same states in this dtype and on this device, copied only if necessary."""
        if _is_quantized(self.per_token, dtype) and _is_quantized(self.per_text, _of_texts(dtype)):
            per_token = {name: value.to(device) for name, value in self.per_token.items()}
            per_text = {name: value.to(device) for name, value in self.per_text.items()}
            return QuantizedStates(self.lengths, per_token, per_text)
        return QuantizedStates.quantize(self.dequantize(device), dtype)

    def is_finite(self) -> bool:
        """Whether all numbers are finite; those too large for a dtype become infinite."""
        return all(bool(value.isfinite().all()) for value in self.tensors().values())

    def dequantize(self, device: torch.device) -> States:
        """The states in float32, padded."""
        is_token = np.arange(self.lengths.max()) < self.lengths[:, None]
        rows = is_token.ravel().nonzero()[0]
        # One copy to a GPU: the places of tokens, then the mask.
        sent = torch.from_numpy(np.concatenate([rows.view(np.uint8), is_token.ravel().view(np.uint8)])).to(device)
        places = sent[: rows.nbytes].view(torch.long)
        mask = sent[rows.nbytes :].view(torch.bool).unflatten(0, is_token.shape)

        def padded(value: Tensor) -> Tensor:
            with_padding = value.new_zeros(is_token.size, *value.shape[1:])
            return with_padding.index_copy_(0, places, value).unflatten(0, is_token.shape)

        per_token = _restored({name: value.to(device) for name, value in self.per_token.items()})
        return States(mask, {name: padded(value) for name, value in per_token.items()}, self.texts(device))

    def texts(self, device: torch.device) -> Mapping[str, Tensor]:
        """The states of whole texts in float32, which need none of the tokens' states."""
        return _restored({name: value.to(device) for name, value in self.per_text.items()})


def _joined(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors of all parts, which have the same names, one after the other."""
    joined: dict[str, Tensor] = {}
    for name in parts[0]:
        joined[name] = torch.cat([tensors[name] for tensors in parts])
    return joined


def _of_texts(dtype: StateDtype) -> StateDtype:
    """The dtype of the states of whole texts beside tokens' states of this one."""
    if dtype == StateDtype.int4:
        return StateDtype.int8
    return dtype


def _is_quantized(tensors: Mapping[str, Tensor], dtype: StateDtype) -> bool:
    """Whether `_quantized` would leave these as they are."""
    values = [value for name, value in tensors.items() if not name.endswith(_SCALE)]
    values = [value for value in values if value.dtype != torch.int32]  # ids: whole numbers in any dtype
    if dtype == StateDtype.int4:  # an odd number of numbers stays in 8 bits
        return all(value.dtype == _PACKED or (value.dtype == torch.int8 and value.shape[-1] % 2) for value in values)
    return all(value.dtype == _FLOATS.get(dtype, torch.int8) for value in values)


def _quantized(tensors: Mapping[str, Tensor], dtype: StateDtype) -> dict[str, Tensor]:
    quantized: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if not value.is_floating_point():
            quantized[name] = value.int()
        elif dtype in _FLOATS:
            quantized[name] = value.to(_FLOATS[dtype])
        else:
            in_4_bits = dtype == StateDtype.int4 and value.shape[-1] % 2 == 0
            largest = _LARGEST_OF_4_BITS if in_4_bits else _LARGEST
            # Half precision cannot represent very small scales; a state of such small numbers is practically zero.
            scale = (value.float().abs().amax(dim=-1, keepdim=True) / largest).half()
            rounded = (value.float() / scale.float().clamp(min=1e-7)).round().clamp(-largest, largest).to(torch.int8)
            if in_4_bits:  # (..., C) numbers -> (..., C / 2) bytes: the first half in the low bits, the second above
                low, high = rounded.chunk(2, dim=-1)
                rounded = ((low & 15) | (high << 4)).view(_PACKED)
            quantized[name] = rounded
            quantized[name + _SCALE] = scale
    return quantized


def _restored(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    restored: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if value.dtype in (torch.int8, _PACKED):
            both = value.view(torch.int8)
            # A shift to the right brings the sign along.
            whole = torch.cat(((both << 4) >> 4, both >> 4), dim=-1) if value.dtype == _PACKED else value
            restored[name] = whole * tensors[name + _SCALE].float()
        elif not name.endswith(_SCALE):
            restored[name] = value.float() if value.is_floating_point() else value.long()
    return restored
