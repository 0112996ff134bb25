"""An embedding as an array and as bytes: exactly the numbers that were given, in as few bytes as they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_TYPES: dict[bytes, Any] = {b"f": np.dtype("<f4"), b"d": np.dtype("<f8")}
"""The first byte of a stored embedding, and the type of its numbers."""


def to_array(embedding: Sequence[float] | np.ndarray) -> np.ndarray:
    """(C,) numbers, in float32 if it holds all of them exactly, as it does a model's, and otherwise in float64.

    :raises ValueError: They are not finite numbers.
    """
    numbers = np.asarray(embedding)
    if numbers.size and (numbers.dtype.kind not in "fiu" or numbers.ndim != 1):
        raise ValueError(f"a list of {numbers.dtype} in {numbers.ndim} dimensions")
    numbers = numbers.astype(np.float64).reshape(-1)
    if not np.isfinite(numbers).all():
        raise ValueError("numbers that are not finite")
    with np.errstate(over="ignore"):
        short = numbers.astype(np.float32)
    return short if (short == numbers).all() else numbers


def to_bytes(array: np.ndarray) -> bytes:
    """An array as bytes, for `from_bytes`."""
    kind = array.dtype.char.encode()
    return kind + array.astype(_TYPES[kind]).tobytes()


def from_bytes(stored: bytes) -> np.ndarray:
    """The array of some bytes.

    :raises ValueError: They are not what `to_bytes` wrote.
    """
    kind = _TYPES.get(bytes(stored[:1])) if isinstance(stored, bytes) else None
    if kind is None:
        raise ValueError(f"an embedding of {type(stored).__name__} that begins with {stored[:1]!r}")
    return np.frombuffer(stored, kind, offset=1)
