# SPDX-License-Identifier: Apache-2.0
"""Parameters of components: how they are checked and how a component is copied with them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from haystack import Document, default_from_dict
from haystack.document_stores.types import FilterPolicy

from ap_ranker.errors import InputError, check_known, one_line
from ap_ranker.ranking.quantization import StateDtype

CACHE = {"megabytes": 256, "dtype": None, "encodings": None}
"""How a ranker keeps encoded documents, by default."""


class CopiedByParameters:
    """
    A component that keeps each parameter of its constructor as an attribute of the same name.

    A copy, also a pickled one, is made anew of the same parameters: it loads and reads for itself, on first use.
    """

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create the component from a dictionary, as made by `to_dict` or read from YAML."""
        return default_from_dict(cls, data)

    def __reduce__(self) -> tuple[Any, ...]:
        _, *names = inspect.signature(type(self).__init__).parameters
        return _made, (type(self), {name: getattr(self, name) for name in names})


def _made(kind: type[Any], parameters: dict[str, Any]) -> Any:
    return kind(**parameters)


def file_list(paths: str | Path | Sequence[str | Path] | None) -> list[str]:
    """The paths of no file, one or several, as a component's parameter names them."""
    return [str(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths or [])]


def check_number(name: str, value: object, minimum: int) -> None:
    """Raise InputError unless it is a whole number, and not too small."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise InputError(f"{name} must be a whole number >= {minimum}, but got {value!r}")


def read_cache(cache: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of a cache, complete; InputError if one is unknown or out of range."""
    for name in cache or ():
        check_known("settings of the cache", name, CACHE)
    known = {**CACHE, **(cache or {})}
    check_number("megabytes of the cache", known["megabytes"], 0)
    if known["dtype"] is not None:
        check_known("dtype of the cache", known["dtype"], StateDtype)
    return {**known, "encodings": None if known["encodings"] is None else str(known["encodings"])}


def check_query(query: object) -> None:
    """Raise InputError unless it is a text."""
    if not isinstance(query, str):
        raise InputError(f"Expected query as a text, found {one_line(repr(query), 80)}.")


def check_documents(documents: object) -> None:
    """Raise InputError unless they are a list of Haystack's documents."""
    wrong = [one for one in documents if not isinstance(one, Document)] if isinstance(documents, list) else [documents]
    if wrong:
        raise InputError(f"Expected documents as a list of Documents, found {one_line(repr(wrong[0]), 80)}.")


def read_policy(policy: str | FilterPolicy) -> FilterPolicy:
    """The policy of a name, as YAML has it; an InputError if there is none of that name."""
    try:
        return FilterPolicy(policy.lower() if isinstance(policy, str) else policy)
    except ValueError as error:
        known = ", ".join(each.value for each in FilterPolicy)
        raise InputError(f"Expected filter_policy to be one of {known}, found {policy!r}.") from error
