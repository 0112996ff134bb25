"""The search space of `ap-ranker tune`: the values of each setting, read from a YAML file and validated up front."""

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
"""Prefix of a model's own options in a space."""

FIXED = {
    "options": f"the options one by one, as {OPTION}NAME",
    "seed": "no seed, which would only search for luck: give one with --seed",
    "match": "no match, which changes the data: give one with --match",
    "dev_share": "no dev_share: every trial is measured on the same dev questions",
    "dev_questions": "no dev_questions: every trial is measured on the same dev questions",
}
"""Settings that cannot be searched, and what is expected instead."""


@dataclass(frozen=True)
class Choice:
    """One of these values, without an order."""

    values: tuple[str | int | float | bool | None, ...]


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, both included; an integer if both are.

    Attributes:
        low: the smallest.
        high: the largest; with `step`, the last one reached in whole steps.
        log: sampled on a logarithmic scale: 1 to 10 is as likely as 10 to 100.
        step: only `low`, `low + step`, and so on.
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
        base: the settings that every trial starts from.

    Raises:
        InputError: an unknown setting, or one that no trial may change; no choice; an empty or impossible range; a
            value that training would refuse. Names the file and the entry.
    """
    entries = {str(name): entry for name, entry in read_settings(path).items()}
    if not entries:
        raise InputError(f"{path}: expected at least one line 'setting: [choice, choice]', found none.")
    models = [base.model]
    if isinstance(entries.get("model"), list):
        models = [str(name) for name in entries["model"]] or models
    space = {}
    for name, entry in sorted(entries.items(), key=lambda item: item[0] != "model"):  # a wrong model is reported first
        where = f"{path}, {name}"
        if name in FIXED:
            raise InputError(f"{where}: expected {FIXED[name]}.")
        owners = _owners(name, models, where)
        space[name] = _choice(entry, where) if isinstance(entry, list) else _range(entry, _kind(name, owners), where)
        _try(name, space[name], owners, base, where)
    return space


def configure(base: TrainingConfig, values: Mapping[str, Any]) -> TrainingConfig:
    """The base settings, overridden by a trial's; options that the trial's model lacks are left out."""
    given = {name: value for name, value in values.items() if not name.startswith(OPTION)}
    known = model_spec(given.get("model", base.model)).options
    own = {name.removeprefix(OPTION): value for name, value in values.items() if name.startswith(OPTION)}
    options = {name: value for name, value in {**base.options, **own}.items() if name in known}
    return replace(base, **given, options=options)


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
            raise InputError(f"{where}: expected words, numbers, true, false or null as choices, found {value!r}.")
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
    """Refuse what training would refuse, for each model that has the setting; of a range, both ends are tried."""
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
    """Explains why YAML reads a value that looks like a number as a word."""
    try:
        looks_numeric = isinstance(value, str) and "e" in value.lower() and math.isfinite(float(value))
    except ValueError:
        looks_numeric = False
    return f" To YAML, {value} is a word: write it with a point, as in 1.0e-4." if looks_numeric else ""
