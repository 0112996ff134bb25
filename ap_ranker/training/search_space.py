"""The search space of `ap-ranker tune`, read from a YAML file and validated before the search."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ap_ranker.errors import InputError, extra_for, told_at
from ap_ranker.models.registry import complete_options, model_spec
from ap_ranker.settings import settings, yaml_hint
from ap_ranker.training.config import TrainingConfig, read_settings

with extra_for("A search for settings needs", "tune"):
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

OPTION = "options."
"""Prefix of a model's own options."""

FIXED = ("options", "seed", "match", "dev_share", "dev_questions")
"""Settings that cannot be searched: a seed would only be a lucky one, the others change the data."""

Values = CategoricalDistribution | FloatDistribution | IntDistribution
Space = Mapping[str, Values]
"""Attribute of `TrainingConfig`, or `options.NAME`, -> its values."""


@settings
class Range:
    """A range as YAML holds it: from `low` to `high` inclusive, on a logarithmic scale or in steps if so wished."""

    low: float
    high: float
    log: bool = False
    step: float | None = None


def read_space(path: Path, base: TrainingConfig) -> Space:
    """Read a space: lines `setting: [choice, choice]` or `setting: {low: 1, high: 9, log: true, step: 2}`.

    `log` and `step` are optional; all trials have the settings of `base` that the space does not set. An
    InputError names file and entry of an unknown or fixed setting, no choice, an invalid range or value.
    """
    entries = {str(name): entry for name, entry in read_settings(path).items()}
    if not entries:
        raise InputError(f"{path}: expected at least one line 'setting: [choice, choice]', found none.")
    named = entries.get("model")
    models = [base.model]
    if isinstance(named, list) and named:
        models = list(map(str, named))
    space: dict[str, Values] = {}
    for name, entry in sorted(entries.items(), key=lambda item: item[0] != "model"):  # report a wrong model first
        with told_at(f"{path}, {name}"):
            space[name] = _values(name, entry, models, base)
    return space


def configure(base: TrainingConfig, values: Mapping[str, Any]) -> TrainingConfig:
    """Override the base settings by a trial's values; options that the trial's model lacks are left out."""
    settings: dict[str, Any] = {}
    options = dict(base.options)
    for name, value in values.items():
        if name.startswith(OPTION):
            options[name.removeprefix(OPTION)] = value
        else:
            settings[name] = value
    options_of_model = model_spec(settings.get("model", base.model)).options
    options = {name: value for name, value in options.items() if name in options_of_model}
    return replace(base, **settings, options=options)


def _values(name: str, entry: Any, models: Sequence[str], base: TrainingConfig) -> Values:
    if name in FIXED:
        raise InputError(f"expected no {name}, which all trials share; options of the model one by one: {OPTION}NAME.")
    if isinstance(entry, list):
        for value in entry:
            _taken(name, value, models, base)
        return CategoricalDistribution(entry)
    if not isinstance(entry, dict):
        raise InputError(
            f"expected a list of choices, or low and high, found {entry!r}. "
            "A value that all trials share belongs in the file of --config."
        )
    limits = Range(**{str(key): value for key, value in entry.items()})
    low = _taken(name, _as_whole(limits.low), models, base)
    high = _taken(name, _as_whole(limits.high), models, base)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a range ends with its last whole step
        if isinstance(low, float):
            return FloatDistribution(low, high, log=limits.log, step=limits.step)
        step = 1 if limits.step is None else limits.step
        if step % 1:
            raise InputError(f"expected an integer as step, found {step}.")
        return IntDistribution(low, high, log=limits.log, step=int(step))


def _as_whole(end: float) -> float:
    """An end of a range as it was written: a number without a fraction is an integer."""
    return int(end) if end.is_integer() else end


def _taken(name: str, value: Any, models: Sequence[str], base: TrainingConfig) -> Any:
    """A valid value as the setting has it: a float where a fraction may be, however it is written."""
    if not name.startswith(OPTION):
        configs = [configure(base, {"model": model, name: value}) for model in models]  # it must fit each of them
        return getattr(configs[0], name)
    option = name.removeprefix(OPTION)
    owners = [model for model in models if option in model_spec(model).options]
    try:
        for model in owners or models:  # if none has it, they say so
            complete_options(model, {option: value})
    except InputError as error:
        raise InputError(f"{error}{yaml_hint(value)}") from error
    return type(model_spec(owners[0]).options[option].default)(value)
