"""Every model as data: its name, its paper, its paper's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ap_ranker.errors import InputError
from ap_ranker.models.ap import ap_bilstm, ap_cnn
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.qa import qa_bilstm, qa_cnn


@dataclass(frozen=True)
class ModelSpec:
    """What is known of a model before it is built.

    Attributes:
        name: what a user types.
        paper: authors and year of the source.
        build: makes the model from (vocabulary size, embedding size, **options).
        options: hyper-parameters with the paper's values.
        margin: the paper's margin for the hinge loss.
    """

    name: str
    paper: str
    build: Callable[..., AnswerModel]
    options: Mapping[str, Any]
    margin: float


MODELS: dict[str, ModelSpec] = {}


def register(spec: ModelSpec) -> None:
    """Make a model available by its name."""
    MODELS[spec.name] = spec


def model_spec(name: str) -> ModelSpec:
    """Look a model up; an unknown name is an `InputError` that lists the known ones."""
    if name not in MODELS:
        raise InputError(f"Unknown model {name!r}: expected one of {', '.join(sorted(MODELS))}.")
    return MODELS[name]


def complete_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The model's options, the given ones in place of its defaults; an unknown or ill-typed one is an `InputError`."""
    defaults = model_spec(name).options
    for key, value in options.items():
        if key not in defaults:
            raise InputError(f"{name} has no option {key!r}: expected one of {', '.join(defaults)}.")
        wanted = type(defaults[key])
        if isinstance(value, bool) or not isinstance(value, (wanted, int) if wanted is float else wanted):
            raise InputError(f"{name}: option {key!r} must be {wanted.__name__}, found {value!r}.")
    return {**defaults, **options}


def build_model(name: str, vocabulary_size: int, embedding_size: int, options: Mapping[str, Any]) -> AnswerModel:
    """A freshly initialised model."""
    return model_spec(name).build(vocabulary_size, embedding_size, **complete_options(name, options))


_AP = "dos Santos, Tan, Xiang & Zhou 2016, Attentive Pooling Networks"

# Sizes and margins: the paper's table of hyper-parameters for InsuranceQA. Word dropout is
# ours: see "Defaults" in the README for what it brings.
register(ModelSpec("qa-cnn", _AP, qa_cnn, {"filters": 4000, "window": 2, "dropout": 0.3}, margin=0.009))
register(ModelSpec("qa-bilstm", _AP, qa_bilstm, {"hidden": 141, "dropout": 0.3}, margin=0.1))
register(ModelSpec("ap-cnn", _AP, ap_cnn, {"filters": 400, "window": 3, "dropout": 0.3}, margin=0.5))
register(ModelSpec("ap-bilstm", _AP, ap_bilstm, {"hidden": 141, "dropout": 0.3}, margin=0.2))
