"""A training run, from data sets to a checkpoint folder; readable top to bottom."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.trainer_utils import get_last_checkpoint, set_seed

from ap_ranker.data.dataset import Dataset, sample_questions
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluate import DevSet, answerable
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.registry import build_model, complete_options
from ap_ranker.models.spec import Inputs
from ap_ranker.ranking.checkpoint import CheckpointConfig, save_checkpoint
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.text.batch import TokenBatch
from ap_ranker.text.tokenizer import WordTokenizer
from ap_ranker.text.vectors import WordVectors
from ap_ranker.training.batches import Batches, LengthBuckets, Pairs
from ap_ranker.training.card import model_card
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.objectives import hinge, in_batch_softmax
from ap_ranker.training.sentences import with_answer_sentences


@dataclass(frozen=True)
class TrainingResult:
    """What a run leaves besides its checkpoint folder.

    Attributes:
        ranker: the best model, ready to rank.
        dev: its measures on the dev questions.
        bm25: BM25's measures on the same questions and candidates.
        best_epoch: when it was reached.
        seconds: how long training took.
    """

    ranker: Ranker
    dev: dict[str, float]
    bm25: dict[str, float]
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
    if config.learns_from_sentences(n_pairs):
        data = with_answer_sentences(data)
    work = output.with_name(output.name + ".training")
    last = _last_state(work) if resume else None
    if not resume:
        shutil.rmtree(work, ignore_errors=True)

    # 1. Vocabulary and word vectors.
    set_seed(config.seed)
    tokenizer = _tokenizer(data, config, vectors)
    options = complete_options(config.model, config.options)
    embedding_size = vectors.dimensions if vectors else config.embedding_size
    model = build_model(config.model, Inputs(tokenizer.words, embedding_size, config.max_tokens), options)
    if vectors:
        _load_vectors(model, vectors, tokenizer, config)

    # 2. The run itself: the Trainer of transformers steps, saves, resumes and uses several devices if there are any.
    ranker = Ranker(model, tokenizer, resolve_device(device))
    pairs = Pairs(data)
    batches = Batches(data, tokenizer, negatives=config.sampled_negatives, seed=config.seed)
    trainer = _AnswerTrainer(
        config,
        ranker,
        DevSet(sample_questions(dev, config.dev_questions, config.seed)),
        [batches.answer_length(pair) for pair in pairs],
        len({row for _, row in pairs}),
        model=_Scorer(model),
        args=_arguments(work, config, ranker.device),
        train_dataset=pairs,
        data_collator=batches,
        callbacks=[EarlyStoppingCallback(config.patience)],
    )
    for shown_by_default in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(shown_by_default)  # they print raw dictionaries; `callbacks` decides what is shown
    for callback in callbacks:
        trainer.add_callback(callback)
    started = time.perf_counter()
    with _quiet():
        trainer.train(resume_from_checkpoint=last)
    seconds = time.perf_counter() - started

    # 3. The best epoch's weights are loaded again by now; write them as a checkpoint.
    measures, bm25 = trainer.dev.measure(ranker), trainer.dev.measure_bm25()
    best_epoch = round((trainer.state.best_global_step or trainer.state.global_step) / trainer.steps_per_epoch)
    settings = asdict(config) | {"data": data.name, "dev": dev.name, "pairs": n_pairs, "best_epoch": best_epoch}
    if trainer.is_world_process_zero():
        save_checkpoint(
            output,
            CheckpointConfig(config.model, options, embedding_size, config.max_tokens, settings),
            model,
            tokenizer,
            model_card(
                config=config,
                settings=settings,
                measures=measures,
                bm25=bm25,
                n_dev=len(trainer.dev.questions),
                batches=batches,
            ),
        )
        shutil.rmtree(work, ignore_errors=True)
    return TrainingResult(ranker, measures, bm25, best_epoch, seconds)


class _Scorer(nn.Module):
    """The model as the Trainer calls it: tensors in, scores out."""

    def __init__(self, model: AnswerModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, question_ids: Tensor, question_mask: Tensor, answer_ids: Tensor, answer_mask: Tensor) -> Tensor:
        scores: Tensor = self.model(TokenBatch(question_ids, question_mask), TokenBatch(answer_ids, answer_mask))
        return scores


class _AnswerTrainer(Trainer):
    """Steps on our objectives, and judges an epoch by the dev questions' ranking."""

    def __init__(
        self,
        config: TrainingConfig,
        ranker: Ranker,
        dev: DevSet,
        answer_lengths: list[int],
        n_answers: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(eval_dataset=dev.questions, **kwargs)
        self.config, self.ranker, self.dev = config, ranker, dev
        self.answer_lengths, self.n_answers = answer_lengths, n_answers

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthBuckets:
        return LengthBuckets(self.answer_lengths, self.n_answers, self.args.train_batch_size, self.config.seed)

    @property
    def steps_per_epoch(self) -> int:
        return len(self.get_train_dataloader())

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        relevance, target = inputs.pop("relevance"), inputs.pop("target")
        scores = model(**inputs)
        if self.config.objective == "hinge":
            return hinge(scores, relevance, target, self.config.hinge_margin)
        return in_batch_softmax(scores, relevance, target, self.config.temperature)

    def evaluate(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> dict[str, float]:
        measures = {f"{metric_key_prefix}_{name}": value for name, value in self.dev.measure(self.ranker).items()}
        self.log(measures)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, measures)
        return measures


def _arguments(work: Path, config: TrainingConfig, device: torch.device) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(work),
        num_train_epochs=config.epochs,
        per_device_train_batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        lr_scheduler_type="linear",
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


def _tokenizer(data: Dataset, config: TrainingConfig, vectors: WordVectors | None) -> WordTokenizer:
    """All words of the training data, and the vectors' most frequent ones."""
    texts = [question.text for question in data.questions] + [answer.text for answer in data.answers]
    known = list(vectors.words[: config.vocabulary_from_vectors]) if vectors else []
    return WordTokenizer.build(texts, max_tokens=config.max_tokens, extra_words=[word.lower() for word in known])


def _load_vectors(model: AnswerModel, vectors: WordVectors, tokenizer: WordTokenizer, config: TrainingConfig) -> None:
    if model.embedding is None:
        return
    table = torch.from_numpy(vectors.table(tokenizer.words, np.random.default_rng(config.seed)))
    model.embedding.vectors.weight.data.copy_(table)
    model.embedding.vectors.requires_grad_(not config.freeze_embeddings)


def _last_state(work: Path) -> str:
    last = get_last_checkpoint(str(work)) if work.is_dir() else None
    if last is None:
        raise InputError(
            f"Nothing to resume: expected the state of an unfinished run in {str(work)!r}. Leave out --resume."
        )
    return last


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
