"""The log of questions, if the owner of a search page wants one: what was asked, and what came of it.

Nothing that goes wrong here reaches an answer.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from ap_ranker.errors import InputError
from ap_ranker.safe_open import open_file, require_file
from ap_ranker.web.appended import line_of, locked_file, parsed_line, read_from, write_whole

if TYPE_CHECKING:
    from haystack import Document

logger = logging.getLogger(__name__)

LONGEST = 500
"""Maximum number of characters of a logged question."""

OLDER_FILES = 4
"""Number of older files that are kept beside the log: FILE.1 is the newest of them."""


class Outcome(StrEnum):
    """What came of a question."""

    answered = "answered"
    refused = "refused"  # entries were found, but none was good enough
    nothing_found = "nothing found"


@dataclass(frozen=True)
class LoggedQuestion:
    """A question of a user. There is nothing about the user."""

    time: str  # in UTC, as ISO 8601
    question: str  # as from `clean_question`
    outcome: Outcome
    score: float | None = None  # of the best entry, shown or not: a probability, if the checkpoint is calibrated
    entry: str = ""  # the id of this entry


_LINE = TypeAdapter(LoggedQuestion)


def clean_question(text: str) -> str:
    """A question without control characters and repeated white space, cut after `LONGEST` characters."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:LONGEST]


def log_files(path: Path) -> list[Path]:
    """The files of a log, oldest first; `path` itself is the last one."""
    older = [path.with_name(f"{path.name}.{number}") for number in range(OLDER_FILES, 0, -1)]
    return [*(file for file in older if file.is_file()), path]


def read_question_log(path: Path) -> list[LoggedQuestion]:
    """Read a log and the older files beside it, oldest question first.

    Lines that hold no question, such as one that a crash left incomplete, are left out; a warning counts them. If there
    is no such file, or it holds no question at all, InputError is raised.
    """
    require_file(path)
    questions: list[LoggedQuestion] = []
    others = 0
    for file in log_files(path):
        with open_file(file) as stream:
            lines = [line for line in stream.read().split(b"\n") if line.strip()]
        read = [question for line in lines if (question := _question(parsed_line(line) or {})) is not None]
        questions += read
        others += len(lines) - len(read)
    if others and not questions:
        expected = "expected questions as `ap-ranker serve --log-questions FILE` logs them"
        raise InputError(f"{path}: {expected} (time, question, outcome), found other lines only. Name that file.")
    if others:
        logger.warning("%s: %s lines that are no logged questions left out.", path, f"{others:,}")
    return questions


def _question(record: dict[str, Any]) -> LoggedQuestion | None:
    try:
        found = _LINE.validate_python(record)
        datetime.fromisoformat(found.time)
    except ValueError:  # as pydantic's is, too
        return None
    return replace(found, question=clean_question(found.question))


MAX_BYTES = 10 * 2**20
"""Size in bytes at which a file is put aside and a new one begun: some 50,000 questions."""

MODE = 0o600
"""Only the server's user may read what people ask."""

MOST_WAITING = 1000
"""Maximum number of questions that wait to be written; further ones are left out."""


class QuestionLog:
    """A JSONL file of questions and their outcomes, written in a thread of its own.

    When the file has reached its maximum size, it becomes `FILE.1`, that one `FILE.2`, and so on; the oldest is
    deleted. Several servers may share it. If it cannot be written, or questions come faster than they can be written,
    one warning says so, and these questions are left out; if it cannot from the start, InputError is raised.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._waiting: queue.Queue[LoggedQuestion | None] = queue.Queue(MOST_WAITING)
        self._warned: set[str] = set()
        try:
            with locked_file(path, MODE):
                pass
        except OSError as error:
            expected = f"{path}: expected a writable file for the log of questions ({error.strerror})"
            raise InputError(f"{expected}. Name another one with --log-questions.") from error
        self._thread = threading.Thread(target=self._work, name="question log", daemon=True)
        self._thread.start()

    def add(self, question: str, shown: Sequence[Document], closest: Sequence[Document] | None = None) -> None:
        """Log a question without waiting, with the documents that were good enough, best first.

        If there were none, `closest` is what was found without a threshold; `None` if that is unknown.
        """
        outcome, best = Outcome.answered, shown[:1]
        if not shown:
            outcome = Outcome.refused if closest or closest is None else Outcome.nothing_found
            best = (closest or [])[:1]
        score = best[0].score if best else None
        line = LoggedQuestion(
            datetime.now(UTC).isoformat(timespec="seconds"),
            clean_question(question),
            outcome,
            None if score is None else round(score, 6),
            best[0].id if best else "",
        )
        try:
            self._waiting.put_nowait(line)
        except queue.Full:
            self._warn("questions come faster than they can be written; some are left out")

    def close(self) -> None:
        """Write what is waiting, and end."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            try:
                self._append(line_of(asdict(item)))
            except OSError as error:
                self._warn(f"questions cannot be logged ({error.strerror})")
            except Exception:  # a defect of ours must not end the thread
                logger.exception("%s: a question was not logged.", self.path)

    def _append(self, line: bytes) -> None:
        with locked_file(self.path, MODE) as file:
            size = os.fstat(file).st_size
            if not size or size + len(line) <= self._max_bytes:
                # Of a line that a crash left incomplete, nobody needs the rest.
                incomplete = size and read_from(file, size - 1) != b"\n"
                write_whole(file, b"\n" * bool(incomplete) + line, to_disk=False)
                return
            self._put_aside()  # the lock keeps other servers out until the file has another name
        self._append(line)

    def _put_aside(self) -> None:
        names = [self.path, *(self.path.with_name(f"{self.path.name}.{n}") for n in range(1, OLDER_FILES + 1))]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)

    def _warn(self, what: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            logger.warning("%s: %s. Answers are not affected; this warning is not repeated.", self.path, what)
