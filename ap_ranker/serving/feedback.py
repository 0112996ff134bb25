"""What users said of the answers, in a file that `ap-ranker train` reads."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ap_ranker.errors import InputError

logger = logging.getLogger(__name__)

MAX_BYTES = 64 * 2**20
"""Of a file: some hundred thousand judgements; the reader holds all of them in memory."""


class FeedbackFullError(Exception):
    """The file has reached its limit."""


class FeedbackFile:
    """A JSONL file of judged candidates: `question`, `answer` (the text that was matched), `label` 1 or 0, and more.

    Any number of threads and processes may append to it, and people may edit or rename it between two judgements.
    Nothing that stands in it is ever deleted: what a crash left of a line is moved to a file beside it, whose name ends
    in `.damaged`. The same judgement of the same question and answer in the same visit is one, however often it comes.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        """Open the file for appending, so that a place that cannot be written is found at once.

        Raises:
            InputError: it cannot be written, or its name is not one of a JSONL file.
        """
        if path.suffix != ".jsonl":
            raise InputError(f"Expected a file for feedback that ends in .jsonl, found {str(path)!r}.")
        self.path = path
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._seen: set[bytes] = set()  # the judgements up to `_end`, where `_last` is the last line
        self._end, self._last = 0, b""
        self._said_full = False
        try:
            with path.open("ab"):
                pass
        except OSError as error:
            raise InputError(f"{path}: expected a file for feedback that can be written ({error.strerror}).") from error

    def append(self, *, question: str, answer: str, stored_question: str, helped: bool, visit: str = "") -> None:
        """Add a line, on the disk when this returns; a repeat adds none.

        Args:
            question: what the user asked.
            answer: the text that was matched.
            stored_question: of the answer.
            helped: what the user said.
            visit: an id that a page drew by chance. Those who do not tell one are taken for the same visitor.

        Raises:
            FeedbackFullError: there is no room for it; the log says so once.
            OSError: it cannot be written, and is not.
        """
        record = {
            "question": question,
            "answer": answer,
            "label": int(helped),
            "stored_question": stored_question,
            "visit": visit,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        line = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with self._lock, _locked(self.path) as file:
            self._check_room(file, len(line))
            self._read_on(file)
            if (key := _key(record)) in self._seen:
                os.fsync(file)  # the process that wrote it may have been killed before it came to this
            else:
                _write(file, line)
                self._seen.add(key)
                self._end, self._last = self._end + len(line), line

    def _check_room(self, file: int, needed: int) -> None:
        full = os.fstat(file).st_size + needed > self.max_bytes
        if full:
            sentence = f"Expected a file for feedback of at most {self.max_bytes:,} bytes, found no room in it."
            if not self._said_full:
                logger.error("%s: %s Move it away, and a new one is begun.", self.path, sentence)
            self._said_full = True
            raise FeedbackFullError(sentence)
        self._said_full = False

    def _read_on(self, file: int) -> None:
        """Learn what others have written since the last time, and see that the last line is whole."""
        if os.pread(file, len(self._last), self._end - len(self._last)) != self._last:  # edited, or another file
            self._seen.clear()
            self._end, self._last = 0, b""
        new = os.pread(file, os.fstat(file).st_size - self._end, self._end)
        whole, _, rest = new.rpartition(b"\n")
        if rest:
            whole = self._mend(file, new, rest)
        elif whole or new:
            whole += b"\n"
        if whole:
            lines = whole.removesuffix(b"\n").split(b"\n")
            self._seen.update(_key(record) for line in lines if (record := _parsed(line)) is not None)
            self._end, self._last = self._end + len(whole), lines[-1] + b"\n"

    def _mend(self, file: int, new: bytes, rest: bytes) -> bytes:
        """The new lines, once what follows the last line break has one, too, or is gone to the file for damages."""
        if not rest.strip() or _parsed(rest) is not None:
            _write(file, b"\n")
            return new + b"\n"
        damaged = self.path.with_name(f"{self.path.name}.damaged")
        with _locked(damaged) as aside:
            _write(aside, rest + b"\n")
        os.ftruncate(file, os.fstat(file).st_size - len(rest))
        logger.warning("%s: found half a line at the end, moved to %s.", self.path, damaged)
        return new[: -len(rest)]


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file, made if it is not there, open for appending; no other process has it at the same time."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(file, path):  # else it was renamed or deleted while this waited
                if os.fstat(file).st_size == 0:
                    _sync_folder(path.parent)  # the name of a new file is to last, too
                yield file
                return
        finally:
            os.close(file)


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write(file: int, content: bytes) -> None:
    """All of it, on the disk when this returns, or nothing."""
    size = os.fstat(file).st_size
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        raise


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _key(record: dict[str, Any]) -> bytes:
    """The same for repeats of a judgement."""
    said = [str(record.get(name, "")) for name in ("visit", "question", "answer", "label")]
    return hashlib.blake2b(json.dumps(said).encode(), digest_size=16).digest()
