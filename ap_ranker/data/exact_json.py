"""JSON that gives back what a store in memory keeps: dates, tuples, sets, bytes, exact numbers, keys of any kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

_TYPE = "__ap_ranker__"
"""The key of an object that stands for another value, `{_TYPE: [kind, content]}`, or that has other keys than text."""


def _microseconds(duration: timedelta) -> int:
    return duration // timedelta.resolution


def _dtype_and_values(array: np.ndarray | np.generic) -> list[Any]:
    return [array.dtype.str, array.tolist()]


def _array(dtype_and_values: tuple[str, Any]) -> np.ndarray:
    dtype, values = dtype_and_values
    return np.array(values, dtype)


def _number(dtype_and_values: tuple[str, Any]) -> Any:
    return _array(dtype_and_values)[()]


_KINDS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),  # before date, which it is, too
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (timedelta, _microseconds, timedelta.resolution.__mul__),
    "decimal": (Decimal, str, Decimal),
    "uuid": (UUID, str, UUID),
    "tuple": (tuple, list, tuple),
    "set": (set, list, set),
    "frozenset": (frozenset, list, frozenset),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "array": (np.ndarray, _dtype_and_values, _array),
    "number": (np.generic, _dtype_and_values, _number),
}


def to_json(value: Any) -> str:
    """
    Write a value as ASCII, which holds lone surrogates, too; a TypeError if it has a part that JSON cannot hold.

    Dictionaries and lists of plain values stay as they are, as in other JSON.
    """
    return json.dumps(_encoded(value))


def from_json(text: str) -> Any:
    """Read what `to_json` wrote."""
    return json.loads(text, object_hook=_decoded if _TYPE in text else None)


def _encoded(value: Any) -> Any:
    if type(value) in (str, int, float, bool, type(None)):
        return value
    if isinstance(value, list):
        return list(map(_encoded, value))
    if isinstance(value, dict):
        plain = {key: _encoded(inner) for key, inner in value.items() if type(key) is str and key != _TYPE}
        others = []
        for key, inner in value.items():
            if type(key) is not str or key == _TYPE:
                others.append([_encoded(key), _encoded(inner)])
        if others:
            return plain | {_TYPE: ["dict", others]}
        return plain
    for kind, (types, encode, _) in _KINDS.items():
        if isinstance(value, types):
            return {_TYPE: [kind, _encoded(encode(value))]}
    return value


def _decoded(value: dict[str, Any]) -> Any:
    if _TYPE not in value:
        return value
    kind, content = value.pop(_TYPE)
    if kind == "dict":
        return value | dict(map(tuple, content))
    return _KINDS[kind][2](content)
