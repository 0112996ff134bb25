"""The lowest versions that pyproject.toml promises, as the constraints file of the environment of `make test-oldest`.

A bound that another dependency's own requirements exclude makes pip refuse the file: it was never true.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


@cache
def declared() -> dict[str, list[Requirement]]:
    """What the project needs: of the core under "", of each extra under its name."""
    table = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    groups = {"": table["dependencies"], **table["optional-dependencies"]}
    return {extra: [Requirement(line) for line in lines] for extra, lines in groups.items()}


def lowest(requirements: Iterable[Requirement]) -> Iterator[str]:
    """Each of them at its lower bound.

    Raises:
        ValueError: one has none.
    """
    for requirement in requirements:
        bounds = [clause.version for clause in requirement.specifier if clause.operator in {">=", "=="}]
        if len(bounds) != 1:
            raise ValueError(f"{PROJECT.name}: expected one lower bound of {requirement.name}, found '{requirement}'.")
        yield f"{requirement.name}=={bounds[0]}"


if __name__ == "__main__":
    print(*sorted({line for group in declared().values() for line in lowest(group)}), sep="\n")
