"""The results of many runs: rows in `results.json`, and `results.md`, which is written from them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from ap_ranker.errors import InputError
from ap_ranker.files import write_whole


@dataclass(frozen=True)
class ResultRow(ABC):
    """What was measured of one thing; a subclass adds the fields: basic types, or dataclasses of them."""

    @property
    @abstractmethod
    def key(self) -> tuple[Any, ...]:
        """What tells a row from another, and the order of the file."""

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """What `asdict` made of a row; one that holds dataclasses overrides this."""
        return cls(**fields)

    @classmethod
    def read(cls, path: Path) -> list[Self]:
        """The rows of an earlier `results.json`; none if there is no such file.

        Raises:
            InputError: the file is not what `add` wrote.
        """
        if not path.exists():
            return []
        try:
            return [cls.from_json(fields) for fields in json.loads(path.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path}: expected the list of rows of earlier runs ({error!r}). Remove it.") from error

    def add(self, folder: Path, render: Callable[[list[Self]], str]) -> None:
        """Add the row to the folder's `results.json`, or replace the one of its key, and write `results.md`.

        Args:
            folder: of both files.
            render: the text of `results.md` for all rows, which are in the order of their keys.

        Raises:
            InputError: as `read`.
        """
        kept = [other for other in self.read(folder / "results.json") if other.key != self.key]
        rows = sorted([*kept, self], key=lambda each: each.key)
        text = json.dumps([asdict(each) for each in rows], indent=1, sort_keys=True)
        write_whole(folder / "results.json", text + "\n")
        write_whole(folder / "results.md", render(rows))
