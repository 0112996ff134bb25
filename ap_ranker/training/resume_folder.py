"""The states of an unfinished run to resume from. One process writes them; a state is whole once its notes are."""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ap_ranker.errors import InputError
from ap_ranker.files import make_folder, restore, sync
from ap_ranker.locks import kept_alone
from ap_ranker.ranking.checkpoint import is_checkpoint
from ap_ranker.training.distributed import is_first_process, wait_for_all

logger = logging.getLogger(__name__)

SECONDS = "eval_training_seconds"
"""Entry in the Trainer's history after each epoch, from which a resumed run knows its duration."""

_STATE = re.compile(r"checkpoint-\d+")  # the Trainer's names, with the step
_NOTES = "trainer_state.json"
"""What the Trainer writes last, and what is removed first: a state without it is none."""


class ResumeFolder:
    """The folder beside a run's output that holds its states until the run is complete.

    Attributes:
        folder: `<output>.training`.
    """

    def __init__(self, output: Path) -> None:
        self.output, self.folder = output, Path(f"{output}.training")

    @property
    def last(self) -> Path | None:
        """The newest complete state whose best state also exists."""
        return next((path for path in self._newest_first() if self._is_whole(path)), None)

    def check_output(self, *, resume: bool, overwrite: bool) -> None:
        """Check that a run may write its checkpoint.

        Args:
            resume: the run continues an unfinished one, if there is one.
            overwrite: the run may replace a checkpoint or an unfinished run.

        Raises:
            InputError: another process is training, or the output exists and these options do not allow to replace it.
        """
        restore(self.output)
        if self.folder.is_dir():
            with kept_alone(self.folder, "training"):
                pass
        unfinished = self.last is not None and not resume
        if self.output.exists() and not (overwrite and is_checkpoint(self.output)):
            advice = "it holds something else: name another folder"
            if is_checkpoint(self.output):
                both = ", with --resume too to continue the unfinished run" if unfinished else ""
                advice = f"add --overwrite to replace it{both}"
            raise InputError(f"{self.output}: expected a folder that does not exist yet; {advice}.")
        if unfinished and not overwrite:
            raise InputError(
                f"{self.folder} holds an unfinished run: add --resume to continue it, or --overwrite to start over."
            )

    def of_step(self, step: int) -> Path:
        """The folder of a state."""
        return self.folder / f"checkpoint-{step}"

    @contextmanager
    def held(self, *, resume: bool) -> Iterator[Path | None]:
        """Lock the folder, remove the states that the run does not resume from, and yield the state that it does.

        Args:
            resume: whether to resume from the last state, if there is one, instead of starting over.

        Raises:
            InputError: another process is training, or there is no unfinished run to resume.
        """
        if resume and not self.folder.is_dir():
            raise InputError(
                f"Nothing to resume: expected the state of an unfinished run in {str(self.folder)!r}. "
                "Leave out --resume."
            )
        if not is_first_process():
            yield self.last if resume else None
            return
        make_folder(self.folder)
        with kept_alone(self.folder, "training"):
            last = self.last if resume else None
            if resume and last is None:
                logger.warning("%s: no epoch of the unfinished run was saved; it starts over.", self.folder)
            for path in self._newest_first():
                if last is None or _step(path) > _step(last):
                    _remove(path)
            try:
                yield last
            finally:
                if self.last is None:
                    self.remove()

    def keep(self, *steps: int) -> None:
        """Remove all states but these, once they are on disk in all processes."""
        wait_for_all()
        if is_first_process():
            for path in self.of_step(steps[0]).iterdir():
                sync(path)
            for path in self._newest_first():
                if _step(path) not in steps:
                    _remove(path)

    def remove(self) -> None:
        """Remove all states, and the folder."""
        for path in self._newest_first():  # if interrupted, a run can resume from the rest
            _remove(path)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _newest_first(self) -> list[Path]:
        return sorted((path for path in self.folder.glob("*") if _STATE.fullmatch(path.name)), key=_step, reverse=True)

    def _is_whole(self, state: Path) -> bool:
        try:
            best = _read(state)["best_global_step"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return not best or self.of_step(best).is_dir()


def seconds_so_far(state: Path) -> float:
    """Duration of the run up to this state, in seconds."""
    return max((entry[SECONDS] for entry in _read(state)["log_history"] if SECONDS in entry), default=0.0)


def _read(state: Path) -> dict[str, Any]:
    notes: dict[str, Any] = json.loads((state / _NOTES).read_text(encoding="utf-8"))
    return notes


def _step(state: Path) -> int:
    return int(state.name.split("-")[1])


def _remove(state: Path) -> None:
    (state / _NOTES).unlink(missing_ok=True)
    shutil.rmtree(state, ignore_errors=True)
