"""A model as data: its paper, its options, how its paper trained it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ap_ranker.models.base import AnswerModel

Optimizer = Literal["adam", "sgd", "adadelta"]
Schedule = Literal["linear", "constant", "inverse"]
"""The learning rate falls linearly to zero, stays, or is lr / t in epoch t = 1, 2, ..."""

Family = Literal["attentive-pooling", "global-local", "abcnn", "survey", "baseline"]

AttentionOver = Literal["", "question", "answer", "both"]


@dataclass(frozen=True)
class Inputs:
    """What a model is built for.

    Attributes:
        words: the vocabulary; a word's position is its token id.
        embedding_size: D, dimensions of the word vectors; 0 where an encoder brings its own.
        max_tokens: no text is longer.
        encoder: the architecture of a pretrained encoder, for models that read with one.
    """

    words: Sequence[str]
    embedding_size: int
    max_tokens: int
    encoder: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Bounds:
    """Which numbers a setting may be; NaN is none of them.

    Attributes:
        least: the smallest.
        most: the largest.
        above: it must be larger than this.
        below: it must be smaller than this.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def violated(self, value: float) -> str:
        """What the number should be and is not, such as `above 0`; empty if it may be what it is."""
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
"""Of options without bounds of their own: the papers' largest are 4,000 filters."""

WINDOW = Bounds(above=0, most=100)
"""Words that a filter sees at once: its weights grow with them, and answers have about as many."""


@dataclass(frozen=True)
class Option:
    """One hyper-parameter of a model.

    Attributes:
        default: the paper's value, if the paper gives one.
        meaning: a line for the reader of `ap-ranker models NAME`.
        choices: all values that it can take, where they are words.
        bounds: which numbers it can be, where it is one.
    """

    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    bounds: Bounds = SIZE


@dataclass(frozen=True)
class Recipe:
    """How a paper trained its model; `ap-ranker train --recipe paper` follows it.

    `objective` is the name of an objective of `training`.
    """

    objective: str
    optimizer: Optimizer = "adam"
    learning_rate: float = 1e-3
    schedule: Schedule = "constant"
    batch_size: int = 64
    margin: float = 0.2
    weight_decay: float = 0.0


@dataclass(frozen=True)
class ModelSpec:
    """What is known of a model before it is built.

    Attributes:
        name: what a user types.
        paper: authors and title of the source.
        year: of the source.
        family: decides which component loads its checkpoints.
        cached: what is computed once per answer, before any question is known.
        build: makes the model from `Inputs` and its options.
        options: hyper-parameters by name.
        recipe: how the paper trained it.
        objective: what `ap-ranker train` uses unless told otherwise.
        attention_over: whose tokens its attention gives weights (`AnswerModel.attention_weights`); empty for a model
            without any.
        pretrained: reads subwords with a pretrained encoder, which its option `encoder` names; its recipe is ours.
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


DROPOUT = Option(0.3, "share of the words hidden while training (ours: see Defaults in the README)", bounds=SHARE)
