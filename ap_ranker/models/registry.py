"""All models by name. A new model is one file, listed here, with its `ModelSpec`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ap_ranker.errors import InputError, check_known, one_line
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.spec import Inputs, ModelSpec, Options

FILES = (
    "qa",
    "ap",
    "ap_transformer",
    "global_local",
    "hyperqa",
    "abcnn",
    "anmm",
    "compare_aggregate",
    "iwan",
    "mcan",
    "hd_lstm",
    "baselines",
    "bimpm",
)
"""The files of this folder with models, in the order in which they are shown."""

MODELS: dict[str, ModelSpec] = {}
for _file in FILES:
    for _value in vars(import_module(f"ap_ranker.models.{_file}")).values():
        if isinstance(_value, ModelSpec):
            MODELS[_value.name] = _value


def model_spec(name: str) -> ModelSpec:
    """Look up a model; InputError, which lists the known ones, if the name is unknown."""
    check_known("model", name, sorted(MODELS))
    return MODELS[name]


def complete_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Merge options into the model's defaults; InputError if one is unknown, of a wrong type or out of bounds."""
    options_of_model = model_spec(name).options
    for key, value in options.items():
        check_known(f"an option of {name}", key, options_of_model)
        expected = options_of_model[key].expected_instead_of(value)
        if expected:
            raise InputError(f"{name}: option {key!r} must be {expected}, found {one_line(repr(value))}.")
    return {key: option.default for key, option in options_of_model.items()} | dict(options)


def build_model(name: str, inputs: Inputs, options: Mapping[str, Any]) -> AnswerModel:
    """A freshly initialised model."""
    return model_spec(name).build(inputs, Options(**complete_options(name, options)))


def count_parameters(model: AnswerModel) -> int:
    """Number of learnt parameters without the word vectors, whose number depends on the data."""
    vectors = 0
    if model.embedding is not None:
        vectors = model.embedding.vectors.weight.numel()
    return sum(parameter.numel() for parameter in model.parameters()) - vectors
