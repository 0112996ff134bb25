"""The description of a model as data: its paper, its options, its paper's training recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ap_ranker.models.base import AnswerModel

Optimizer = Literal["adam", "sgd", "adadelta"]
Schedule = Literal["linear", "constant", "inverse"]
"""The learning rate falls linearly to zero, stays constant, or is lr / t in epoch t = 1, 2, ..."""

Family = Literal["attentive-pooling", "global-local", "abcnn", "survey", "baseline"]

AttentionOver = Literal["", "question", "answer", "both"]


@dataclass(frozen=True)
class Inputs:
    """The inputs that a model is built for.

    Attributes:
        words: the vocabulary; a word's position is its token id.
        embedding_size: D, dimensions of the word vectors; 0 for a model with a pretrained encoder.
        max_tokens: maximum number of tokens per text.
        encoder: the architecture of the pretrained encoder, for models that use one.
    """

    words: Sequence[str]
    embedding_size: int
    max_tokens: int
    encoder: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Bounds:
    """The range of a setting. NaN is never in it.

    Attributes:
        least: inclusive minimum.
        most: inclusive maximum.
        above: exclusive minimum.
        below: exclusive maximum.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def violated(self, value: float) -> str:
        """The bound that the value violates, such as `above 0`; empty if it is within bounds."""
        if self.above is not None and not value > self.above:
            return f"above {self.above:,}"
        if self.least is not None and not value >= self.least:
            return f"of at least {self.least:,}"
        if self.below is not None and not value < self.below:
            return f"below {self.below:,}"
        if self.most is not None and not value <= self.most:
            return f"of at most {self.most:,}"
        return ""


SHARE = Bounds(least=0, below=1)
SIZE = Bounds(above=0, most=4_096)
"""Bounds of options without their own: the largest value of the papers is 4,000 filters."""

WINDOW = Bounds(above=0, most=100)
"""Words that a filter sees at once: its weights grow with them, and answers have about 100."""


@dataclass(frozen=True)
class Option:
    """One hyper-parameter of a model.

    Attributes:
        default: the paper's value, if it gives one.
        meaning: one line of help, shown by `ap-ranker models NAME`.
        choices: all possible values, if they are words.
        bounds: the range, if the value is a number.
    """

    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    bounds: Bounds = SIZE


@dataclass(frozen=True)
class Recipe:
    """A paper's training settings, used by `ap-ranker train --recipe paper`.

    `objective` is the name of an objective of `training`. With `group_answers` a batch has several questions of each of
    its answers (`training.batches.answer_groups`).
    """

    objective: str
    optimizer: Optimizer = "adam"
    learning_rate: float = 1e-3
    schedule: Schedule = "constant"
    batch_size: int = 64
    margin: float = 0.2
    weight_decay: float = 0.0
    encoder_learning_rate: float = 5e-5
    group_answers: bool = False
    epochs: int = 20


@dataclass(frozen=True)
class ModelSpec:
    """The description of a model.

    Attributes:
        name: the name a user types.
        paper: authors and title of the source.
        year: year of the source.
        family: determines which component loads its checkpoints.
        cached: what is computed once per answer, before any question is known.
        build: builds the model from `Inputs` and its options.
        options: hyper-parameters by name.
        recipe: the paper's training settings.
        objective: the default objective of `ap-ranker train`.
        attention_over: the texts whose tokens have attention weights (`AnswerModel.attention_weights`); empty for a
            model without attention.
        pretrained: whether a pretrained encoder, named by the option `encoder`, reads the texts; its recipe is ours.
        format_version: version of its checkpoints; it rises when the weights or options of the model change.
    """

    name: str
    paper: str
    year: int
    family: Family
    cached: str
    build: Callable[..., AnswerModel]
    recipe: Recipe
    options: Mapping[str, Option] = field(default_factory=dict)
    objective: str = "softmax"
    attention_over: AttentionOver = ""
    pretrained: bool = False
    format_version: int = 1


DROPOUT = Option(0.3, "share of the words dropped in training (ours: see Defaults in the README)", bounds=SHARE)
