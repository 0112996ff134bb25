"""A training run, from data sets to a checkpoint folder."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback
from transformers.trainer import SCALER_NAME
from transformers.trainer_utils import set_seed

from ap_ranker.data.dataset import Dataset, answerable, sample_questions
from ap_ranker.data.split import DEV, question_lines
from ap_ranker.errors import InputError
from ap_ranker.evaluation.dev_choice import DevChoice, Epoch
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.files import WriteError, writing
from ap_ranker.models.base import AnswerModel, JudgedCandidates
from ap_ranker.models.base import States as TextStates
from ap_ranker.models.pretrained import encoder_hash, find_encoder
from ap_ranker.models.registry import model_spec
from ap_ranker.models.spec import Inputs, Recipe
from ap_ranker.processes import process_number
from ap_ranker.progress import Progress, quiet, untold
from ap_ranker.ranking.cache import CACHE_BYTES, EncodingCache
from ap_ranker.ranking.checkpoint import (
    DEV_QUESTIONS,
    TRAINED_FORMS,
    TRAINED_QUESTIONS,
    CheckpointConfig,
    find_checkpoint,
    is_checkpoint,
    read_checkpoint_config,
    save_checkpoint,
    trained_forms,
    trained_lines,
)
from ap_ranker.ranking.faq_sketch import FAQSketch
from ap_ranker.ranking.loaded_checkpoints import load_shared
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.ranking.verdict import Verdict
from ap_ranker.text.near_copies import near_any, near_groups
from ap_ranker.text.tokenizer import AnyTokenizer
from ap_ranker.training.augment import with_answer_sentences
from ap_ranker.training.batches import Batches
from ap_ranker.training.calibrate import calibrate
from ap_ranker.training.card import About, model_card
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.dev_set import dev_set_of, with_all_wordings
from ap_ranker.training.distributed import wait_for_all
from ap_ranker.training.find_vectors import PretrainedVectors, find_vectors
from ap_ranker.training.freed_memory import freed_memory_kept
from ap_ranker.training.initialize import initialize_from, initialize_model, settings_of_start, with_effort
from ap_ranker.training.objectives import ObjectiveSpec, objective_spec
from ap_ranker.training.prior_calibration import prior_calibration
from ap_ranker.training.resume_folder import DIGEST, ResumeFolder, check_same, seconds_so_far
from ap_ranker.training.search_before import has_learnt_from, verdict_of_training
from ap_ranker.training.teacher import Teacher
from ap_ranker.training.trainer import AnswerTrainer

logger = logging.getLogger(__name__)

CALIBRATED_ANSWERS = 2_000
"""Number of answers up to which training calibrates, too; with more that takes minutes, and `calibrate` does it."""

FIT_CACHE_BYTES = 2 * 10**9
"""For the answers' states while a model is fitted to training questions, which share candidates."""


@dataclass(frozen=True)
class TrainingResult:
    """The best model of a run, and its results on the dev questions, beside BM25's.

    `best_epoch` is that of its weights, 0 if it is untrained; `seconds` took the run, from building the vocabulary to
    evaluating the dev questions. The verdict compares the search with this model with the one before; `None` without a
    training, or if the candidates of the data were judged one by one, which no search has.
    """

    ranker: Ranker
    dev: EvaluationReport
    best_epoch: int
    seconds: float
    verdict: Verdict | None = None


def train(
    data: Dataset,
    dev: Dataset,
    output: str | Path,
    config: TrainingConfig,
    *,
    vectors: PretrainedVectors | None = None,
    teacher: Teacher | None = None,
    start: Ranker | None = None,
    before: Ranker | None = None,
    device: str | None = None,
    resume: bool = False,
    callbacks: tuple[TrainerCallback, ...] = (),
    about: About = About(),  # noqa: B008
    on_progress: Progress = untold,
) -> TrainingResult:
    """Train a model and write its checkpoint folder.

    Args:
        data: the questions to learn from, and the answers that negatives are drawn from.
        dev: the questions on which the best epoch is chosen.
        output: the checkpoint folder; until the run is complete, its state is in `<output>.training`.
        config: all settings.
        vectors: pre-trained word vectors; by default those that `config.embeddings` names.
        teacher: a model to learn from beside the labels, as `distill` does.
        start: a checkpoint of the same model, trained on other data, whose weights the run begins with; it decides the
            options that `config` leaves open.
        before: the checkpoint of the search that the new one may replace; by default the start, or else none: the
            untrained search. The verdict says whether the new one is at least as good.
        device: `auto`, `cpu`, `cuda:0`; `None` means `auto`.
        resume: continue from `<output>.training`.
        callbacks: of the `transformers` Trainer.
        about: facts for the model card that the run itself does not know.
        on_progress: called during slow steps other than epochs.

    Raises:
        InputError: nothing to learn from, to choose the epoch by or to resume, or another process is training for the
            same output.
        WriteError: the disk is full, or the output folder is not writable.
    """
    output = Path(output)
    place = resolve_device(device)
    config = with_effort(config if start is None else settings_of_start(config, start), place)
    states = ResumeFolder(output)
    with states.held(resume=resume) as last:
        started = time.perf_counter() - seconds_so_far(last)
        unanswered = [question for question in data.questions if data.judged and not question.positives]
        data = replace(data, questions=answerable(data))
        answerable(dev)  # before minutes of reading
        recipe = _recipe(config, data, teacher)
        objective = objective_spec(recipe.objective)

        sentences = objective.needs_gradient and config.learns_from_sentences(data.pairs)
        learnt = with_answer_sentences(data) if sentences else data
        lessons = None
        if teacher:
            learnt, lessons = teacher.teach(learnt, data, unanswered, config.language, on_progress)
        record = _record(config, recipe, data, dev, start, teacher)
        states.check_run(record)

        # 1. Build the vocabulary and initialise the weights.
        set_seed(config.seed)
        options = _options(config, data, objective)
        vectors = vectors or find_vectors(config.embeddings, config.embedding_size, on_progress)
        model, tokenizer, inputs = _initialize(
            start, learnt, config, options=options, vectors=vectors, device=place, on_progress=on_progress
        )
        batches = Batches(
            learnt,
            tokenizer,
            negatives=objective.negatives if config.negatives is None else config.negatives,
            own_candidates=objective.own_candidates,
            own_negatives=recipe.own_negatives and recipe.objective == "hinge",
            seed=config.seed,
            lessons=lessons,
            taught=objective.taught_answers if config.taught_answers is None else config.taught_answers,
        )
        if model.statistics is not None:
            model.statistics.count(batches.answers)
        ranker = Ranker(model, tokenizer, place, cache=EncodingCache(0))  # evaluates states as they are stored

        # 2. Train, and evaluate the best epoch beside BM25.
        dev_with_wordings = with_all_wordings(dev, data)
        dev_set = dev_set_of(dev_with_wordings, config)
        with model.cache_frozen_states(outlives=not data.has_feedback):
            # Also in a resumed run, which may keep the untrained model in the end.
            if start is None or not objective.needs_gradient:  # a trained model's weights are better than fitted ones
                model.fit(_judged_candidates(ranker, data, config, on_progress))
            if objective.needs_gradient and config.epochs != 0:
                trainer = AnswerTrainer(
                    config,
                    recipe,
                    ranker=ranker,
                    dev=dev_set,
                    batches=batches,
                    states=states,
                    started=started,
                    callbacks=callbacks,
                    last=last,
                )
                choice = _learn(trainer, last, on_progress)
            else:
                choice = DevChoice.of([_epoch(0, dev_set, ranker, on_progress)])
        best_epoch = choice.best.number
        report = _dev_report(choice, data, start, teacher)
        seconds = time.perf_counter() - started

        # 3. Write the checkpoint.
        ranker.config = CheckpointConfig(
            config.model,
            options,
            inputs.embedding_size,
            inputs.max_tokens,
            record
            | {
                "answers": data.answers_file,
                "dev": dev.name,
                "pairs": data.pairs,
                "unlabelled": len(lessons.rows) - lessons.labelled if lessons else 0,
                "word_vectors": vectors.origin if vectors else None,
                "best_epoch": best_epoch,
                "seconds": round(seconds, 1),
                "dev_gain": {"better_than_bm25": report.gain.better, **asdict(report.gain)},
            },
            bm25_weight=choice.weights.bm25,
            bm25_language=config.language,
            wording_weight=choice.weights.wording,
            encoder=inputs.encoder,
            faq=FAQSketch.with_language(data.answer_texts),
        )
        wait_for_all()  # other processes may still be reading the best epoch's weights
        if process_number() == 0:
            ranker.config = _judged(
                choice, ranker, dev_with_wordings, data, config, before=before or start, device=device
            )
            files = _question_files(data, dev, learnt, start)
            card = model_card(ranker.config, report, _machine(place), batches, about)
            calibrated = partial(_calibrate, dev=dev_with_wordings, ranker=ranker, device=device)
            save_checkpoint(output, ranker.config, model, tokenizer, card, files, finish=calibrated)
            ranker.config = read_checkpoint_config(output)
            states.remove()
        return TrainingResult(ranker, report, best_epoch=best_epoch, seconds=seconds, verdict=ranker.config.verdict)


def train_or_load(
    data: Dataset,
    dev: Dataset,
    folder: Path,
    config: TrainingConfig,
    *,
    vectors: PretrainedVectors | None = None,
    start: Ranker | None = None,
    teacher: Teacher | None = None,
    device: str | None = None,
    **others: Any,
) -> Ranker:
    """Load the ranker of the finished run in `folder`, or train one there, from where an unfinished run ended.

    The arguments are those of `train`; `vectors` are ignored for a model with a pretrained encoder. InputError if
    `folder` holds a run with other settings, on other data, from another start or teacher.
    """
    config = with_effort(config if start is None else settings_of_start(config, start), resolve_device(device))
    if not is_checkpoint(folder):
        others["vectors"] = None if model_spec(config.model).pretrained else vectors
        others["resume"] = ResumeFolder(folder).last is not None
        return train(data, dev, folder, config, start=start, teacher=teacher, device=device, **others).ranker
    ranker = Ranker.from_pretrained(folder, resolve_device(device), cache=EncodingCache(0))  # as `train` returns it
    assert ranker.config is not None
    settings = _record(config, _recipe(config, data, teacher), data, dev, start, teacher)
    check_same(ranker.config.training, settings, folder, "Name another folder for the runs, or remove this one.")
    return ranker


def _weights_read(config: TrainingConfig, start: Ranker | None) -> str | None:
    """A hash of the weights that a run begins with: those that do not learn are in no state of it."""
    encoder = config.model_options.get("encoder")
    if start:
        return start.fingerprint
    return encoder and encoder_hash(find_encoder(encoder))


def _initialize(
    start: Ranker | None,
    data: Dataset,
    config: TrainingConfig,
    options: Mapping[str, Any],
    vectors: PretrainedVectors | None,
    device: torch.device,
    on_progress: Progress,
) -> tuple[AnswerModel, AnyTokenizer, Inputs]:
    """The model that a run begins with, with the weights of its start, if there is one."""
    if start:
        return initialize_from(start, data, config, options=options, device=device, on_progress=on_progress)
    return initialize_model(data, config, options=options, vectors=vectors, device=device, on_progress=on_progress)


def _options(config: TrainingConfig, data: Dataset, objective: ObjectiveSpec) -> dict[str, Any]:
    """The options of the model; of one that tells classes, how many there are."""
    options = config.model_options
    if "classes" in options:
        options["classes"] = len(data.classes) if objective.classes else 2
    return options


def _recipe(config: TrainingConfig, data: Dataset, teacher: Teacher | None) -> Recipe:
    per_answer = data.questions_per_answer
    taught = teacher is not None
    return config.training_recipe(judged=data.judged, questions_per_answer=per_answer, with_teacher=taught)


def _calibrate(draft: Path, *, dev: Dataset, ranker: Ranker, device: str | None) -> None:
    """Calibrate a checkpoint before it takes its place, by the model in memory, with any number of dev questions.

    Of a large FAQ, or one whose candidates were judged, what was learnt from others stays its calibration.
    """
    if not dev.judged and dev.answerable and len(dev.answers) <= CALIBRATED_ANSWERS:
        written = read_checkpoint_config(draft), ranker.model, ranker.tokenizer
        held = load_shared(draft, ranker.device, written)
        try:
            calibrate(held.files.folder, dev, device=device)
        except WriteError:
            raise
        except InputError as error:  # what was learnt must not be lost for it
            logger.warning("The checkpoint is not calibrated. %s", error)


def _record(
    config: TrainingConfig, recipe: Recipe, data: Dataset, dev: Dataset, start: Ranker | None, teacher: Teacher | None
) -> dict[str, Any]:
    """All that a run is made of: its settings, and the names and hashes of what it reads, as JSON has them."""
    names = {
        "data": data.name,
        "start": start.source if start else None,
        "teacher": teacher.source if teacher else None,
    }
    digests = {
        "data": data.digest,
        "dev": dev.digest,
        "encoder": _weights_read(config, start),
        "teacher": teacher.digest if teacher else None,
    }
    record = asdict(config) | asdict(recipe) | names
    for name, digest in digests.items():
        record[f"{name}{DIGEST}"] = digest
    return json.loads(json.dumps(record))


def _question_files(data: Dataset, dev: Dataset, learnt: Dataset, start: Ranker | None) -> dict[str, str | bytes]:
    """What tells new questions from those that the model has learnt from or was chosen by.

    The user has no file of dev questions that were set aside, so they are there, too.
    """
    before = find_checkpoint(start.source) if start else None
    files: dict[str, str | bytes] = {
        TRAINED_QUESTIONS: trained_lines(learnt.question_texts, before),
        TRAINED_FORMS: trained_forms(data.question_texts, before),
        DEV_QUESTIONS: trained_lines(dev.question_texts),
    }
    if data.withheld:
        files[DEV] = question_lines(dev)
    return files


def _judged(
    choice: DevChoice,
    ranker: Ranker,
    dev: Dataset,
    data: Dataset,
    config: TrainingConfig,
    *,
    before: Ranker | None,
    device: str | None,
) -> CheckpointConfig:
    """The ranker's configuration with its calibration before any question, and with the verdict of its training.

    There is no verdict without a training, or if candidates were judged one by one, as no search has those.
    """
    assert ranker.config is not None
    ranker.model.eval()
    cache = EncodingCache(CACHE_BYTES)  # the prior and the verdict need the same texts
    reader = Ranker(ranker.model, ranker.tokenizer, ranker.device, ranker.config, cache=cache)
    prior = prior_calibration(reader, dev.answers)
    verdict = None
    if not data.judged and config.epochs != 0:
        verdict = verdict_of_training(choice, reader, data, config, before=before, prior=prior, device=device)
    return replace(ranker.config, calibration=prior, prior=prior, verdict=verdict)


def _dev_report(choice: DevChoice, data: Dataset, start: Ranker | None, teacher: Teacher | None) -> EvaluationReport:
    """The cross-fitted report on the dev questions, and which of them are new: no near copy of a known question.

    Known is also what the start or the teacher has learnt from. Those that are near to each other are not new: while
    one is asked, the others are known.
    """
    seen = set(data.question_texts)
    seen |= data.wordings
    texts = choice.best.evaluation_set.question_texts
    near = near_any(set(texts), seen)
    is_known = np.array([text in near for text in texts])
    for earlier in (start, teacher.checkpoint if teacher else None):
        if earlier is not None:
            is_known |= has_learnt_from(earlier, texts)
    groups = near_groups(texts)
    is_repeated = (np.bincount(groups)[groups] > 1) & (not data.judged)
    return replace(choice.report(), near=is_known | is_repeated)


def _epoch(number: int, dev: EvaluationSet, ranker: Ranker, on_progress: Progress) -> Epoch:
    scores = dev.timed_scores(ranker, partial(on_progress, "scoring the dev questions"))
    return Epoch.of(number, dev, ranker, scores)


def _machine(device: torch.device) -> str:
    threads = torch.get_num_threads()
    if device.type != "cpu":
        return device.type
    return f"CPU, {'one thread' if threads == 1 else f'{threads} threads'}"


def _judged_candidates(
    ranker: Ranker, data: Dataset, config: TrainingConfig, on_progress: Progress
) -> Iterator[JudgedCandidates]:
    """Some questions with their candidates as in an evaluation; questions share the states of candidates."""
    data = sample_questions(data, min(config.dev_questions, ranker.model.fit_questions), config.seed)
    cached = Ranker(ranker.model, ranker.tokenizer, ranker.device, cache=EncodingCache(FIT_CACHE_BYTES))
    evaluation_set = EvaluationSet(data, language=config.language)
    for done, (question, rows) in enumerate(zip(evaluation_set.questions, evaluation_set.pools, strict=True)):
        on_progress("fitting to training questions", done, len(data.questions))
        states_of_batches: list[TextStates] = []
        order: list[int] = []  # of the candidates, which are encoded with those of a similar length
        for places, states in cached.answer_states([data.answers[row].text for row in rows]):
            order += places
            states_of_batches.append(states)
        relevant = torch.from_numpy(np.isin(rows, question.positives))[order].to(ranker.device)
        yield ranker.encode_questions([question.text]), TextStates.stack(states_of_batches), relevant
    on_progress("fitting to training questions", len(data.questions), len(data.questions))


def _learn(trainer: AnswerTrainer, last: Path | None, on_progress: Progress) -> DevChoice:
    """Train by gradient, and load the weights of the best epoch; it is 0 if the untrained model is better."""
    model = trainer.ranker.model
    state = str(last) if last else None
    folder = Path(str(trainer.args.output_dir))
    before: list[Epoch] = []
    with quiet("transformers"), writing(folder), freed_memory_kept():  # its log is about its own model classes
        if model_spec(trainer.config.model).pretrained:  # training must not make its encoder worse
            untrained = {}
            for name, weights in model.named_parameters():
                if weights.requires_grad:
                    untrained[name] = weights.detach().clone()
            before = [_epoch(0, trainer.dev, trainer.ranker, on_progress)]
        if last and trainer.accelerator.scaler is None:  # a GPU in half precision began this run
            (last / SCALER_NAME).unlink(missing_ok=True)
        trainer.train(resume_from_checkpoint=state)
        if trainer.collator.instructive == {False}:
            advice = "Are all answers nearly equal, or batch_size 1, or negatives 0?"
            logger.warning("Nothing was learnt: no batch had a wrong answer to any of its questions. %s", advice)
        epochs = [*before, *trainer.kept.epochs]
        if before and before[0].mrr() >= (trainer.state.best_metric or 0.0):
            model.load_state_dict(untrained, strict=False)
            logger.info("No epoch ranks the dev questions better than the untrained encoder, which is kept.")
            return DevChoice(epochs, before[0])
    step = trainer.state.best_global_step or trainer.state.global_step
    best = trainer.kept.of_step(step)
    if best is None:  # an earlier release began this run, which kept no scores
        best = _epoch(round(step / len(trainer.batches)), trainer.dev, trainer.ranker, on_progress)
        epochs.append(best)
    return DevChoice(epochs, best)
