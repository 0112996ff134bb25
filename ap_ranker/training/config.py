"""The settings of a training run, and the reason for each default."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.errors import InputError, check_known, one_line, told_at
from ap_ranker.models.registry import complete_options, model_spec
from ap_ranker.models.spec import Optimizer, Recipe, Schedule
from ap_ranker.ranking.checkpoint import MAX_TOKENS
from ap_ranker.safe_open import parse_yaml, read_yaml_text
from ap_ranker.settings import read_fields, settings
from ap_ranker.text.languages import check_language
from ap_ranker.training.objectives import OBJECTIVES, OWN_DISTILLATION, SHARED_DISTILLATION, objective_spec

EMBEDDING_SIZE = 100
"""Dimensions of word vectors that are learnt from scratch, by default."""

FEW_PAIRS = 5_000
"""Number of pairs below which answer sentences are added to the training data by default."""

ENOUGH_QUESTIONS = 10_000
MADE_OF_ONE = 10
"""Number of questions up to which a student gets made ones by default, and the most of these per question."""


@settings
class TrainingConfig:
    """All settings of a training run, the most important first.

    Attributes:
        model: ours ranks best of all from 50 pairs on; its pretrained encoder is the extra `minilm`, or another one as
            `options: {encoder: NAME}`. `ap-cnn` is small and needs none.
        options: the model's own hyper-parameters; by default those of its paper.
        recipe: the defaults down to `weight_decay`, of dropout and of epochs: those below, or the model's paper's.
        objective: `softmax` (every other answer of the batch is a negative at no extra cost), `hinge`, `pointwise`
            cross-entropy, `listwise` softmax over a question's own candidates. Ours is listwise where candidates were
            judged one by one, which are the hardest negatives, or where a pair is expensive to score; else softmax.
        margin: of the hinge loss; by default the paper's value, whatever the recipe.
        optimizer: `adam` (ours), `sgd` or `adadelta`.
        learning_rate: ours is 0.002, twice Adam's usual rate: a few hundred pairs must move the word vectors far. With
            a pretrained encoder they need not: 0.0005 for the layers on top of it.
        encoder_learning_rate: of a pretrained encoder: 0.00005, low, so that it does not forget what it has learnt;
            twice that with `group_answers`, whose steps are fewer.
        schedule: the rate falls to zero (`linear`, ours), stays `constant`, or is lr / t in epoch t (`inverse`).
        batch_size: questions per step, each with one right answer; ours is 64, or 16 where each question has its own
            candidates (pointwise, listwise), or 128 with `group_answers`.
        group_answers: softmax and hinge: encode an answer once for several of its questions. Ours does so with a
            pretrained encoder if answers have two questions or more on average: it takes half of the time.
        weight_decay: L2 regularisation; ours is none: word dropout does more.
        temperature: divides the scores in all objectives but hinge; by default 0.05 for cosines, whose range of -1..1
            is too narrow for a confident softmax, and 1 for log-odds.
        negatives: pointwise and listwise: wrong answers per question, 15. Softmax and hinge: answers drawn from the
            whole answer set for each batch, beside its own: 50 for hinge, as in the papers, none for softmax, which has
            enough. Right answers, their copies and near-copies are none.
        teacher_weight: distillation: λ, the share of the teacher's distribution in the loss; the labels have the rest.
        teacher_temperature: distillation: T, by which the softmaxes of both are softened beyond their own temperatures.
        taught_answers: distillation: answers per question, drawn from the teacher's 20 best, that join a batch: 2 if
            questions share answers, 8 if not.
        augmented_questions: distillation: questions to make of the training questions, by other words, fewer words and
            other ends. A student without a pretrained encoder gets as many as make 10,000, at most ten of each.
        answer_sentences: also use each sentence of an answer as a question for it: that teaches words that no question
            used. By default with fewer than 5,000 pairs, and without a pretrained encoder, which would learn to match
            equal words.
        effort: how much time training may take, with a pretrained encoder. `quick` leaves the encoder as it is (the
            model's option `frozen`); `normal` trains it, `best` for twice as many epochs. `auto` is `normal`, but for a
            large encoder on a CPU, an epoch of which would take ten minutes: there the upper half of its layers learns
            (`trained_layers`), for two epochs, and with `best` all of them.
        epochs: at most; by default 20, as early stopping ends most runs sooner. A pretrained encoder has less to learn:
            4, or 8 if it is frozen. 0, only with a pretrained encoder, writes an untrained checkpoint.
        patience: epochs without a better dev MRR after which training stops; one bad epoch is noise, four are not.
        embeddings: word vectors to begin with instead of noise: a GloVe, word2vec or fastText file, `glove-50d`, the
            folder of a checkpoint, `encoder`, for those of the default encoder of ap-transformer, or `encoder:NAME`.
        embedding_size: dimensions of word vectors: by default 100 if they are learnt from scratch, 300, the maximum, if
            they are taken from an encoder; a file decides itself.
        vocabulary_from_vectors: number of the vectors' most frequent words that join the vocabulary even if the
            training data lacks them: a user's synonym then lies near its neighbours instead of being unknown.
        freeze_embeddings: keep pre-trained word vectors as they are.
        language: of BM25's stemmer, such as `english`: "parcels" then finds "parcel"; or `thai` (extra `thai`). The
            store that fetches the candidates needs the same; `examples/languages/stemmer.py` measures whether it helps.
        max_tokens: of a text; longer ones are truncated, and counted. Nearly every FAQ answer has fewer.
        match: the text to match for answers with a stored question.
        dev_share: of the training questions, to set aside as dev questions if there is no dev file.
        dev_questions: at most, to rank after each epoch: more would cost time and hardly change the choice of epoch.
        mixed_precision: what a GPU multiplies in while training: `bf16`; `fp16`, for cards without it (V100, T4); `off`
            for float32 throughout; `auto` for bf16 where the card has it, else off. Ranking is in float32 always.
        seed: on one machine it determines the weights.
    """

    model: str = "ap-transformer"
    options: Mapping[str, Any] = field(default_factory=dict)
    recipe: Literal["ours", "paper"] = "ours"
    objective: str | None = None
    margin: Annotated[float, Field(ge=0, le=100)] | None = None
    optimizer: Optimizer | None = None
    learning_rate: Annotated[float, Field(gt=0, le=10)] | None = None  # the papers' largest is 1.1
    encoder_learning_rate: Annotated[float, Field(gt=0, le=1)] | None = None
    schedule: Schedule | None = None
    batch_size: Annotated[int, Field(gt=0, le=65_536)] | None = None  # all pairs of a batch are matched with each other
    group_answers: bool | None = None
    weight_decay: Annotated[float, Field(ge=0, le=1)] | None = None
    temperature: Annotated[float, Field(ge=0.001, le=1_000)] | None = None  # with less, a softmax is not finite
    negatives: Annotated[int, Field(ge=0, le=10_000)] | None = None
    teacher_weight: Annotated[float, Field(gt=0, le=1)] = 0.8
    teacher_temperature: Annotated[float, Field(ge=0.1, le=100)] = 4.0
    taught_answers: Annotated[int, Field(ge=0, le=20)] | None = None  # drawn from as many
    augmented_questions: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    answer_sentences: bool | None = None
    effort: Literal["auto", "quick", "normal", "best"] = "auto"
    epochs: Annotated[int, Field(ge=0, le=100_000)] | None = None
    patience: Annotated[int, Field(gt=0, le=100_000)] = 4
    embeddings: str | None = None
    embedding_size: Annotated[int, Field(gt=0, le=4_096)] | None = None  # 50,000 words then take 0.8 GB
    vocabulary_from_vectors: Annotated[int, Field(ge=0, le=10_000_000)] = 50_000  # the largest file has 5 million
    freeze_embeddings: bool = False
    language: str | None = None
    max_tokens: Annotated[int, Field(gt=0, le=MAX_TOKENS)] = 200  # some models have weights for each position
    match: Annotated[Match, Field(strict=False)] = DEFAULT_MATCH
    dev_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    dev_questions: Annotated[int, Field(gt=0, le=1_000_000)] = 500
    mixed_precision: Literal["auto", "off", "bf16", "fp16"] = "auto"
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1  # what numpy takes

    def __post_init__(self) -> None:
        complete_options(self.model, self.options)
        check_language(self.language)
        # Those of the untrained baselines go with their models, and those that need a teacher with `ap-ranker distill`.
        names = [name for name, spec in OBJECTIVES.items() if spec.needs_gradient and not spec.needs_teacher]
        if self.objective is not None:
            check_known("objective", self.objective, names)
        last = self.model_options.get("trained_layers")
        if last and not self.model_options["frozen"]:
            raise InputError(f"Expected frozen: true beside trained_layers: {last}, found false: all layers learn.")
        if not model_spec(self.model).pretrained and (self.epochs == 0 or self.effort in ("quick", "best")):
            raise InputError(
                f"Expected epochs above 0 and effort: normal for {self.model}, found epochs: {self.epochs} and effort: "
                f"{self.effort}. Only a pretrained encoder (ap-transformer) has others."
            )

    @property
    def model_options(self) -> dict[str, Any]:
        """All options of the model, with their defaults."""
        spec = model_spec(self.model)
        theirs = {}
        if self.recipe == "paper" and "dropout" in spec.options:
            theirs = {"dropout": spec.recipe.dropout}
        options = complete_options(self.model, {**theirs, **self.options})
        if self.effort == "quick":
            options |= {"frozen": True, "trained_layers": 0}
        return options

    def without_defaults(self) -> dict[str, Any]:
        """The model and all settings that differ from the defaults, as basic types."""
        values = json.loads(json.dumps(asdict(self)))
        defaults = json.loads(json.dumps(asdict(TrainingConfig())))
        return {name: value for name, value in values.items() if name == "model" or value != defaults[name]}

    def training_recipe(self, *, judged: bool, questions_per_answer: float = 1.0, with_teacher: bool = False) -> Recipe:
        """Objective, optimizer and so on: the explicit settings, and the defaults of `recipe` for the rest.

        They depend on the data: whether its candidates were judged one by one, and the mean number of questions of an
        answer; and on whether the model learns from a teacher's scores.
        """
        spec = model_spec(self.model)
        theirs = self.recipe == "paper"
        usual = objective_spec(spec.objective)
        if with_teacher:
            name = OWN_DISTILLATION if judged or usual.own_candidates else SHARED_DISTILLATION
        elif not usual.needs_gradient:
            name = usual.name
        else:
            by_default = "listwise" if judged else usual.name
            name = self.objective or (spec.recipe.objective if theirs else by_default)
        objective = objective_spec(name)
        grouped = self.group_answers
        if grouped is None:
            grouped = not theirs and spec.pretrained and questions_per_answer >= 2
        grouped = grouped and not objective.own_candidates
        epochs = 20
        if spec.pretrained:
            is_long = self.effort == "best" or self.model_options.get("frozen")
            epochs = 8 if is_long else 4
        ours = Recipe(
            name,
            learning_rate=spec.recipe.learning_rate if spec.pretrained else 2e-3,
            schedule="linear",
            batch_size=128 if grouped else objective.batch_size,
            margin=spec.recipe.margin,
            encoder_learning_rate=1e-4 if grouped else 5e-5,
            epochs=epochs,
            max_grad_norm=5.0,  # gradients of biLSTMs sometimes explode
        )
        explicit = {field.name: getattr(self, field.name, None) for field in fields(Recipe)}
        explicit |= {"objective": name, "group_answers": grouped, "dropout": self.model_options.get("dropout")}
        settings = {setting: value for setting, value in explicit.items() if value is not None}
        return replace(spec.recipe if theirs else ours, **settings)

    def learns_from_sentences(self, pairs: int) -> bool:
        """Whether answer sentences are used, given the number of question-answer pairs."""
        by_default = self.recipe == "ours" and pairs < FEW_PAIRS and not model_spec(self.model).pretrained
        if self.answer_sentences is None:
            return by_default
        return self.answer_sentences

    def questions_to_make(self, questions: int) -> int:
        """Number of questions to make for a student, given the number of those that it has."""
        missing = 0
        if not model_spec(self.model).pretrained:
            missing = max(0, ENOUGH_QUESTIONS - questions)
        by_default = min(missing, MADE_OF_ONE * questions)
        if self.augmented_questions is None:
            return by_default
        return self.augmented_questions


SETTINGS_OF_0_1_0: Mapping[str, tuple[Any, str]] = {
    "negatives_from": ("random", "drawn negatives rank better"),
    "phrases": (False, "frequent pairs of words as one token gained nothing"),
    "segmenter": (None, "models of words read the characters of scripts without spaces"),
}
"""Setting that is gone -> its default, with which a file still works, and why it is gone."""


def read_training_config(path: Path | None, overrides: Mapping[str, Any]) -> TrainingConfig:
    """Read a configuration from a YAML file, by default an empty one; `overrides` that are not `None` take precedence.

    InputError if the file cannot be read, a name is unknown or a value invalid.
    """
    settings = {name: value for name, value in overrides.items() if value is not None}
    config = TrainingConfig(**settings)  # first, so that no file is blamed for what the command line says
    if path is None:
        return config
    values = {**read_settings(path), **settings}
    with told_at(path):
        _refuse_options_among_settings(values, values.get("model", config.model))
    return read_fields(TrainingConfig, values, path)


def _refuse_options_among_settings(values: Mapping[str, Any], model: str) -> None:
    """Raise InputError, with the line to write, for an option of the model that stands beside its name."""
    setting_names = {setting.name for setting in fields(TrainingConfig)}
    for name in values:
        if name not in setting_names and name in model_spec(model).options:
            line = f"options: {{{name}: {one_line(str(values[name]), 40)}}}"
            raise InputError(f"Expected a setting of the training, found {name}, an option of {model}. Write {line}.")


def read_settings(path: Path) -> dict[str, Any]:
    """Read the lines 'name: value' of a YAML file, without validation; InputError if it holds anything else."""
    values = parse_yaml(read_yaml_text(path), path)
    if not isinstance(values, dict | None):
        raise InputError(f"{path}: expected 'name: value' lines, found {type(values).__name__}.")
    settings = values or {}
    for name, (default, reason) in SETTINGS_OF_0_1_0.items():
        value = settings.pop(name, default)
        if value not in (default, None):
            raise InputError(
                f"{path}: expected settings of this release, found {name}: {one_line(repr(value), 40)}, of an earlier "
                f"one. Remove the line: {reason}."
            )
    return settings
