"""A training run, from data sets to a checkpoint folder; readable top to bottom."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.trainer_utils import get_last_checkpoint, set_seed

from ap_ranker.data.dataset import Dataset, sample_questions
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluate import EvaluationSet, answerable
from ap_ranker.models.ap_transformer import AttentivePoolingTransformer
from ap_ranker.models.base import AnswerModel, PairModel
from ap_ranker.models.classifier import Classifier
from ap_ranker.models.metzler_bendersky import MetzlerBendersky
from ap_ranker.models.registry import complete_options
from ap_ranker.models.spec import Recipe
from ap_ranker.ranking.checkpoint import CheckpointConfig, save_checkpoint
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.text.batch import TokenBatch
from ap_ranker.text.vectors import WordVectors
from ap_ranker.training.batches import Batches, LengthBuckets, Pairs
from ap_ranker.training.card import model_card
from ap_ranker.training.config import OWN_CANDIDATES, WITHOUT_GRADIENT, TrainingConfig
from ap_ranker.training.coordinate_ascent import coordinate_ascent
from ap_ranker.training.distributed import gather, gather_states, is_first_process, processes, share, wait_for_all
from ap_ranker.training.memory import keep_freed_memory
from ap_ranker.training.negatives import HardNegatives, MineEachEpoch
from ap_ranker.training.objectives import IGNORE, NEGATIVE, hinge, in_batch_softmax, listwise, pointwise
from ap_ranker.training.sentences import with_answer_sentences
from ap_ranker.training.start import start

SECONDS = "eval_training_seconds"
"""Kept in the Trainer's history after each epoch, so that a resumed run knows how long it took in all."""


@dataclass(frozen=True)
class TrainingResult:
    """What a run leaves besides its checkpoint folder.

    Attributes:
        ranker: the best model, ready to rank.
        dev: its measures on the dev questions.
        bm25: BM25's measures on the same questions and candidates.
        fusion: those of both scores added; `None` if that does not help.
        best_epoch: when it was reached.
        seconds: how long training took.
    """

    ranker: Ranker
    dev: dict[str, float]
    bm25: dict[str, float]
    fusion: dict[str, float] | None
    best_epoch: int
    seconds: float


def train(
    data: Dataset,
    dev: Dataset,
    output: Path,
    config: TrainingConfig,
    *,
    vectors: WordVectors | None = None,
    device: str | None = None,
    resume: bool = False,
    callbacks: tuple[TrainerCallback, ...] = (),
) -> TrainingResult:
    """Train a model and write its checkpoint folder.

    Args:
        data: the questions to learn from; its answers are also where negatives are drawn.
        dev: the questions that choose the best epoch.
        output: the checkpoint folder; until the run is complete, its state is kept beside it in `<output>.training`.
        config: all settings.
        vectors: pre-trained word vectors.
        device: `auto`, `cpu`, `cuda:0`; `None` as `auto`.
        resume: go on from `<output>.training`.
        callbacks: told of the run's events, as `transformers` defines them.

    Raises:
        InputError: nothing to learn from, or nothing to resume.
    """
    data = replace(data, questions=answerable(data))
    n_pairs = data.pairs
    recipe = config.training_recipe(judged=data.judged)
    if config.learns_from_sentences(n_pairs) and recipe.objective not in WITHOUT_GRADIENT:
        data = with_answer_sentences(data)
    work = output.with_name(output.name + ".training")
    last = _last_state(work) if resume else None
    if not resume and is_first_process():
        shutil.rmtree(work, ignore_errors=True)

    # 1. Vocabulary, first weights, word counts.
    set_seed(config.seed)
    options = complete_options(config.model, config.options)
    if "classes" in options:
        options["classes"] = len(data.classes) if recipe.objective == "pointwise" else 2
    chosen = resolve_device(device)
    model, tokenizer, inputs = start(data, config, options, vectors, chosen)
    own_candidates = recipe.objective in OWN_CANDIDATES
    hard = None
    if config.negatives_from != "random" and recipe.objective not in WITHOUT_GRADIENT:
        hard = HardNegatives(data)
    batches = Batches(
        data,
        tokenizer,
        negatives=config.sampled_negatives(recipe.objective),
        own_candidates=own_candidates,
        seed=config.seed,
        hard=hard,
    )
    if model.statistics is not None:
        model.statistics.count(batches.answers)
    ranker = Ranker(model, tokenizer, chosen)
    if hard is not None and config.negatives_from == "model":
        callbacks = (MineEachEpoch(hard, ranker), *callbacks)

    # 2. Learning, and how much BM25 adds to the best epoch's weights.
    dev_set = EvaluationSet(sample_questions(dev, config.dev_questions, config.seed))
    started = time.perf_counter() - (_seconds_so_far(last) if last else 0.0)
    encoder = model.encoder if isinstance(model, AttentivePoolingTransformer) else None
    with encoder.remembering() if encoder else contextlib.nullcontext():
        if recipe.objective in WITHOUT_GRADIENT:
            if recipe.objective == "coordinate-ascent":
                _fit_weights(ranker, sample_questions(data, config.dev_questions, config.seed))
            best_epoch = 0
        else:
            pairs = Pairs(data, own_candidates=own_candidates)
            best_epoch = _learn(ranker, pairs, batches, dev_set, config, recipe, work, last, started, callbacks)
        seconds = time.perf_counter() - started
        scores = dev_set.scores(ranker)
    measures, bm25, weight = dev_set.measures(scores), dev_set.bm25, dev_set.bm25_weight(scores)
    fusion = dev_set.fused(scores, weight)

    # 3. Write them as a checkpoint.
    settings = (
        asdict(config)
        | asdict(recipe)
        | {"data": data.name, "dev": dev.name, "pairs": n_pairs, "best_epoch": best_epoch, "seconds": round(seconds, 1)}
    )
    ranker.config = CheckpointConfig(
        config.model,
        options,
        inputs.embedding_size,
        config.max_tokens,
        settings,
        segmenter=config.segmenter,
        bm25_weight=weight,
        encoder=inputs.encoder,
    )
    wait_for_all()  # the others may still be reading the best epoch's weights
    if is_first_process():
        card = model_card(
            config=config,
            settings=settings,
            measures=measures,
            bm25=bm25,
            fusion=fusion,
            n_dev=len(dev_set.questions),
            batches=batches,
        )
        save_checkpoint(output, ranker.config, model, tokenizer, card)
        shutil.rmtree(work, ignore_errors=True)
    return TrainingResult(ranker, measures, bm25, fusion, best_epoch, seconds)


def _fit_weights(ranker: Ranker, data: Dataset) -> None:
    """Give a linear model the weights that rank the questions of `data` best."""
    model = ranker.model
    assert isinstance(model, MetzlerBendersky)
    judged = EvaluationSet(data)
    features, relevant = [], []
    for question, rows in zip(judged.questions, judged.pools, strict=True):
        texts = [data.answers[row].text for row in rows]
        with torch.inference_mode():
            states = ranker.encode_answers(ranker.tokenize(texts))
            features.append(model.features(ranker.encode_questions([question.text]), states)[0].cpu().numpy())
        relevant.append(np.isin(rows, question.positives))
    weights = coordinate_ascent(features, relevant, model.weights.detach().cpu().numpy())
    model.weights.data.copy_(torch.from_numpy(weights))


def _learn(
    ranker: Ranker,
    pairs: Pairs,
    batches: Batches,
    dev: EvaluationSet,
    config: TrainingConfig,
    recipe: Recipe,
    work: Path,
    last: str | None,
    started: float,
    callbacks: tuple[TrainerCallback, ...],
) -> int:
    """Train by gradient; the Trainer of transformers steps, saves, resumes and uses several devices if there are any.

    Returns:
        The best epoch, whose weights the model has now; 0 if nothing was learnt.
    """
    if config.epochs == 0:
        return 0
    trainer = _AnswerTrainer(
        config,
        recipe,
        ranker,
        dev,
        batches,
        started,
        model=_Scorer(ranker.model),
        args=_arguments(work, config, recipe, ranker.device),
        train_dataset=pairs,
        data_collator=batches,
        callbacks=[EarlyStoppingCallback(config.patience)],
    )
    for shown_by_default in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(shown_by_default)  # they print raw dictionaries; `callbacks` decides what is shown
    for callback in callbacks:
        trainer.add_callback(callback)
    keep_freed_memory()
    model = ranker.model
    with _quiet():
        if not isinstance(model, AttentivePoolingTransformer):
            trainer.train(resume_from_checkpoint=last)
        else:  # it knows something before it has learnt anything, and must not end up worse
            untrained = {name: value.clone() for name, value in model.state_dict().items()}
            measure = dev.measure(ranker)["MRR"]
            trainer.train(resume_from_checkpoint=last)
            if measure >= (trainer.state.best_metric or 0.0):
                model.load_state_dict(untrained)
                return 0
    return round((trainer.state.best_global_step or trainer.state.global_step) / trainer.steps_per_epoch)


class _Scorer(nn.Module):
    """The model as the Trainer calls it: tensors in, scores out."""

    def __init__(self, model: AnswerModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        question_ids: Tensor,
        question_mask: Tensor,
        answer_ids: Tensor,
        answer_mask: Tensor,
        wanted: Tensor,
        classes: int,
    ) -> Tensor:
        """(B, N) scores, of a `PairModel` only where wanted; or, with more than two classes, (B, N, K) logits."""
        (B, N), model = wanted.shape, self.model  # noqa: N806
        own, others = share(B, wanted.device), share(N, wanted.device)
        questions = model.encode_questions(TokenBatch(question_ids[own], question_mask[own]))
        answers = gather_states(model.encode_answers(TokenBatch(answer_ids[others], answer_mask[others])), N)
        rows, columns = wanted[own].nonzero(as_tuple=True)
        if isinstance(model, Classifier) and classes > 2:
            scores = model.classify(questions[rows], answers[columns])
        elif isinstance(model, PairModel):
            scores = model.match_pairs(questions, answers, rows, columns)
        else:
            return gather(model.match(questions, answers), B)
        table = scores.new_zeros(len(own), N, *scores.shape[1:])
        return gather(table.index_put((rows, columns), scores), B)


class _SameBatches(DataLoader[Any]):
    """Gives every process the same batches, which share them out themselves."""

    def set_epoch(self, epoch: int) -> None:
        """Called by the Trainer before each epoch."""
        self.sampler.set_epoch(epoch)  # type: ignore[attr-defined]


class _AnswerTrainer(Trainer):
    """Steps on our objectives, and judges an epoch by the dev questions' ranking."""

    def __init__(
        self,
        config: TrainingConfig,
        recipe: Recipe,
        ranker: Ranker,
        dev: EvaluationSet,
        batches: Batches,
        started: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(eval_dataset=dev.questions, **kwargs)
        self.started = started
        self.config, self.recipe, self.ranker, self.dev = config, recipe, ranker, dev
        self.classes = batches.classes
        self.lengths = [batches.lengths(pair) for pair in kwargs["train_dataset"]]
        self.n_answers = len({row for _, row in kwargs["train_dataset"]})

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthBuckets:
        return LengthBuckets(self.lengths, self.n_answers, self.args.train_batch_size, self.config.seed)

    def get_train_dataloader(self) -> DataLoader[Any]:
        if processes() == 1:
            return super().get_train_dataloader()
        assert isinstance(self.train_dataset, Pairs)
        return _SameBatches(
            self.train_dataset,
            batch_size=self.recipe.batch_size,
            sampler=self._get_train_sampler(),
            collate_fn=self.data_collator,
        )

    @property
    def steps_per_epoch(self) -> int:
        return len(self.get_train_dataloader())

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        model = self.ranker.model
        learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
        parameters: list[dict[str, Any]] = [{"params": learnt}]
        if isinstance(model, AttentivePoolingTransformer):
            pretrained = set(model.encoder.backbone.parameters())
            parameters = [
                {"params": [parameter for parameter in learnt if parameter not in pretrained]},
                {"params": [p for p in learnt if p in pretrained], "lr": self.config.encoder_learning_rate},
            ]
        settings: dict[str, Any] = {"lr": self.recipe.learning_rate, "weight_decay": self.recipe.weight_decay}
        if self.recipe.optimizer == "adadelta":
            self.optimizer = torch.optim.Adadelta(parameters, **settings)
        else:  # a fused step goes over the word vectors, most of all numbers, once instead of several times
            kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[self.recipe.optimizer]
            self.optimizer = kind(parameters, fused=True, **settings)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        if self.recipe.schedule != "inverse":
            return super().create_scheduler(num_training_steps, optimizer)
        epoch = self.steps_per_epoch
        chosen = optimizer or self.optimizer
        assert chosen is not None
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(chosen, lambda step: 1 / (1 + step // epoch))
        return self.lr_scheduler

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        labels, target = inputs.pop("labels"), inputs.pop("target")
        objective = self.recipe.objective
        classes = self.classes if objective == "pointwise" else 2
        scores = model(**inputs, wanted=labels != IGNORE, classes=classes)
        if scores.dim() > 2:
            return nn.functional.cross_entropy(scores[labels != IGNORE], labels[labels != IGNORE])
        relevance = torch.where(labels > NEGATIVE, (labels == self.classes - 1).long(), labels)
        temperature = self.ranker.model.temperature if self.config.temperature is None else self.config.temperature
        if objective == "hinge":
            return hinge(scores, relevance, target, self.recipe.margin)
        if objective == "softmax":
            return in_batch_softmax(scores, relevance, target, temperature)
        return (pointwise if objective == "pointwise" else listwise)(scores, relevance, temperature)

    def evaluate(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> dict[str, float]:
        measures = {f"{metric_key_prefix}_{name}": value for name, value in self.dev.measure(self.ranker).items()}
        measures[SECONDS] = time.perf_counter() - self.started
        self.log(measures)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, measures)
        return measures


def _arguments(work: Path, config: TrainingConfig, recipe: Recipe, device: torch.device) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(work),
        num_train_epochs=config.epochs,
        per_device_train_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="linear" if recipe.schedule == "linear" else "constant",
        max_grad_norm=5.0,  # biLSTMs explode now and then
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        save_total_limit=2,  # the best epoch, and the last one to resume from
        load_best_model_at_end=True,
        metric_for_best_model="MRR",
        greater_is_better=True,
        seed=config.seed,
        use_cpu=device.type == "cpu",
        bf16=device.type == "cuda" and torch.cuda.is_bf16_supported(),
        dataloader_pin_memory=device.type == "cuda",
        remove_unused_columns=False,  # the batches are tensors of our own naming
        label_names=[],
        report_to="none",
        disable_tqdm=False,
    )


def _last_state(work: Path) -> str:
    last = get_last_checkpoint(str(work)) if work.is_dir() else None
    if last is None:
        raise InputError(
            f"Nothing to resume: expected the state of an unfinished run in {str(work)!r}. Leave out --resume."
        )
    return last


def _seconds_so_far(state: str) -> float:
    """How long the run had been trained when it saved this state."""
    history = json.loads((Path(state) / TRAINER_STATE_NAME).read_text(encoding="utf-8"))["log_history"]
    return max((entry[SECONDS] for entry in history if SECONDS in entry), default=0.0)


@contextlib.contextmanager
def _quiet() -> Any:
    """Without the library's own remarks, which speak of its own model classes."""
    library = logging.getLogger("transformers")
    before = library.level
    library.setLevel(logging.ERROR)
    try:
        yield
    finally:
        library.setLevel(before)
