"""A model as data: its paper, its options, how its paper trained it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ap_ranker.models.base import AnswerModel

Objective = Literal["softmax", "hinge", "pointwise", "listwise", "counts", "coordinate-ascent"]
"""What training makes better; the last two need no gradient: word counts alone, or weights that raise MAP."""

Optimizer = Literal["adam", "sgd", "adadelta"]
Schedule = Literal["linear", "constant", "inverse"]
"""The learning rate falls linearly to zero, stays, or is lr / t in epoch t = 1, 2, ..."""

Family = Literal["attentive-pooling", "global-local", "abcnn", "survey", "baseline"]

Weighed = Literal["", "question", "answer", "both"]


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
class Option:
    """One hyper-parameter of a model.

    Attributes:
        default: the paper's value, if the paper gives one.
        meaning: a line for the reader of `ap-ranker models NAME`.
        choices: all values that it can take, where they are words.
    """

    default: Any
    meaning: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """How a paper trained its model; `ap-ranker train --recipe paper` follows it."""

    objective: Objective
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
        weighs: whose tokens its attention gives weights (`AnswerModel.attend`); empty for a model without any.
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
    objective: Objective = "softmax"
    weighs: Weighed = ""
    pretrained: bool = False


DROPOUT = Option(0.3, "share of the words hidden while training (ours: see Defaults in the README)")
