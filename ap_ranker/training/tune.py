"""Hyper-parameter search with Optuna (Akiba et al., KDD 2019).

Its tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011) proposes settings from earlier trials, and its
median rule prunes trials that fall behind.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from transformers import TrainerCallback

from ap_ranker.data.dataset import Dataset, answerable, sample_questions
from ap_ranker.errors import InputError, library_errors
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.files import LOCK, WriteError, kept_alone, make_folder, write_text_atomically, writing
from ap_ranker.models.registry import model_spec
from ap_ranker.progress import Progress, quiet, untold
from ap_ranker.ranking.checkpoint import checkpoint_draft, is_checkpoint
from ap_ranker.ranking.ranker import resolve_device
from ap_ranker.training.card import About
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.find_vectors import find_vectors
from ap_ranker.training.search_space import OPTION, Space, Values, configure
from ap_ranker.training.train import TrainingResult, train

# isort: split
import optuna  # after `space`, which says what to install if it is missing
from optuna.distributions import CategoricalDistribution, IntDistribution, distribution_to_json
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

LOG = "trials.log"
BEST = "best.yaml"
CHECKPOINT = "checkpoint"
"""The files of a search: its trials, the best settings, their checkpoint."""

MEASURE = "MRR"
"""What is maximised on the dev questions, cross-fitted as a checkpoint's card has it: a trial of many epochs is not
preferred because one of them was lucky. Uncrossed, it also chooses a run's epoch, and prunes."""

DEFINITION = "definition"
ERROR = "error"
"""Attributes: of a study, what is searched, to be continued only so; of a trial, why its settings made it fail."""


@dataclass(frozen=True)
class Search:
    """The result of a search: trials of optuna, whose value is the cross-fitted MRR on the dev questions."""

    trials: list[FrozenTrial]  # in order, including those before an interruption, but none that was interrupted
    best: FrozenTrial  # whose checkpoint is kept
    bm25: dict[str, float]  # measure -> mean on the same dev questions


def tune(
    data: Dataset,
    dev: Dataset,
    space: Space,
    output: str | Path,
    base: TrainingConfig,
    *,
    trials: int = 20,
    device: str | None = None,
    about: About = About(),  # noqa: B008
    on_trial: Callable[[FrozenTrial, bool], None] = lambda *_: None,
    on_progress: Progress = untold,
) -> Search:
    """Search for the settings with the best MRR on the dev questions; in one process.

    All trials have the settings of `base` that the `space` does not try; the other arguments are those of `train`. An
    unfinished search with the same arguments in the folder `output` is continued: `trials` is the total number of
    trials, but for interrupted ones. `on_trial` is called with each, and whether it is the best so far,
    `on_progress` with the number of epochs of a trial that are done, and of all.
    InputError if the folder holds something else, there is nothing to learn from, or no trial succeeds.
    """
    output = Path(output)
    resolve_device(device)
    answerable(data)
    is_fixed = not {"embeddings", "embedding_size"} & space.keys()
    vectors = None
    if is_fixed:  # once for all trials
        vectors = find_vectors(base.embeddings, base.embedding_size, on_progress)
    bm25 = EvaluationSet(sample_questions(dev, base.dev_questions, base.seed), language=base.language).bm25
    values = {name: json.loads(distribution_to_json(distribution)) for name, distribution in space.items()}
    hashes = {"training questions": data.digest, "dev questions": dev.digest}
    definition = json.loads(json.dumps({"space": values, "setting": asdict(base), "data": hashes}))
    run = partial(train, data, dev, vectors=vectors, device=device, about=about)
    make_folder(output)
    with kept_alone(output, "searching"), writing(output / LOG), quiet("optuna"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"optuna|ap_ranker\.training\.tune")  # of experimental features
        is_new = not (output / LOG).exists()
        try:
            study = _open(output, definition)
        except OSError:  # a full disk: half a log says nothing
            if is_new:
                (output / LOG).unlink(missing_ok=True)
            raise
        _keep_best(study, output, base)
        while len(_finished(study)) < trials:
            # The draws do not depend on interruptions. Were the numbers added, seed 2 would repeat those of seed 1.
            seed = np.random.SeedSequence([base.seed, len(study.trials)]).generate_state(1)[0]
            study.sampler = optuna.samplers.TPESampler(seed=int(seed))
            told = partial(on_progress, f"epochs of trial {len(_finished(study)) + 1} of {trials}")
            _run_trial(study, space, output, base, run, told)
            _keep_best(study, output, base)
            last = study.get_trials()[-1]
            on_trial(last, _best(study) == last)
        finished = _finished(study)
        best = _best(study)
        if best is None:
            raise InputError(
                f"{output}: expected at least one of {len(finished)} trials to succeed, found none; the last one: "
                f"{finished[-1].user_attrs[ERROR]}. Change the space, and name another folder."
            )
        return Search(finished, best, bm25)


def _run_trial(
    study: optuna.Study,
    space: Space,
    output: Path,
    base: TrainingConfig,
    run: Callable[..., TrainingResult],
    on_epoch: Callable[[int, int], None],
) -> None:
    trial = study.ask()
    values = _draw(trial, space, base)
    try:
        result = run(output / f"trial-{trial.number}", configure(base, values), callbacks=(_Epochs(trial, on_epoch),))
        study.tell(trial, result.dev.model[MEASURE])
    except optuna.TrialPruned:
        study.tell(trial, state=TrialState.PRUNED)
    except WriteError:  # other settings would not help
        raise
    except (InputError, torch.OutOfMemoryError) as error:
        trial.set_user_attr(ERROR, str(error).split("\n")[0])
        study.tell(trial, state=TrialState.FAIL)
    finally:
        on_epoch(1, 1)  # whatever was left of it


def _draw(trial: optuna.Trial, space: Space, base: TrainingConfig) -> dict[str, Any]:
    """Draw the trial's values; the model first, as its options depend on it."""
    values: dict[str, Any] = {}
    for name in sorted(space, key=lambda name: name != "model"):
        options = model_spec(values.get("model", base.model)).options
        if not name.startswith(OPTION) or name.removeprefix(OPTION) in options:
            values[name] = _suggest(trial, name, space[name])
    return values


def _suggest(trial: optuna.Trial, name: str, values: Values) -> Any:
    if isinstance(values, CategoricalDistribution):
        return trial.suggest_categorical(name, values.choices)
    suggest: Callable[..., Any] = trial.suggest_int if isinstance(values, IntDistribution) else trial.suggest_float
    return suggest(name, values.low, values.high, step=values.step, log=values.log)


class _Epochs(TrainerCallback):
    """Reports each epoch to the trial, and ends the run if the trial is pruned."""

    def __init__(self, trial: optuna.Trial, on_epoch: Callable[[int, int], None]) -> None:
        self.trial = trial
        self._on_epoch = on_epoch

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._on_epoch(round(state.epoch or 0), round(args.num_train_epochs))

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        epoch = round(state.epoch or 0)
        self._on_epoch(epoch, round(args.num_train_epochs))
        self.trial.report(kwargs["metrics"][f"eval_{MEASURE}"], epoch)
        if epoch < args.num_train_epochs and self.trial.should_prune():
            raise optuna.TrialPruned


def _open(output: Path, definition: Mapping[str, Mapping[str, Any]]) -> optuna.Study:
    """The study of a new folder, or of the same search in it; an interrupted trial counts as failed."""
    log = output / LOG
    if not log.exists() and any(path.name != LOCK for path in output.iterdir()):
        raise InputError(f"{output}: expected a new folder or that of an earlier search, found no {LOG} in it.")
    # A killed process leaves a lock file, for which optuna would wait 30 seconds.
    log.with_name(f"{LOG}.lock").unlink(missing_ok=True)
    text = log.read_bytes() if log.exists() else b""
    kinds = (ValueError, KeyError, AttributeError, TypeError)
    with library_errors(f"{log}: expected the log of an earlier search, found damaged lines", kinds):
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:
            write_text_atomically(log, whole.decode())  # an interruption may truncate the last line
        find = optuna.load_study if whole else partial(optuna.create_study, direction="maximize")
        storage = JournalStorage(JournalFileBackend(str(log)))
        study = find(
            study_name="tune",
            storage=storage,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=3),  # slow learners lag at first
        )
        earlier = study.user_attrs.get(DEFINITION, {} if study.trials else definition)
        different: list[str] = []
        for part, entries in definition.items():
            earlier_entries = earlier.get(part, {})
            for name in sorted(entries.keys() | earlier_entries.keys()):
                if entries.get(name) != earlier_entries.get(name):
                    different.append(f"{part} {name}")
        if different:
            raise InputError(
                f"{output}: expected to continue the search in this folder, found another {', '.join(different)}. "
                "Name another folder with --output, or remove this one."
            )
        if DEFINITION not in study.user_attrs:
            study.set_user_attr(DEFINITION, definition)
        for trial in study.get_trials(states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)
    return study


def _finished(study: optuna.Study) -> list[FrozenTrial]:
    """All trials except interrupted ones, which failed without an error."""
    finished: list[FrozenTrial] = []
    for trial in study.get_trials():
        has_ended = trial.state != TrialState.FAIL or trial.user_attrs
        if trial.state.is_finished() and has_ended:
            finished.append(trial)
    return finished


def _best(study: optuna.Study) -> FrozenTrial | None:
    complete = study.get_trials(states=(TrialState.COMPLETE,))
    return max(complete, key=lambda trial: trial.value or 0.0, default=None)


def _keep_best(study: optuna.Study, output: Path, base: TrainingConfig) -> None:
    """Publish the best trial's checkpoint, if it is new, and remove the others.

    A trial's checkpoint stays in its own folder until the log has the trial as complete, so the next call recovers from
    an interruption at any point.
    """
    best = _best(study)
    if best is not None:
        new = output / f"trial-{best.number}"
        if is_checkpoint(new):
            with checkpoint_draft(output / CHECKPOINT) as draft:
                shutil.copytree(new, draft, dirs_exist_ok=True)
            title = f"# The best trial of `ap-ranker tune`, number {best.number + 1}: dev MRR {best.value:.4f}.\n"
            settings = configure(base, best.params).without_defaults()
            content = title + yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
            write_text_atomically(output / BEST, content)
    for other in output.glob("trial-*"):
        shutil.rmtree(other)
