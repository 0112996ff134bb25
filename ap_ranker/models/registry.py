"""Every model by its name; a new model is one file with its `SPECS`, named here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from ap_ranker.errors import InputError, one_line
from ap_ranker.models import (
    abcnn,
    anmm,
    ap,
    ap_transformer,
    baselines,
    bimpm,
    compare_aggregate,
    global_local,
    hd_lstm,
    hyperqa,
    iwan,
    lw_bilstm,
    mcan,
    metzler_bendersky,
    qa,
    qa_lstm,
)
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.spec import Inputs, ModelSpec, Option

MODELS: dict[str, ModelSpec] = {
    spec.name: spec
    for module in (
        qa,
        ap,
        ap_transformer,
        qa_lstm,
        global_local,
        lw_bilstm,
        hyperqa,
        abcnn,
        anmm,
        compare_aggregate,
        iwan,
        mcan,
        hd_lstm,
        baselines,
        metzler_bendersky,
        bimpm,
    )
    for spec in module.SPECS
}


LARGEST = 10**6
"""The largest number that an option or another size may be: a hundred times what any paper takes."""


def model_spec(name: str) -> ModelSpec:
    """Look a model up; an unknown name is an `InputError` that lists the known ones."""
    if name not in MODELS:
        raise InputError(f"Unknown model {one_line(repr(name))}: expected one of {', '.join(sorted(MODELS))}.")
    return MODELS[name]


def complete_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The model's options, the given ones in place of its defaults; an unknown or ill-typed one is an `InputError`.

    Numbers are finite and not negative, whole ones above 0 unless 0 is the default.
    """
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
    """Python counts true and false among the numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fits(option: Option, value: Any) -> bool:
    if option.choices:
        return value in option.choices
    wanted = type(option.default)
    if isinstance(value, bool) or wanted is bool:
        return isinstance(value, bool) and wanted is bool
    return isinstance(value, (int, float) if wanted is float else wanted)


def build_model(name: str, inputs: Inputs, options: Mapping[str, Any]) -> AnswerModel:
    """A freshly initialised model."""
    return model_spec(name).build(inputs, **complete_options(name, options))


def count_parameters(model: AnswerModel) -> int:
    """Learnt numbers without the word vectors, whose number depends on the data."""
    vectors = set() if model.embedding is None else {id(model.embedding.vectors.weight)}
    return sum(parameter.numel() for parameter in model.parameters() if id(parameter) not in vectors)
