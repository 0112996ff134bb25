"""Stores the results of many runs as rows of `results.json`, and renders them to `results.md`."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from ap_ranker.errors import InputError
from ap_ranker.files import write_text_atomically
from ap_ranker.models.registry import model_spec
from ap_ranker.training.config import TrainingConfig


def describe_settings(config: TrainingConfig) -> str:
    """The settings of a run as text; another design of the model is another setting."""
    version = model_spec(config.model).format_version
    return json.dumps(config.without_defaults()) + (f", format version {version}" if version > 1 else "")


def encoder_at_hand(name: str) -> str:
    """The folder of an encoder in `AP_ENCODERS`, if it has one: the hub is not asked then; else its name."""
    place = os.environ.get("AP_ENCODERS")
    folder = Path(place or "") / name.rpartition("/")[2]
    return str(folder) if name and place and folder.is_dir() else name


def at_hand(config: TrainingConfig) -> TrainingConfig:
    """The settings with the encoder's folder in place of its name, if it is at hand.

    A row keeps the settings without it, as a folder's name is nobody's business.
    """
    name = str(config.options.get("encoder", ""))
    folder = encoder_at_hand(name)
    return config if folder == name else replace(config, options={**config.options, "encoder": folder})


@dataclass(frozen=True)
class ResultRow(ABC):
    """The measurements of one system with several seeds.

    A subclass adds fields: basic types, or dataclasses of them. **Every list in a row has one value per seed**; all
    other values are the same for all seeds.

    Attributes:
        seeds: the seeds of the runs.
        settings: the settings of the runs except the seed; rows with the same key but other settings are not merged.
    """

    seeds: list[int] = field(kw_only=True)
    settings: str = field(kw_only=True)

    @property
    @abstractmethod
    def key(self) -> tuple[Any, ...]:
        """Identifies the row, and sorts the file."""

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of `asdict`; a subclass whose fields are dataclasses overrides this."""
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

    def add(self, folder: Path, render: Callable[[list[Self]], str]) -> Self:
        """Add the row to the folder's `results.json` and write `results.md`.

        It replaces an earlier row with the same key; if only their lists differ, the earlier row's other seeds are
        kept.

        Args:
            folder: the folder of both files.
            render: returns the text of `results.md` for all rows, sorted by key.

        Returns:
            The row as written to the file.

        Raises:
            InputError: as `read`.
        """
        by_key = {other.key: other for other in self.read(folder / "results.json")}
        row = by_key[self.key] = self._joined_by(by_key[self.key]) if self.key in by_key else self
        rows = sorted(by_key.values(), key=lambda row: row.key)
        text = json.dumps([asdict(row) for row in rows], indent=1, sort_keys=True)
        write_text_atomically(folder / "results.json", text + "\n")
        write_text_atomically(folder / "results.md", render(rows))
        return row

    def _joined_by(self, other: Self) -> Self:
        """This row with the other's additional seeds; this row alone if their settings or data differ."""
        new, old = asdict(self), asdict(other)
        if _without_lists(new) != _without_lists(old):
            return self
        further = [(seed, 1, i) for i, seed in enumerate(other.seeds) if seed not in self.seeds]
        order = sorted([*((seed, 0, i) for i, seed in enumerate(self.seeds)), *further])
        return self.from_json(_joined((new, old), [(source, i) for _, source, i in order]))


def _without_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_lists(part) for name, part in value.items()}
    return None if isinstance(value, list) else value


def _joined(values: tuple[Any, Any], order: list[tuple[int, int]]) -> Any:
    """Merge two values that differ only in their lists; `order` has the source, 0 or 1, and index of each element."""
    first, second = values
    if isinstance(first, dict):
        return {name: _joined((part, second[name]), order) for name, part in first.items()}
    return [values[source][i] for source, i in order] if isinstance(first, list) else first
