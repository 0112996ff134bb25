"""Parameters of components: how they are checked and how a component is copied with them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from haystack import Document, default_from_dict
from haystack.document_stores.types import FilterPolicy

from ap_ranker.errors import InputError, one_line


class CopiedByParameters:
    """
    A component of which a copy, also a pickled one, is made anew of the same parameters.

    The copy loads and reads for itself, on first use. Each parameter is kept as an attribute of the same name.
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


def check_query(query: object) -> None:
    """Raise InputError unless it is a text."""
    if not isinstance(query, str):
        raise InputError(f"Expected query as a text, found {one_line(repr(query), 80)}.")


def check_documents(documents: object) -> None:
    """Raise InputError unless they are a list of Haystack's documents."""
    if not isinstance(documents, list):
        raise InputError(f"Expected documents as a list of Documents, found {one_line(repr(documents), 80)}.")
    for place, document in enumerate(documents):
        if not isinstance(document, Document):
            found = one_line(repr(document), 80)
            raise InputError(f"Expected documents as a list of Documents, found {found} at place {place}.")


def read_policy(policy: str | FilterPolicy) -> FilterPolicy:
    """The policy of a name, as YAML has it; an InputError if there is none of that name."""
    try:
        return FilterPolicy(policy.lower() if isinstance(policy, str) else policy)
    except ValueError as error:
        known = ", ".join(each.value for each in FilterPolicy)
        raise InputError(f"Expected filter_policy to be one of {known}, found {policy!r}.") from error
