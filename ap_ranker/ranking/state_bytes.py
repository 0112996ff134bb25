"""The states of a text as bytes, as a row of a table has them, and sealed, as a document carries them.

The numbers lie one tensor of `QuantizedStates` after another, in the order of their names. A document has them as
base64 of a seal (16 bytes), the bits of a number (1), the number of tokens (4, the lowest first), and the numbers.

The seal is a hash of all that and of what the states are of: the checkpoint, the reading, the text. So damaged states
are recognised, and those of another checkpoint or text. It is no signature: whoever writes documents can make one. So
opening what a field has never fails, and never gives numbers that a model cannot read.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import prod
from struct import Struct
from typing import Any

import numpy as np
import torch

from ap_ranker.ranking.fingerprint import text_key
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.text.reading import READING_VERSION

STATES = "ap_ranker_states"
"""The field of a document's meta, and of an index, that has its sealed states."""

MOST_BYTES = 2**15
"""Maximum size of the states of a text that travel: to fetch more takes longer than to encode most texts."""

BITS = {StateDtype.float32: 32, StateDtype.float16: 16, StateDtype.int8: 8, StateDtype.int4: 4}
"""Bits of a number; states may be stored in fewer than they have, and never in more."""

_DTYPES = {bits: dtype for dtype, bits in BITS.items()}
_SEAL_BYTES = 16
_HEAD = Struct(f"<{_SEAL_BYTES}sBI")

Layout = Mapping[str, tuple[np.dtype, tuple[int, ...]]]
"""Name of a tensor, as of `QuantizedStates.tensors` -> its dtype, and the shape of one state; in the order of names."""

Row = tuple[int, bytes]
"""The number of tokens of a text, and the numbers of its states."""


def layout_of(states: QuantizedStates) -> Layout:
    """How the numbers of these states lie."""
    return {name: (values.dtype, values.shape[1:]) for name, values in _arrays(states).items()}


def rows_of(states: QuantizedStates) -> list[Row]:
    """The states of N texts, each as a row."""
    arrays = _arrays(states)
    rows: list[Row] = []
    for row, (start, length) in enumerate(zip(states.starts, states.lengths.tolist(), strict=True)):
        places = {"token": slice(start, start + length), "text": slice(row, row + 1)}
        numbers = bytearray()
        for name, values in arrays.items():
            numbers += values[places[_kind_of(name)]].tobytes()
        rows.append((length, bytes(numbers)))
    return rows


def states_of(layout: Layout, rows: Sequence[Row]) -> QuantizedStates:
    """The states of N texts from their rows; ValueError if a row has another number of bytes."""
    kinds: dict[str, dict[str, torch.Tensor]] = {"token": {}, "text": {}}
    starts = [0] * len(rows)
    for name, (dtype, shape) in layout.items():
        kind = _kind_of(name)
        parts = []
        for row, (length, numbers) in enumerate(rows):
            end = starts[row] + _size_of(name, dtype, shape, length=length)
            parts.append(numbers[starts[row] : end])
            starts[row] = end
        together = bytearray().join(parts)  # not bytes: PyTorch warns of memory that is read-only
        values = np.frombuffer(together, dtype).reshape(-1, *shape)
        kinds[kind][name.removeprefix(f"{kind}.")] = torch.from_numpy(values)
    for end, (_, numbers) in zip(starts, rows, strict=True):
        if end != len(numbers):
            raise ValueError(f"{len(numbers):,} bytes of a text's states, not {end:,}")
    return QuantizedStates(np.array([length for length, _ in rows]), kinds["token"], kinds["text"])


def _arrays(states: QuantizedStates) -> dict[str, np.ndarray]:
    return {name: value.cpu().numpy() for name, value in sorted(states.tensors().items())}


def _kind_of(name: str) -> str:
    """Whether a tensor has states of a `token` or of a `text`."""
    return name.partition(".")[0]


def _size_of(name: str, dtype: np.dtype, shape: tuple[int, ...], *, length: int) -> int:
    """Bytes of a tensor for one text of so many tokens."""
    size = dtype.itemsize * prod(shape)
    if _kind_of(name) == "token":
        return size * length
    return size


class StateSealer:
    """Seals states of a checkpoint's answers for their documents, and opens what documents bring."""

    def __init__(self, fingerprint: str, layouts: Mapping[StateDtype, Layout], largest_id: int) -> None:
        """Of the checkpoint with this fingerprint.

        `layouts` are those of its model's states in each dtype; `largest_id` is its tokenizer's largest token id.
        """
        self._of = json.dumps([fingerprint, READING_VERSION]).encode()
        self._layouts = layouts
        self._largest_id = largest_id

    def seal(self, texts: Sequence[str], states: QuantizedStates, dtype: StateDtype) -> list[str | None]:
        """The sealed states of N texts; `None` for those that are too large, or that their dtype cannot represent."""
        rows = rows_of(states)
        are_usable = self._are_usable(dtype, rows)
        sealed: list[str | None] = []
        for text, row, is_usable in zip(texts, rows, are_usable, strict=True):
            length, numbers = row
            if not is_usable or len(numbers) > MOST_BYTES:
                sealed.append(None)
                continue
            head = _HEAD.pack(self._seal_of(text, dtype, row), BITS[dtype], length)
            sealed.append(b64encode(head + numbers).decode())
        return sealed

    def open(self, texts: Sequence[str], sealed: Sequence[Any]) -> dict[StateDtype, tuple[list[str], QuantizedStates]]:
        """The texts whose states can be used, with these, by dtype."""
        rows: dict[StateDtype, dict[str, Row]] = {}
        for text, field in zip(texts, sealed, strict=True):
            opened = self._row_of(text, field)
            if opened is not None:
                dtype, row = opened
                rows.setdefault(dtype, {})[text] = row
        opened_states: dict[StateDtype, tuple[list[str], QuantizedStates]] = {}
        for dtype, row_of in rows.items():
            are_usable = self._are_usable(dtype, list(row_of.values()))
            usable = {text: row_of[text] for text, is_usable in zip(row_of, are_usable, strict=True) if is_usable}
            if usable:
                opened_states[dtype] = list(usable), states_of(self._layouts[dtype], list(usable.values()))
        return opened_states

    def _row_of(self, text: str, field: Any) -> tuple[StateDtype, Row] | None:
        """The dtype and the row that a field has for a text; `None` if it has something else."""
        if not isinstance(field, str):
            return None
        try:
            content = b64decode(field, validate=True)
        except ValueError:
            return None
        if len(content) < _HEAD.size:
            return None
        seal, bits, length = _HEAD.unpack_from(content)
        dtype = _DTYPES.get(bits)
        row = length, content[_HEAD.size :]
        if dtype is None or length == 0 or seal != self._seal_of(text, dtype, row):
            return None
        layout = self._layouts[dtype]
        size = sum(_size_of(name, kind, shape, length=length) for name, (kind, shape) in layout.items())
        if size != len(content) - _HEAD.size:
            return None
        return dtype, row

    def _seal_of(self, text: str, dtype: StateDtype, row: Row) -> bytes:
        length, numbers = row
        digest = blake2b(self._of, digest_size=_SEAL_BYTES)
        digest.update(text_key(text))
        digest.update(f" {BITS[dtype]} {length} ".encode())
        digest.update(numbers)
        return digest.digest()

    def _are_usable(self, dtype: StateDtype, rows: Sequence[Row]) -> list[bool]:
        """Whether a model can read each text's states; all at once, as almost always it can."""
        layout = self._layouts[dtype]
        if self._is_usable(states_of(layout, rows)):
            return [True] * len(rows)
        return [self._is_usable(states_of(layout, [row])) for row in rows]

    def _is_usable(self, states: QuantizedStates) -> bool:
        """Whether numbers are finite, also in half precision, so that no score overflows, and ids those of tokens."""
        for value in states.tensors().values():
            if value.is_floating_point() and not bool(value.half().isfinite().all()):
                return False
            if value.dtype == torch.int32 and not bool(((value >= 0) & (value <= self._largest_id)).all()):
                return False
        return True
