"""The settings of a training run; every default carries its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.errors import InputError
from ap_ranker.models.registry import complete_options, is_number, model_spec
from ap_ranker.models.spec import Bounds, Optimizer, Recipe, Schedule
from ap_ranker.reading import read_yaml
from ap_ranker.training.objectives.registry import objective_spec, objectives_with_gradient

FEW_PAIRS = 5_000
"""Below this, answer sentences are learnt from unless the settings say otherwise."""

NegativesFrom = Literal["random", "bm25", "model"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "recipe": ("ours", "paper"),
    "match": tuple(Match),
    "optimizer": get_args(Optimizer),
    "schedule": get_args(Schedule),
    "negatives_from": get_args(NegativesFrom),
}

BOUNDS = {
    "margin": Bounds(least=0, most=100),
    "learning_rate": Bounds(above=0, most=10),  # the papers' largest is 1.1
    "encoder_learning_rate": Bounds(above=0, most=1),
    "batch_size": Bounds(above=0, most=65_536),  # all pairs of a batch are matched with each other
    "weight_decay": Bounds(least=0, most=1),
    "temperature": Bounds(least=0.001, most=1_000),  # scores divided by less are no longer finite in a softmax
    "negatives": Bounds(least=0, most=10_000),
    "epochs": Bounds(least=0, most=100_000),
    "patience": Bounds(above=0, most=100_000),
    "embedding_size": Bounds(above=0, most=4_096),  # a vocabulary of 50,000 words then takes 0.8 GB
    "vocabulary_from_vectors": Bounds(least=0, most=10_000_000),  # the largest published file has 5 million
    "max_tokens": Bounds(above=0, most=10_000),  # some models have weights for each position
    "dev_share": Bounds(above=0, below=1),
    "dev_questions": Bounds(above=0, most=1_000_000),
    "seed": Bounds(least=0, most=2**32 - 1),  # what numpy takes
}
"""The numbers that each setting may be, wherever it comes from: a file, the command line, a space, a program."""


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides what is learnt, besides the data.

    Attributes stand in the order in which they matter.
    """

    model: str = "ap-cnn"
    """The registry name."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """The model's own hyper-parameters; its paper's where not given."""

    recipe: Literal["ours", "paper"] = "ours"
    """Where the settings down to `weight_decay` come from that are not given: `ours` are the defaults below, `paper`
    trains as the model's paper did (`ap-ranker models NAME` shows how)."""

    objective: str | None = None
    """`softmax` (in-batch: every other answer of the batch is a negative at no extra cost), `hinge`, `pointwise`
    cross-entropy, `listwise` softmax over a question's own candidates. Ours is listwise where candidates were judged
    one by one, as they are the hardest negatives there are, or where a pair is dear to match; otherwise softmax."""

    margin: float | None = None
    """Hinge: how far a right answer must lead; always the paper's value if not given."""

    optimizer: Optimizer | None = None
    """`adam`, `sgd` or `adadelta`."""

    learning_rate: float | None = None
    """Ours is 0.002, twice Adam's usual step: word vectors must move far from a few hundred pairs. Where there is a
    pretrained encoder, they need not: 0.0005 for what stands on it."""

    encoder_learning_rate: float = 5e-5
    """The same for the weights of a pretrained encoder, which know a language already and must not forget it."""

    schedule: Schedule | None = None
    """The learning rate falls linearly to zero (ours), stays `constant`, or is lr / t in epoch t (`inverse`)."""

    batch_size: int | None = None
    """Questions per step, each with one right answer; ours is 64, so 63 in-batch negatives, or 16 where each question
    has its own candidates (pointwise, listwise)."""

    weight_decay: float | None = None
    """L2 regularisation; ours is none: word dropout does more."""

    temperature: float | None = None
    """Divides the scores in all objectives but hinge; 0.05 for cosines, which lie in -1..1 and must be spread before a
    softmax can become sure, 1 for log-odds."""

    negatives: int | None = None
    """Pointwise and listwise: wrong answers per question, 15. Otherwise: answers drawn from the whole answer set for
    each batch, beside the batch's own: 50 for hinge, as in the papers, none for softmax, which has enough.
    With `negatives_from` other than random it counts hard answers per question: 15 for pointwise and listwise; 2
    otherwise, which the whole batch shares, so a batch of 64 has up to 128 of them."""

    negatives_from: NegativesFrom = "random"
    """Where wrong answers come from that nobody judged. With softmax and hinge the batch's other answers are always
    among them and need no setting. `random` draws the others from the whole answer set. `bm25` draws them from the
    question's 100 best answers by BM25. `model` does so for an epoch, and then from the 20 of those that the model, as
    it was when the epoch began, likes best: ranking them costs time before each epoch. Answers judged wrong come first;
    hard ones fill what they leave of `negatives`. Right answers, their copies and what looks like one are left out."""

    answer_sentences: bool | None = None
    """Learn from each sentence of an answer as if it were a question for that answer, too: it teaches words that no
    question used. If not given: where there are fewer than 5,000 pairs, as with more it costs time and adds little, and
    no pretrained encoder, which knows the words and would learn to match equal ones (example FAQ, frozen encoder: dev
    MRR 0.66 with sentences, 0.77 without)."""

    epochs: int | None = None
    """An upper bound: 20, as early stopping ends most runs sooner, or 4 with a pretrained encoder, which has less to
    learn. 0, only with a pretrained encoder, writes the untrained checkpoint: a beginning for who has no data."""

    patience: int = 4
    """Epochs without a better dev MRR after which training stops; one bad epoch is noise, four are not."""

    embedding_size: int = 100
    """Dimensions of word vectors learnt from nothing; with `--embeddings` the file decides."""

    vocabulary_from_vectors: int = 50_000
    """So many of the most frequent words of the vectors are known to the model even if training never saw them: a
    user's synonym then lies near its neighbours instead of being unknown."""

    freeze_embeddings: bool = False
    """Keep pre-trained word vectors as they are."""

    phrases: bool = False
    """Join frequent pairs and triples of words into one token ("new_york"), as word2phrase does."""

    segmenter: str | None = None
    """Split Chinese into words with this library (`jieba`); without, each character is a token."""

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
        for setting in fields(self):
            checked_setting(setting.name, getattr(self, setting.name))
        complete_options(self.model, self.options)
        if self.epochs == 0 and not model_spec(self.model).pretrained:
            raise InputError(
                f"Expected epochs above 0 for {self.model}, found 0. 0, to train nothing, is for models with a "
                "pretrained encoder (ap-transformer): others know nothing yet."
            )
        if self.negatives_from != "random" and self.negatives == 0:
            raise InputError(
                f"Expected negatives above 0 with negatives_from: {self.negatives_from}, found 0. Leave out one of "
                "the two."
            )

    @property
    def epoch_limit(self) -> int:
        """The number of epochs in force."""
        if self.epochs is None:
            return 4 if model_spec(self.model).pretrained else 20
        return self.epochs

    def without_defaults(self) -> dict[str, Any]:
        """The model and what differs from the defaults, as basic types: a file of these lines is read as this."""
        values, defaults = (json.loads(json.dumps(asdict(config))) for config in (self, TrainingConfig()))
        return {name: value for name, value in values.items() if name == "model" or value != defaults[name]}

    def training_recipe(self, *, judged: bool) -> Recipe:
        """Objective, optimiser and so on in force: what is given, and the rest as `recipe` says.

        Args:
            judged: the data's candidates were judged one by one.
        """
        spec = model_spec(self.model)
        if not objective_spec(spec.objective).needs_gradient:
            objective = spec.objective
        elif self.recipe == "paper":
            objective = self.objective or spec.recipe.objective
        else:
            objective = self.objective or ("listwise" if judged else spec.objective)
        batch_size = objective_spec(objective).batch_size
        learning_rate = spec.recipe.learning_rate if spec.pretrained else 2e-3
        ours = Recipe(objective, "adam", learning_rate, "linear", batch_size, spec.recipe.margin)
        given = {f.name: getattr(self, f.name) for f in fields(Recipe)} | {"objective": objective}
        base = spec.recipe if self.recipe == "paper" else ours
        return replace(base, **{name: value for name, value in given.items() if value is not None})

    def learns_from_sentences(self, pairs: int) -> bool:
        """Whether answer sentences are in force for so many question-answer pairs."""
        if self.answer_sentences is None:
            return pairs < FEW_PAIRS and not model_spec(self.model).pretrained
        return self.answer_sentences

    def sampled_negatives(self, objective: str) -> int:
        """Number of drawn answers in force: per question, or, if random and shared, per batch."""
        if self.negatives is not None:
            return self.negatives
        spec = objective_spec(objective)
        return spec.random_negatives if self.negatives_from == "random" else spec.hard_negatives


def read_training_config(path: Path | None, given: Mapping[str, Any]) -> TrainingConfig:
    """A configuration from a YAML file, with what the command line gives on top.

    Args:
        path: a YAML file of attributes of `TrainingConfig`; `None` for the defaults.
        given: attribute -> value; `None` values count as not given.

    Raises:
        InputError: unreadable, an unknown name, a value of the wrong kind.
    """
    values = {} if path is None else read_settings(path)
    try:
        values = {name: checked_setting(name, value) for name, value in values.items()}
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return TrainingConfig(**{**values, **{name: value for name, value in given.items() if value is not None}})


def read_settings(path: Path) -> dict[str, Any]:
    """The lines 'name: value' of a YAML file, not looked at any further.

    Raises:
        InputError: unreadable, or anything but such lines.
    """
    values = read_yaml(path)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected 'name: value' lines, found {type(values).__name__}.")
    return values


def checked_setting(name: str, value: Any) -> Any:
    """The value of an attribute of `TrainingConfig`, if there is one of that name and it may have the value.

    Raises:
        InputError: there is none, or it is of another kind, none of the choices, or out of bounds.
    """
    known = {f.name: f for f in fields(TrainingConfig)}
    if name not in known:
        raise InputError(f"Unknown setting {name!r}: expected one of {', '.join(known)}.")
    default, annotation = known[name].default, str(known[name].type)
    if value is None and default is None:
        return None
    if allowed := objectives_with_gradient() if name == "objective" else _CHOICES.get(name):
        if value not in allowed:
            raise InputError(f"Expected {name} to be one of {', '.join(allowed)}, found {value!r}.")
        return Match(value) if name == "match" else value
    kinds: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "bool": bool, "str": str}
    kind = kinds.get(annotation.removesuffix(" | None"), Mapping)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"Expected {name} to be of type {annotation}, found {value!r}.")
    if is_number(value) and (expected := BOUNDS[name].violated(value)):
        raise InputError(f"Expected {name} {expected}, found {value}.")
    return value
