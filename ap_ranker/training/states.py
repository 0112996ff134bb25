"""The states of an unfinished run, to go on from: each is there whole or not at all, and one process writes them."""

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
from ap_ranker.files import make_folder, publish, writing
from ap_ranker.locks import kept_alone
from ap_ranker.training.distributed import is_first_process, wait_for_all

logger = logging.getLogger(__name__)

SECONDS = "eval_training_seconds"
"""Kept in the Trainer's history after each epoch, so that a resumed run knows how long it took in all."""

DOING = "training"

_STATE = re.compile(r"checkpoint-\d+")  # as the Trainer names them, by their step


class States:
    """The folder beside a run's output that holds its states until it is complete.

    Attributes:
        folder: `<output>.training`.
        half: where the Trainer writes a state that is not whole yet.
    """

    def __init__(self, output: Path) -> None:
        self.folder = Path(f"{output}.training")
        self.half = self.folder / ".half"

    @property
    def last(self) -> Path | None:
        """The newest state that a run can go on from: whole, and beside the best one before it."""
        return next((path for path in self._newest_first() if self._is_whole(path)), None)

    def check_free(self) -> None:
        """Make sure that no process is training, as far as that can be known.

        Raises:
            InputError: one is.
        """
        if self.folder.is_dir():
            with kept_alone(self.folder, DOING):
                pass

    def of_step(self, step: int) -> Path:
        """The folder of a state."""
        return self.folder / f"checkpoint-{step}"

    @contextmanager
    def held(self, *, resume: bool) -> Iterator[Path | None]:
        """Keep the folder to this run, and remove what it does not go on from; gives the state that it goes on from.

        Args:
            resume: go on from the last state, if there is one; otherwise begin anew.

        Raises:
            InputError: another process is training, or there is nothing to resume.
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
        with kept_alone(self.folder, DOING):
            last = self.last if resume else None
            if resume and last is None:
                logger.warning("%s: no epoch of the unfinished run was saved: it begins anew.", self.folder)
            for path in self._newest_first():
                if last is None or _step(path) > _step(last):
                    _remove(path)
            for path in self.folder.glob(".*"):
                shutil.rmtree(path, ignore_errors=True)
            try:
                yield last
            finally:
                if self.last is None:
                    self.remove()

    @contextmanager
    def saving(self, step: int) -> Iterator[None]:
        """Within, the Trainer writes a state into `half`. All processes enter; the state is there when they leave.

        Raises:
            WriteError: it cannot be written.
        """
        with writing(self.of_step(step)):
            try:
                yield
                wait_for_all()
                if is_first_process():
                    publish(self.half / self.of_step(step).name, self.of_step(step))
                wait_for_all()
            finally:
                if is_first_process():
                    shutil.rmtree(self.half, ignore_errors=True)

    def keep(self, *steps: int) -> None:
        """Remove all other states."""
        for path in self._newest_first():
            if is_first_process() and _step(path) not in steps:
                _remove(path)

    def remove(self) -> None:
        """Forget the run."""
        for path in self._newest_first():  # whichever are left, if this is interrupted, a run can go on from
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
    """How long the run had been trained when it saved this state."""
    return max((entry[SECONDS] for entry in _read(state)["log_history"] if SECONDS in entry), default=0.0)


def _read(state: Path) -> dict[str, Any]:
    """What the Trainer notes beside the numbers, after them."""
    noted: dict[str, Any] = json.loads((state / "trainer_state.json").read_text(encoding="utf-8"))
    return noted


def _step(state: Path) -> int:
    return int(state.name.split("-")[1])


def _remove(state: Path) -> None:
    """So that at no moment a part of it passes for a state."""
    gone = state.with_name(f".{state.name}")
    state.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
