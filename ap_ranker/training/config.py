"""The settings of a training run; every default carries its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import yaml

from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.errors import InputError
from ap_ranker.models.registry import complete_options, model_spec

FEW_PAIRS = 5_000
"""Below this, answer sentences are learnt from unless the settings say otherwise."""


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides what is learnt, besides the data.

    Attributes stand in the order in which they matter.
    """

    model: str = "ap-cnn"
    """The registry name."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """The model's own hyper-parameters; its paper's where not given."""

    objective: Literal["softmax", "hinge"] = "softmax"
    """In-batch softmax: every other answer of the batch is a negative at no extra cost. `hinge` is the papers'."""

    temperature: float = 0.05
    """Softmax: cosines lie in -1..1, so they are divided by this before the softmax can become sure."""

    margin: float | None = None
    """Hinge: how far a right answer must lead; the model's paper's value if not given."""

    negatives: int | None = None
    """Answers drawn from the whole answer set for each batch, beside the batch's own; 50 for hinge, as in the papers,
    none for softmax, which has enough."""

    answer_sentences: bool | None = None
    """Learn from each sentence of an answer as if it were a question for that answer, too: it teaches words that no
    question used. If not given: where there are fewer than 5,000 pairs; with more, it costs time and adds little."""

    epochs: int = 20
    """An upper bound: early stopping ends most runs sooner."""

    patience: int = 4
    """Epochs without a better dev MRR after which training stops; one bad epoch is noise, four are not."""

    batch_size: int = 64
    """Questions per step, each with one right answer; so also the number of in-batch negatives plus one."""

    learning_rate: float = 2e-3
    """Twice Adam's usual step: word vectors must move far from a few hundred pairs. It falls linearly to zero."""

    embedding_size: int = 100
    """Dimensions of word vectors learnt from nothing; with `--embeddings` the file decides."""

    vocabulary_from_vectors: int = 50_000
    """So many of the most frequent words of the vectors are known to the model even if training never saw them: a
    user's synonym then lies near its neighbours instead of being unknown."""

    freeze_embeddings: bool = False
    """Keep pre-trained word vectors as they are."""

    max_tokens: int = 200
    """Longer texts are cut, and counted; 200 words hold nearly every FAQ answer whole."""

    match: Match = DEFAULT_MATCH
    """Which text of an answer with a stored question is matched."""

    dev_share: float = 0.1
    """Without a dev file: this share of the training questions becomes one."""

    dev_questions: int = 500
    """At most this many dev questions after each epoch: more would cost time and hardly change the choice of epoch."""

    seed: int = 1
    """Same seed, same machine: same weights."""

    def __post_init__(self) -> None:
        complete_options(self.model, self.options)
        if self.objective not in ("softmax", "hinge"):
            raise InputError(f"Expected the objective softmax or hinge, found {self.objective!r}.")
        for name in (
            "temperature",
            "epochs",
            "patience",
            "batch_size",
            "learning_rate",
            "embedding_size",
            "max_tokens",
            "dev_questions",
        ):
            if not getattr(self, name) > 0:
                raise InputError(f"Expected {name} above 0, found {getattr(self, name)}.")
        if not 0 < self.dev_share < 1:
            raise InputError(f"Expected dev_share between 0 and 1, found {self.dev_share}.")

    @property
    def hinge_margin(self) -> float:
        """The margin in force."""
        return model_spec(self.model).recipe.margin if self.margin is None else self.margin

    def learns_from_sentences(self, pairs: int) -> bool:
        """Whether answer sentences are in force for so many question-answer pairs."""
        return pairs < FEW_PAIRS if self.answer_sentences is None else self.answer_sentences

    @property
    def sampled_negatives(self) -> int:
        """The number of drawn answers in force."""
        if self.negatives is not None:
            return self.negatives
        return 50 if self.objective == "hinge" else 0


def read_config(path: Path | None, given: Mapping[str, Any]) -> TrainingConfig:
    """A configuration from a YAML file, with what the command line gives on top.

    Args:
        path: a YAML file of attributes of `TrainingConfig`; `None` for the defaults.
        given: attribute -> value; `None` values count as not given.

    Raises:
        InputError: unreadable, an unknown name, a value of the wrong kind.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise InputError(f"{path}: expected a YAML file of settings ({error}).") from error
        if not isinstance(values, dict):
            raise InputError(f"{path}: expected 'name: value' lines, found {type(values).__name__}.")
    known = {f.name: f for f in fields(TrainingConfig)}
    for name, value in values.items():
        if name not in known:
            raise InputError(f"{path}: unknown setting {name!r}: expected one of {', '.join(known)}.")
        values[name] = _checked(name, value, known[name].default, str(known[name].type), path)
    return TrainingConfig(**{**values, **{name: value for name, value in given.items() if value is not None}})


def _checked(name: str, value: Any, default: Any, annotation: str, path: Path | None) -> Any:
    """The value, if it is of the kind that the setting's annotation names."""
    if name == "match":
        if value not in list(Match):
            raise InputError(f"{path}: expected match to be one of {', '.join(Match)}, found {value!r}.")
        return Match(value)
    kinds: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "bool": bool, "str": str}
    kind = kinds.get(annotation.removesuffix(" | None"), object if name == "objective" else Mapping)
    if (value is None and default is None) or (
        isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    ):
        return value
    raise InputError(f"{path}: expected {name} to be of type {annotation}, found {value!r}.")
