"""All models by name. A new model is one file with its `SPECS`, listed here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeGuard

from ap_ranker.errors import InputError, did_you_mean, one_line
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.spec import Inputs, ModelSpec, Option

FILES = (
    "qa",
    "ap",
    "ap_transformer",
    "qa_lstm",
    "global_local",
    "lw_bilstm",
    "hyperqa",
    "abcnn",
    "anmm",
    "compare_aggregate",
    "iwan",
    "mcan",
    "hd_lstm",
    "baselines",
    "metzler_bendersky",
    "bimpm",
)
"""The files of this folder with `SPECS`, in the order in which models are shown."""

MODELS: dict[str, ModelSpec] = {
    spec.name: spec for file in FILES for spec in import_module(f"ap_ranker.models.{file}").SPECS
}

LARGEST = 10**6
"""Maximum of options and other sizes: a hundred times the largest value of any paper."""


def model_spec(name: str) -> ModelSpec:
    """Look up a model; InputError, which lists the known ones, if the name is unknown."""
    if name not in MODELS:
        known = f"expected one of {', '.join(sorted(MODELS))}"
        raise InputError(f"Unknown model {one_line(repr(name))}: {known}.{did_you_mean(name, MODELS)}")
    return MODELS[name]


def complete_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Merge options into the model's defaults; InputError if one is unknown, of a wrong type or out of bounds."""
    known = model_spec(name).options
    for key, value in options.items():
        if key not in known:
            raise InputError(
                f"{name} has no option {one_line(repr(key))}: expected one of {', '.join(known) or 'none at all'}."
            )
        if not _fits(known[key], value):
            expected = " or ".join(known[key].choices) or type(known[key].default).__name__
            raise InputError(f"{name}: option {key!r} must be {expected}, found {one_line(repr(value))}.")
        if is_number(value) and (expected := known[key].bounds.violated(value)):
            raise InputError(f"{name}: option {key!r} must be {expected}, found {one_line(value)}.")
    return {key: option.default for key, option in known.items()} | dict(options)


def is_number(value: object) -> TypeGuard[float]:
    """Whether the value is an int or a float; a bool, an int to Python, is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fits(option: Option, value: Any) -> bool:
    if option.choices:
        return value in option.choices
    expected = type(option.default)
    if isinstance(value, bool) or expected is bool:
        return isinstance(value, bool) and expected is bool
    return isinstance(value, (int, float) if expected is float else expected)


def build_model(name: str, inputs: Inputs, options: Mapping[str, Any]) -> AnswerModel:
    """A freshly initialised model."""
    model: AnswerModel = model_spec(name).build(inputs, **complete_options(name, options))
    return model


def count_parameters(model: AnswerModel) -> int:
    """Number of learnt parameters without the word vectors, whose number depends on the data."""
    vectors = set() if model.embedding is None else {id(model.embedding.vectors.weight)}
    return sum(parameter.numel() for parameter in model.parameters() if id(parameter) not in vectors)
