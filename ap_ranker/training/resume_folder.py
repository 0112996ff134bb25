"""The states of an unfinished run to resume from: the Trainer saves them, one process manages them."""

from __future__ import annotations

import json
import logging
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

_NOTES = "trainer_state.json"
"""What the Trainer writes last of a state, and what is removed first: without it, a state is incomplete."""


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
        return next((self.of_step(step) for step in self._steps() if self._is_whole(self.of_step(step))), None)

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
        if self.output.exists() and not is_checkpoint(self.output):
            raise InputError(
                f"{self.output}: expected a folder that does not exist yet; it holds something else: name another one."
            )
        if self.output.exists() and not overwrite:
            both = ", with --resume too to continue the unfinished run" if unfinished else ""
            raise InputError(
                f"{self.output}: expected a folder that does not exist yet; add --overwrite to replace it{both}."
            )
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
            for step in self._steps():
                if self.of_step(step) == last:
                    break
                self._remove(step)
            try:
                yield last
            finally:
                if self.last is None:
                    self.remove()

    def keep(self, *steps: int) -> None:
        """Remove all states but these, once the first of them is on disk. For all processes."""
        wait_for_all()
        if is_first_process():
            for path in self.of_step(steps[0]).iterdir():
                sync(path)
            for step in set(self._steps()) - set(steps):
                self._remove(step)

    def remove(self) -> None:
        """Remove all states, and the folder."""
        for step in self._steps():  # if interrupted, a run can resume from the rest
            self._remove(step)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _steps(self) -> list[int]:
        """The steps of all states, the newest first."""
        steps = (path.name.removeprefix("checkpoint-") for path in self.folder.glob("checkpoint-*"))
        return sorted((int(step) for step in steps if step.isdecimal()), reverse=True)

    def _is_whole(self, state: Path) -> bool:
        try:
            best = _read(state)["best_global_step"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return not best or self.of_step(best).is_dir()

    def _remove(self, step: int) -> None:
        (self.of_step(step) / _NOTES).unlink(missing_ok=True)
        shutil.rmtree(self.of_step(step), ignore_errors=True)


def seconds_so_far(state: Path) -> float:
    """Duration of the run up to this state, in seconds."""
    return max((entry[SECONDS] for entry in _read(state)["log_history"] if SECONDS in entry), default=0.0)


def _read(state: Path) -> dict[str, Any]:
    notes: dict[str, Any] = json.loads((state / _NOTES).read_text(encoding="utf-8"))
    return notes
