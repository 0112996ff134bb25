"""The saved states of an unfinished run, to resume from: each is written atomically, by one process."""

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
"""Entry in the Trainer's history after each epoch, so that a resumed run knows its total duration."""

DOING = "training"

_STATE = re.compile(r"checkpoint-\d+")  # as the Trainer names them, by their step


class States:
    """The folder beside a run's output that holds its states until it is complete.

    Attributes:
        folder: `<output>.training`.
        half: where the Trainer writes a state that is not complete yet.
    """

    def __init__(self, output: Path) -> None:
        self.folder = Path(f"{output}.training")
        self.half = self.folder / ".half"

    @property
    def last(self) -> Path | None:
        """The newest state to resume from: complete, and with the best one before it."""
        return next((path for path in self._newest_first() if self._is_whole(path)), None)

    def check_free(self) -> None:
        """Check that no other process is training, as far as that can be known.

        Raises:
            InputError: another process is training.
        """
        if self.folder.is_dir():
            with kept_alone(self.folder, DOING):
                pass

    def of_step(self, step: int) -> Path:
        """The folder of a state."""
        return self.folder / f"checkpoint-{step}"

    @contextmanager
    def held(self, *, resume: bool) -> Iterator[Path | None]:
        """Lock the folder for this run, and remove what it does not resume from; yields the state that it resumes from.

        Args:
            resume: resume from the last state, if there is one; otherwise start over.

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
        """Inside, the Trainer writes a state into `half`; on exit the state is complete. All processes must enter.

        Raises:
            WriteError: the state cannot be written.
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
        """Remove all states, and the folder."""
        for path in self._newest_first():  # if this is interrupted, a run can resume from those that are left
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
    """The Trainer's own state, which it writes last."""
    trainer_state: dict[str, Any] = json.loads((state / "trainer_state.json").read_text(encoding="utf-8"))
    return trainer_state


def _step(state: Path) -> int:
    return int(state.name.split("-")[1])


def _remove(state: Path) -> None:
    """Rename it first, so that a partly removed folder never passes for a state."""
    gone = state.with_name(f".{state.name}")
    state.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
