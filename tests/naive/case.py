from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ap_ranker.models.base import AnswerModel

Weights = tuple[list[float] | None, list[float] | None]
"""Of the question's tokens and of the answer's; `None` for a side whose tokens have no weights."""


@dataclass(frozen=True)
class Case:
    """A model with options, and its paper's score and attention of a question and an answer, given as token ids."""

    name: str
    options: Mapping[str, Any]
    score: Callable[[AnswerModel, list[int], list[int]], float]
    attention: Callable[[AnswerModel, list[int], list[int]], Weights] | None = None

    def __str__(self) -> str:
        words = [value for value in self.options.values() if isinstance(value, (str, bool))]
        return "-".join([self.name, *map(str, words)])
