"""A training run, from data sets to a checkpoint folder; readable top to bottom."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import EarlyStoppingCallback, TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.trainer_utils import set_seed

from ap_ranker.data.dataset import Dataset, sample_questions
from ap_ranker.evaluation.evaluate import EvaluationSet, answerable
from ap_ranker.evaluation.gain import gain_over_bm25
from ap_ranker.evaluation.metrics import means
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.models.base import JudgedCandidates
from ap_ranker.models.base import States as TextStates
from ap_ranker.models.registry import complete_options, model_spec
from ap_ranker.models.spec import Recipe
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import CheckpointConfig, save_checkpoint
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.text.vectors import WordVectors
from ap_ranker.training.batches import Batches, Pairs
from ap_ranker.training.card import About, DevResults, Speed, model_card
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.distributed import is_first_process, wait_for_all
from ap_ranker.training.initialize import initialize_model
from ap_ranker.training.memory import keep_freed_memory
from ap_ranker.training.negatives import HardNegatives, MineEachEpoch
from ap_ranker.training.objectives.registry import objective_spec
from ap_ranker.training.sentences import with_answer_sentences
from ap_ranker.training.states import States, seconds_so_far
from ap_ranker.training.trainer import AnswerTrainer, Scorer, training_arguments

FIT_CACHE_BYTES = 2 * 10**9
"""For the answers' states while a model is fitted to training questions, which share candidates."""

Progress = Callable[[str, int, int], None]
"""Called with the task in words, the number of texts done and their total."""


@dataclass(frozen=True)
class TrainingResult:
    """What a run returns in addition to its checkpoint folder.

    Attributes:
        ranker: the best model, ready to rank.
        dev: its results on the dev questions, beside BM25's.
        best_epoch: the epoch of its weights; 0 if nothing was learnt.
        seconds: duration of the run, from building the vocabulary to evaluating the dev questions.
    """

    ranker: Ranker
    dev: DevResults
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
    about: About = About(),  # noqa: B008
    on_progress: Progress = lambda what, done, total: None,
) -> TrainingResult:
    """Train a model and write its checkpoint folder.

    Args:
        data: the questions to learn from, and the answers that negatives are drawn from.
        dev: the questions that choose the best epoch.
        output: the checkpoint folder; until the run is complete, its state is kept in `<output>.training`.
        config: all settings.
        vectors: pre-trained word vectors.
        device: `auto`, `cpu`, `cuda:0`; `None` as `auto`.
        resume: continue from `<output>.training`.
        callbacks: of the `transformers` Trainer.
        about: what the model card says in addition to the run itself.
        on_progress: called during slow steps other than epochs.

    Raises:
        InputError: nothing to learn from or to resume, or another process is training for the same output.
        WriteError: the disk is full, or the output folder is not writable.
    """
    states = States(output)
    with states.held(resume=resume) as last:
        started = time.perf_counter() - (seconds_so_far(last) if last else 0.0)
        data = judged = replace(data, questions=answerable(data))
        n_pairs = data.pairs
        recipe = config.training_recipe(judged=data.judged)
        objective = objective_spec(recipe.objective)
        if config.learns_from_sentences(n_pairs) and objective.needs_gradient:
            data = with_answer_sentences(data)

        # 1. Vocabulary, first weights, word counts.
        set_seed(config.seed)
        options = complete_options(config.model, config.options)
        if "classes" in options:
            options["classes"] = len(data.classes) if objective.classes else 2
        chosen = resolve_device(device)
        model, tokenizer, inputs = initialize_model(data, config, options, vectors, chosen, on_progress)
        hard = None
        if config.negatives_from != "random" and objective.needs_gradient:
            hard = HardNegatives(data)
        batches = Batches(
            data,
            tokenizer,
            negatives=config.sampled_negatives(recipe.objective),
            own_candidates=objective.own_candidates,
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
        best_epoch, scores = 0, None
        with model.cache_frozen_states():
            if last is None:
                model.fit(_judged_candidates(ranker, sample_questions(judged, config.dev_questions, config.seed)))
            if objective.needs_gradient:
                pairs = Pairs(data, own_candidates=objective.own_candidates)
                best_epoch, scores = _learn(
                    *(ranker, pairs, batches, dev_set, config, recipe, states, last, started, callbacks, on_progress)
                )
            if scores is None:
                scores = _scores(dev_set, ranker, on_progress)
        by_question = scores.by_question
        each, bm25, weight = dev_set.measures_each(by_question), dev_set.bm25_each, dev_set.bm25_weight(by_question)
        fused = dev_set.fused_each(by_question, weight)
        results = DevResults(
            data=dev.name,
            candidates=dev_set.candidates,
            model=means(each),
            bm25=means(bm25),
            fusion=means(fused) if fused else None,
            gain=gain_over_bm25(each["MRR"], bm25["MRR"], fused["MRR"] if fused else None),
        )
        seconds = time.perf_counter() - started

        # 3. Write them as a checkpoint.
        settings = (
            asdict(config)
            | asdict(recipe)
            | {
                "data": data.name,
                "dev": dev.name,
                "pairs": n_pairs,
                "best_epoch": best_epoch,
                "seconds": round(seconds, 1),
            }
            | {"dev_gain": results.gain.facts()}
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
            timed = len(dev_set.questions)
            speed = Speed(scores.question_seconds / timed, timed, _machine(chosen))
            save_checkpoint(
                output, ranker.config, model, tokenizer, model_card(config, settings, results, speed, batches, about)
            )
            states.remove()
        return TrainingResult(ranker, results, best_epoch, seconds)


def _scores(dev: EvaluationSet, ranker: Ranker, on_progress: Progress) -> CandidateScores:
    return dev.timed_scores(ranker, lambda done, total: on_progress("scoring the dev questions", done, total))


def _machine(device: torch.device) -> str:
    """The hardware in words."""
    if device.type != "cpu":
        return device.type
    threads = torch.get_num_threads()
    return "CPU, one thread" if threads == 1 else f"CPU, {threads} threads"


def _judged_candidates(ranker: Ranker, data: Dataset) -> Iterator[JudgedCandidates]:
    """The questions of `data` with the candidates that an evaluation gives them, many of which they share."""
    cached = Ranker(ranker.model, ranker.tokenizer, ranker.device, cache=EncodingCache(FIT_CACHE_BYTES))
    evaluation_set = EvaluationSet(data)
    for question, rows in zip(evaluation_set.questions, evaluation_set.pools, strict=True):
        batches = list(cached.answer_states([data.answers[row].text for row in rows]))
        order = np.concatenate([places for places, _ in batches])
        relevant = torch.from_numpy(np.isin(rows, question.positives))[order].to(ranker.device)
        yield ranker.encode_questions([question.text]), TextStates.stack([states for _, states in batches]), relevant


def _learn(
    ranker: Ranker,
    pairs: Pairs,
    batches: Batches,
    dev: EvaluationSet,
    config: TrainingConfig,
    recipe: Recipe,
    states: States,
    last: Path | None,
    started: float,
    callbacks: tuple[TrainerCallback, ...],
    on_progress: Progress,
) -> tuple[int, CandidateScores | None]:
    """Train by gradient with the Trainer of transformers, which steps, saves, resumes and uses several devices.

    Returns:
        The best epoch, whose weights the model has now, 0 if nothing was learnt; and its scores of the dev questions,
        `None` if they are unknown, because the epoch was before an interruption or nothing was trained.
    """
    if config.epochs == 0:
        return 0, None
    trainer = AnswerTrainer(
        config,
        recipe,
        ranker,
        dev,
        batches,
        states,
        started,
        model=Scorer(ranker.model),
        args=training_arguments(states, config, recipe, ranker.device),
        train_dataset=pairs,
        data_collator=batches,
        callbacks=[EarlyStoppingCallback(config.patience)],
    )
    for shown_by_default in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(shown_by_default)  # they print raw dictionaries; `callbacks` decides what is shown
    for callback in callbacks:
        trainer.add_callback(callback)
    keep_freed_memory()
    model, state = ranker.model, str(last) if last else None
    with _quiet():
        if not model_spec(config.model).pretrained:
            trainer.train(resume_from_checkpoint=state)
        else:  # it is of use untrained, and must not end up worse
            untrained = {name: value.clone() for name, value in model.state_dict().items()}
            scores = _scores(dev, ranker, on_progress)
            measure = dev.measures(scores.by_question)["MRR"]
            trainer.train(resume_from_checkpoint=state)
            if measure >= (trainer.state.best_metric or 0.0):
                model.load_state_dict(untrained)
                return 0, scores
    best = trainer.state.best_global_step or trainer.state.global_step
    return round(best / trainer.steps_per_epoch), trainer.scores.get(best)


@contextlib.contextmanager
def _quiet() -> Any:
    """Silence the library's log, which is about its own model classes."""
    library = logging.getLogger("transformers")
    before = library.level
    library.setLevel(logging.ERROR)
    try:
        yield
    finally:
        library.setLevel(before)
