"""The search space of `ap-ranker tune`, read from a YAML file and validated before the search."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from ap_ranker.errors import InputError
from ap_ranker.models.registry import complete_options, model_spec
from ap_ranker.training.config import TrainingConfig, read_settings

OPTION = "options."
"""Prefix of a model's own options."""

FIXED = {
    "options": f"the options one by one, as {OPTION}NAME",
    "seed": "no seed, as searching it would only find a lucky one: set it with --seed",
    "match": "no match, which changes the data: set it with --match",
    "dev_share": "no dev_share, as all trials use the same dev questions",
    "dev_questions": "no dev_questions, as all trials use the same dev questions",
}
"""Settings that cannot be searched -> what is expected instead."""


@dataclass(frozen=True)
class Choice:
    """A choice among unordered values."""

    values: tuple[str | int | float | bool | None, ...]


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high` inclusive; an integer if both are.

    Attributes:
        low: the lowest value.
        high: the highest value; with `step`, the last one reached in whole steps.
        log: whether to sample on a logarithmic scale, where 1 to 10 is as likely as 10 to 100.
        step: if set, the values are `low`, `low + step`, and so on.
    """

    low: int | float
    high: int | float
    log: bool = False
    step: int | float | None = None


Space = Mapping[str, Choice | Range]
"""Attribute of `TrainingConfig`, or `options.NAME`, -> its values."""


def read_space(path: Path, base: TrainingConfig) -> Space:
    """Read a space: lines `setting: [choice, choice]` or `setting: {low: 1, high: 9, log: true, step: 2}`.

    Args:
        path: the YAML file; `log` and `step` are optional.
        base: the settings of all trials that the space does not set.

    Raises:
        InputError: an unknown or fixed setting, no choice, an invalid range, or an invalid value; names file and entry.
    """
    entries = {str(name): entry for name, entry in read_settings(path).items()}
    if not entries:
        raise InputError(f"{path}: expected at least one line 'setting: [choice, choice]', found none.")
    models = [base.model]
    if isinstance(entries.get("model"), list):
        models = [str(name) for name in entries["model"]] or models
    space = {}
    for name, entry in sorted(entries.items(), key=lambda item: item[0] != "model"):  # report a wrong model first
        where = f"{path}, {name}"
        if name in FIXED:
            raise InputError(f"{where}: expected {FIXED[name]}.")
        owners = _owners(name, models, where)
        space[name] = _choice(entry, where) if isinstance(entry, list) else _range(entry, _kind(name, owners), where)
        _try(name, space[name], owners, base, where)
    return space


def configure(base: TrainingConfig, values: Mapping[str, Any]) -> TrainingConfig:
    """Override the base settings by a trial's values; options that the trial's model lacks are left out."""
    settings = {name: value for name, value in values.items() if not name.startswith(OPTION)}
    known = model_spec(settings.get("model", base.model)).options
    own = {name.removeprefix(OPTION): value for name, value in values.items() if name.startswith(OPTION)}
    options = {name: value for name, value in {**base.options, **own}.items() if name in known}
    return replace(base, **settings, options=options)


def _owners(name: str, models: Sequence[str], where: str) -> list[str]:
    """The models that have the setting; all have the attributes of `TrainingConfig`."""
    if not name.startswith(OPTION):
        if name not in (known := [f.name for f in fields(TrainingConfig) if f.name not in FIXED]):
            raise InputError(f"{where}: expected {OPTION}NAME or one of {', '.join(known)}; found {name!r}.")
        return list(models)
    owners = [model for model in models if name.removeprefix(OPTION) in model_spec(model).options]
    if not owners:
        known = sorted({option for model in models for option in model_spec(model).options})
        raise InputError(
            f"{where}: expected an option of {' or '.join(models)}: {', '.join(known) or 'there is none'}; "
            f"found {name.removeprefix(OPTION)!r}."
        )
    return owners


def _kind(name: str, owners: Iterable[str]) -> type[int] | type[float] | None:
    """The numeric type of a setting, or `None` if it is not numeric."""
    if not name.startswith(OPTION):
        types = {str(f.type).removesuffix(" | None") for f in fields(TrainingConfig) if f.name == name}
    else:
        types = {type(model_spec(model).options[name.removeprefix(OPTION)].default).__name__ for model in owners}
    return int if "int" in types else float if "float" in types else None


def _choice(entry: list[Any], where: str) -> Choice:
    if not entry:
        raise InputError(f"{where}: expected at least one choice, found an empty list.")
    for value in entry:
        if value is not None and not isinstance(value, str | int | float):
            raise InputError(f"{where}: expected texts, numbers, true, false or null as choices, found {value!r}.")
    if len(set(entry)) < len(entry):
        raise InputError(f"{where}: expected each choice once, found {entry}.")
    return Choice(tuple(entry))


def _range(entry: Any, kind: type[int] | type[float] | None, where: str) -> Range:
    if not isinstance(entry, dict):
        raise InputError(
            f"{where}: expected a list of choices, or low and high, found {entry!r}. "
            "A value that all trials share belongs in the file of --config."
        )
    if missing := {"low", "high"} - entry.keys():
        raise InputError(f"{where}: expected low and high, found no {' and no '.join(sorted(missing))}.")
    if unknown := entry.keys() - {"low", "high", "log", "step"}:
        raise InputError(f"{where}: expected low, high, log and step, found {', '.join(map(repr, unknown))}.")
    if kind is None:
        raise InputError(f"{where}: expected a list of choices, as it is not a number, found {entry}.")
    low, high = (_number(entry, name, kind, where) for name in ("low", "high"))
    log = entry.get("log", False)
    if not (low < high and math.isfinite(high - low)):
        raise InputError(f"{where}: expected low below high, both finite, found low {low} and high {high}.")
    if not isinstance(log, bool):
        raise InputError(f"{where}: expected log to be true or false, found {log!r}.")
    if log and low <= 0:
        raise InputError(f"{where}: expected low above 0, as log is true, found {low}.")
    if entry.get("step") is None:
        return Range(low, high, log)
    if log:
        raise InputError(f"{where}: expected log or step, found both.")
    step = _number(entry, "step", kind, where)
    if not 0 < step <= high - low:
        raise InputError(f"{where}: expected step above 0 and at most high - low, found {step}.")
    first, last, by = (Decimal(str(value)) for value in (low, high, step))
    return Range(low, kind(first + (last - first) // by * by), step=step)


def _number(entry: Mapping[str, Any], name: str, kind: type[int] | type[float], where: str) -> int | float:
    value = entry[name]
    if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
        expected = "an integer" if kind is int else "a number"
        raise InputError(f"{where}: expected {expected} as {name}, found {value!r}.{_hint(value)}")
    return kind(value)


def _try(name: str, setting: Choice | Range, owners: Iterable[str], base: TrainingConfig, where: str) -> None:
    """Check the values, or both ends of a range, for each model that has the setting."""
    for value in setting.values if isinstance(setting, Choice) else (setting.low, setting.high):
        try:
            if name.startswith(OPTION):
                for model in owners:
                    complete_options(model, {name.removeprefix(OPTION): value})
            else:
                configure(base, {name: value})
        except InputError as error:
            raise InputError(f"{where}: {error}{_hint(value)}") from error


def _hint(value: Any) -> str:
    """Explain why YAML reads a value that looks like a number as text."""
    try:
        looks_numeric = isinstance(value, str) and "e" in value.lower() and math.isfinite(float(value))
    except ValueError:
        looks_numeric = False
    return f" YAML reads {value} as text: write it with a point, as in 1.0e-4." if looks_numeric else ""
