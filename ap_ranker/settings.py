"""Settings, configurations, manifests, components: what pydantic checks of them, with its findings in our sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, validate_call
from pydantic.dataclasses import dataclass

from ap_ranker.errors import InputError, did_you_mean, listed, one_line, told_at

T = TypeVar("T")

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)
"""No type is converted into another ("3" is no number), no name is unknown, no number is NaN or infinite."""


@dataclass_transform(frozen_default=True, field_specifiers=(field, Field))
def settings(cls: type[T]) -> type[T]:
    """A frozen dataclass whose fields are checked against their annotations: `Annotated[int, Field(ge=1, le=9)]`.

    Its constructor raises InputError, which names the field, what was expected and what was found. What `__post_init__`
    raises keeps its own words.
    """
    checked = dataclass(frozen=True, config=STRICT)(cls)
    construct = cast(Any, checked).__init__

    @wraps(construct)
    def initialize(self: T, *args: Any, **values: Any) -> None:
        try:
            construct(self, *args, **values)
        except ValidationError as error:
            raise InputError(sentence(error, [field.name for field in fields(cast(Any, checked))])) from error

    cast(Any, checked).__init__ = initialize
    return cast(type[T], checked)


def checked_arguments(method: Callable[..., T]) -> Callable[..., T]:
    """A method whose arguments are checked against its annotations, as the fields of `settings` are."""
    parameters_of = signature(method)
    checked_call = validate_call(config={**STRICT, "defer_build": True})(method)

    @wraps(method)
    def call(self: Any, *args: Any, **values: Any) -> T:
        try:
            arguments = parameters_of.bind(self, *args, **values).arguments
        except TypeError as error:
            unknown = did_you_mean(min(values.keys() - parameters_of.parameters, default=""), parameters_of.parameters)
            raise TypeError(f"{type(self).__name__}: {error}.{unknown}") from None
        del arguments["self"]
        try:
            return checked_call(self, **arguments)
        except ValidationError as error:
            name = str(error.errors()[0]["loc"][0])
            value = f"{one_line(repr(arguments[name]), 80)}.{yaml_hint(arguments[name])}"
            raise InputError(
                f"Expected {name} as {parameters_of.parameters[name].annotation}, found {value}"
            ) from error

    return call


def read_fields(cls: type[T], values: Any, where: str | Path) -> T:
    """An instance of a `settings` class from what a file holds; the message of an InputError begins with `where`."""
    if not isinstance(values, Mapping):
        raise InputError(f"{where}: expected names with values, found {one_line(repr(values), 80)}.")
    with told_at(where):
        return cls(**{str(name): value for name, value in values.items()})


def checked(is_valid: Callable[[Any], object], expected: str) -> AfterValidator:
    """A further check of a field's values: `Annotated[str, checked(str.islower, "small letters")]`."""

    def check(value: T) -> T:
        if not is_valid(value):
            raise ValueError(f"expected {expected}, found {one_line(repr(value), 80)}.")
        return value

    return AfterValidator(check)


def sentence(error: ValidationError, names: list[str]) -> str:
    """The first finding of pydantic as a sentence; `names` are the known ones."""
    fault = error.errors(include_url=False)[0]
    loc = [str(part) for part in fault["loc"] if not str(part).endswith("]")]
    if loc and isinstance(fault["loc"][0], int) and fault["loc"][0] < len(names):  # a positional argument
        loc[0] = names[fault["loc"][0]]
    place = one_line(".".join(loc), 80)
    if fault["type"] == "value_error":  # of a validator of ours, which has said everything
        return ": ".join(filter(None, (place, str(fault["ctx"]["error"]))))
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        allowed = f"expected one of {listed(names, place)}.{did_you_mean(place, names)}"
        return f"Unknown name {one_line(repr(place), 80)}: {allowed}"
    if fault["type"] in ("missing", "missing_argument"):
        return f"Expected {place}, found none."
    expected = re.sub(r"^\w+ should ", "", fault["msg"])  # such as "Input should be a valid string"
    finding = f"Expected {place} to {expected}, found {one_line(repr(fault['input']), 80)}."
    if isinstance(fault["input"], bool) and fault["type"] in ("literal_error", "string_type"):
        return f"{finding} YAML reads no, off, on and yes so: put the word in quotation marks."
    return finding + yaml_hint(fault["input"])


def yaml_hint(value: object) -> str:
    """Explain why YAML reads a value that looks like a number as text, as a sentence after another."""
    text = isinstance(value, str) and re.fullmatch(r"[+-]?\d+e[+-]?\d+", value, re.IGNORECASE)
    if text:
        return f" YAML reads {value} as text: write it with a point, as in 1.0e-4."
    return ""
