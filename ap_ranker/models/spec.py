"""What a model is built from, and its description as data: its paper, its options, its paper's training recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

Optimizer = Literal["adam", "sgd", "adadelta"]
Schedule = Literal["linear", "constant", "inverse"]
"""The learning rate falls linearly to zero, stays constant, or is lr / t in epoch t = 1, 2, ..."""
Family = Literal["attentive-pooling", "global-local", "abcnn", "survey", "baseline"]
AttentionOver = Literal["", "question", "answer", "both"]

LARGEST = 10**6  # of options and other sizes: a hundred times the largest value of any paper

Options = SimpleNamespace
"""The values of a model's options, complete and within their bounds."""


@dataclass(frozen=True)
class Inputs:
    """The inputs that a model is built for."""

    words: Sequence[str]  # the vocabulary; a word's position is its token id
    embedding_size: int  # D, dimensions of the word vectors; 0 for a model with a pretrained encoder
    max_tokens: int  # of a text
    encoder: Mapping[str, Any] | None = None  # the architecture of the pretrained encoder, for models that use one


@dataclass(frozen=True)
class Option:
    """One hyper-parameter of a model."""

    default: Any  # the paper's value, if it gives one
    meaning: str  # one line of help, shown by `ap-ranker models NAME`
    choices: tuple[str, ...] = ()  # all possible values, if they are words
    least: float = 1  # if the value is a number
    most: float = 4_096  # the largest value of the papers is 4,000 filters

    def expected_instead_of(self, value: Any) -> str:
        """What the option can be, such as `int from 1 to 9`; empty if it can have this value."""
        if self.choices:
            if value in self.choices:
                return ""
            return " or ".join(self.choices)
        kind = type(self.default)
        is_number = type(self.default) in (int, float)
        allowed = (int, float) if kind is float else kind
        is_kind = isinstance(value, allowed) and isinstance(value, bool) == (kind is bool)
        if is_kind and (not is_number or self.least <= value <= self.most):  # NaN is in no range
            return ""
        if is_number:
            return f"{kind.__name__} from {self.least:,} to {self.most:,}"
        return kind.__name__


@dataclass(frozen=True)
class Recipe:
    """A paper's training settings, of `ap-ranker train --recipe paper`; the defaults are for what it leaves open."""

    objective: str  # the name of one of `training`
    optimizer: Optimizer = "adam"
    learning_rate: float = 1e-3
    schedule: Schedule = "constant"
    batch_size: int = 64
    margin: float = 0.2
    weight_decay: float = 0.0
    encoder_learning_rate: float = 5e-5
    group_answers: bool = False  # a batch has several questions of each of its answers (`training.batches`)
    epochs: int = 20
    dropout: float = 0.0  # share of the words dropped in training
    max_grad_norm: float = 0.0  # longer gradients are shortened to it; 0: none is
    own_negatives: bool = False  # hinge: a pair draws its own from all answers; else a batch shares them, and its own
    embedding_size: int | None = None  # of word vectors that are learnt from scratch; by default ours


@dataclass(frozen=True)
class ModelSpec:
    """The description of a model."""

    name: str  # that a user types
    paper: str  # authors and title of the source
    year: int  # of the source
    cached: str  # what is computed once per answer, before any question is known
    build: Callable[[Inputs, Options], Any]  # the `AnswerModel`
    recipe: Recipe  # the paper's training settings
    family: Family = "survey"  # determines which component loads its checkpoints
    options: Mapping[str, Option] = field(default_factory=dict)
    objective: str = "softmax"  # the default of `ap-ranker train`
    attention_over: AttentionOver = ""  # the texts whose tokens have weights (`AnswerModel.attention_weights`)
    pretrained: bool = False  # whether a pretrained encoder, named by the option `encoder`, reads the texts
    format_version: int = 1  # of its checkpoints; it rises when the weights or options of the model change


DROPOUT = Option(0.3, "share of the words dropped in training", least=0, most=0.99)
HIDDEN = Option(141, "units of the LSTM in each direction")
WINDOW = Option(3, "words that a filter sees at once", most=100)
"""A filter's weights grow with its window, and answers have about 100 words."""
