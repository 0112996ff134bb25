"""The states of an unfinished run to resume from: the Trainer saves them, one process manages them."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerState

from ap_ranker.errors import InputError
from ap_ranker.files import kept_alone, make_folder, restore, sync, write_text_atomically
from ap_ranker.processes import process_number
from ap_ranker.ranking.checkpoint import is_checkpoint
from ap_ranker.training.distributed import wait_for_all

logger = logging.getLogger(__name__)

SECONDS = "eval_training_seconds"
"""Entry in the Trainer's history after each epoch, from which a resumed run knows its duration."""

DEV_SCORES = "dev-scores-"
"""How the names of the files begin that hold what each epoch scored the dev questions (`EpochScores`)."""

DIGEST = "_digest"
"""End of the name of a hash of what a run reads."""

_NOTES = "trainer_state.json"
"""What the Trainer writes last of a state, and what is removed first: without it, a state is incomplete."""


def check_same(kept: Mapping[str, Any], run: Mapping[str, Any], at: Path, advice: str) -> None:
    """Raise an `InputError`, which ends with the advice, if what was kept in a place is of another run.

    What has a hash may have another name, as a file that was moved has.
    """
    different: list[str] = []
    for name, value in run.items():
        if f"{name}{DIGEST}" not in kept and kept.get(name, value) != value:
            different.append(name.removesuffix(DIGEST))
    if different:
        differences = ", ".join(different)
        raise InputError(f"{at}: expected a run with the same settings and data, found another {differences}. {advice}")


class ResumeFolder(TrainerCallback):
    """The folder `<output>.training`, which holds a run's states until the run is complete."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = Path(f"{output}.training")

    @property
    def last(self) -> Path | None:
        """The newest complete state whose best state also exists."""
        for step in self._steps():
            state = self.of_step(step)
            if self._is_whole(state):
                return state
        return None

    def check_output(self, *, resume: bool, overwrite: bool) -> None:
        """Check that a run may write its checkpoint; `overwrite` lets it replace one, and an unfinished run.

        InputError if another process is training, or the output exists and these options do not allow to replace it.
        """
        restore(self.output)
        if self.folder.is_dir():
            with kept_alone(self.folder, "training"):
                pass
        unfinished = self.last is not None and not resume
        if self.output.exists() and not (overwrite and is_checkpoint(self.output)):
            found = "a checkpoint"
            advice = "To replace it, add --overwrite."
            if not is_checkpoint(self.output):
                found = "one that holds something else"
                advice = "Name another one."
            elif unfinished:
                advice = "To start over, add --overwrite; to continue the unfinished run, add --resume --overwrite."
            raise InputError(f"{self.output}: expected a folder that does not exist yet, found {found}. {advice}")
        if unfinished and not overwrite:
            raise InputError(
                f"{self.folder} holds an unfinished run. To continue it, add --resume; to start over, add --overwrite."
            )

    def of_step(self, step: int) -> Path:
        """The folder of a state."""
        return self.folder / f"checkpoint-{step}"

    def step_of(self, state: Path) -> int:
        """The step of a state's folder."""
        return int(state.name.removeprefix("checkpoint-"))

    @contextmanager
    def held(self, *, resume: bool) -> Iterator[Path | None]:
        """Lock the folder, remove the states that the run does not resume from, and yield the state that it does.

        InputError if another process is training, or there is no unfinished run to resume.
        """
        self._resumes = resume and self.last is not None
        if resume and not self.folder.is_dir():
            raise InputError(
                f"{str(self.folder)!r}: expected an unfinished run to resume, found none. Leave out --resume."
            )
        if process_number() != 0:
            yield self.last if resume else None
            return
        make_folder(self.folder)
        with kept_alone(self.folder, "training"):
            last = self.last if resume else None
            if resume and last is None:
                logger.warning("%s: no epoch of the unfinished run was saved; it starts over.", self.folder)
            for step in self._steps():
                if self.of_step(step) == last:
                    break
                self._remove(step)
            if last is None:
                for file in self.folder.glob(f"{DEV_SCORES}*"):  # of another run
                    file.unlink()
            try:
                yield last
            finally:
                if self.last is None:
                    self.remove()

    def check_run(self, run: Mapping[str, Any]) -> None:
        """Keep what a run is made of; InputError if the one that it resumes is made of something else."""
        notes = self.folder / "run.json"
        advice = "Give the same ones, or remove this folder to start over."
        kept = {}
        if self._resumes and notes.is_file():
            kept = json.loads(notes.read_text(encoding="utf-8"))
        ends = {name: run[name] for name in ("epochs", "patience")}  # it may end earlier or later
        check_same({**kept, **ends}, run, self.folder, advice)
        if process_number() == 0:
            write_text_atomically(notes, json.dumps(run))

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Tell the Trainer where the best state is now."""
        if state.best_global_step:
            state.best_model_checkpoint = str(self.of_step(state.best_global_step))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Keep the best state and the last one."""
        wait_for_all()
        if process_number() == 0:
            for path in self.of_step(state.global_step).iterdir():
                sync(path)  # before another one goes
            for step in set(self._steps()) - {state.global_step, state.best_global_step or state.global_step}:
                self._remove(step)

    def remove(self) -> None:
        """Remove all states, and the folder."""
        for step in self._steps():  # if interrupted, a run can resume from the rest
            self._remove(step)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _steps(self) -> list[int]:
        """The steps of all states, the newest first."""
        steps: list[int] = []
        for path in self.folder.glob("checkpoint-*"):
            step = path.name.removeprefix("checkpoint-")
            if step.isdecimal():
                steps.append(int(step))
        return sorted(steps, reverse=True)

    def _is_whole(self, state: Path) -> bool:
        try:
            best = TrainerState.load_from_json(str(state / _NOTES)).best_global_step
        except (OSError, ValueError, TypeError):
            return False
        return not best or self.of_step(best).is_dir()

    def _remove(self, step: int) -> None:
        (self.of_step(step) / _NOTES).unlink(missing_ok=True)
        shutil.rmtree(self.of_step(step), ignore_errors=True)


def seconds_so_far(state: Path | None) -> float:
    """Duration of the run up to this state, in seconds."""
    history = []
    if state:
        history = TrainerState.load_from_json(str(state / _NOTES)).log_history
    return max((entry[SECONDS] for entry in history if SECONDS in entry), default=0.0)


def epochs_so_far(state: Path | None) -> tuple[int, int]:
    """The number of epochs up to this state, and of those after the best one, which the Trainer does not remember."""
    notes = TrainerState.load_from_json(str(state / _NOTES)) if state else TrainerState()
    best = notes.best_global_step or 0
    steps = [entry["step"] for entry in notes.log_history if SECONDS in entry]
    return len(steps), sum(step > best for step in steps)
