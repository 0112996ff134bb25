"""Writes users' feedback on answers to a file that `ap-ranker train` reads."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ap_ranker.errors import InputError
from ap_ranker.files import atomic_file
from ap_ranker.text.reading import normalized
from ap_ranker.web.appended import line_of, locked_file, parsed_line, read_from, whole_lines, write_whole

logger = logging.getLogger(__name__)

MAX_BYTES = 64 * 2**20
"""Maximum size of a file, some hundred thousand judgements; the reader holds all of them in memory."""


class FeedbackFullError(Exception):
    """The file has reached its maximum size."""


class FeedbackFile:
    """A JSONL file of judged candidates: `question`, `answer` (the text that was matched), `label` 1 or 0, and more.

    Any number of threads and processes may append to it, and people may edit or rename it in between. Nothing is ever
    deleted: a line that a crash left incomplete is moved to a file beside it, whose name ends in `.damaged`. The same
    judgement of the same question and answer in the same visit is stored once.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        """Open the file for appending; raises InputError if it cannot be written, or does not end in `.jsonl`."""
        if path.suffix != ".jsonl":
            raise InputError(f"Expected a file for feedback that ends in .jsonl, found {str(path)!r}.")
        self.path = path
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._seen: set[bytes] = set()  # the judgements before the offset `_end`; `_last` is the line that ends there
        self._end, self._last = 0, b""
        self._logged_full = False
        try:
            with locked_file(path) as file:
                self._read_on(file)  # repairs a line that a crash left incomplete, before others read the file
        except OSError as error:
            where = error.filename or path  # a half line may not have been moved to the file beside it
            raise InputError(f"{where}: expected a writable file for feedback ({error.strerror}).") from error

    def append(
        self, *, question: str, answer: str, stored_question: str, helped: bool, visit: str = "", comment: str = ""
    ) -> None:
        """Append a line and flush it to disk, unless it is a repeat, which adds its comment to a line without one.

        Requests without the random id of a visit count as the same visit. A full file raises FeedbackFullError.
        """
        record = {
            "question": question,
            "answer": answer,
            "label": int(helped),
            "stored_question": stored_question,
            "visit": visit,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "comment": comment,  # also an empty one: all lines of a table have the fields of the first
        }
        line = line_of(record)
        with self._lock, locked_file(self.path) as file:
            self._check_room(file, len(line))
            self._read_on(file)
            if (key := _key(record)) in self._seen:
                os.fsync(file)  # the process that wrote it may have been killed before its fsync
                if comment:
                    self._rewrite(file, lambda found: _commented(found, key, comment))
            else:
                write_whole(file, line)
                self._seen.add(key)
                self._end, self._last = self._end + len(line), line

    def remove(self, question: str) -> int:
        """Take all judgements of a question back, to a file beside this one (`.removed`), and return their number."""
        wanted = normalized(question)
        with self._lock, locked_file(self.path) as file:
            self._read_on(file)
            return self._rewrite(file, lambda line: None if _asked(line) == wanted else line)

    def take_back(self, *, question: str, answer: str, visit: str) -> int:
        """Take the judgements of one answer to a question in one visit back, as `remove`."""
        given = {"question": question, "answer": answer, "visit": visit}
        keys = {_key(given | {"label": label}) for label in (0, 1)}
        with self._lock, locked_file(self.path) as file:
            self._read_on(file)
            if not keys & self._seen:
                return 0
            return self._rewrite(file, lambda line: None if _key(parsed_line(line) or {}) in keys else line)

    def _rewrite(self, file: int, change: Callable[[bytes], bytes | None]) -> int:
        """Replace the file, locked and read, by one with changed lines; returns the number of those that are gone.

        What `change` makes `None` is moved to the file of removed lines.
        """
        lines = read_from(file, 0).splitlines(keepends=True)
        changed = [change(line) for line in lines]
        if removed := [line for line, new in zip(lines, changed, strict=True) if new is None]:
            with locked_file(self.path.with_name(f"{self.path.name}.removed")) as aside:
                write_whole(aside, b"".join(removed))
        if changed != lines:
            mode = stat.S_IMODE(os.fstat(file).st_mode)
            with atomic_file(self.path) as draft:
                draft.write_bytes(b"".join(line for line in changed if line is not None))
                draft.chmod(mode)
            self._seen.clear()
            self._end, self._last = 0, b""
        return len(removed)

    def _check_room(self, file: int, needed: int) -> None:
        full = os.fstat(file).st_size + needed > self.max_bytes
        logged, self._logged_full = self._logged_full, full
        if full:
            message = f"The feedback file has reached its maximum size of {self.max_bytes:,} bytes."
            if not logged:
                logger.error("%s: %s Move it away to begin a new one.", self.path, message)
            raise FeedbackFullError(message)

    def _read_on(self, file: int) -> None:
        """Read the lines that others have appended, and repair an incomplete last line."""
        if not read_from(file, self._end - len(self._last)).startswith(self._last):  # edited or replaced
            self._seen.clear()
            self._end, self._last = 0, b""
        whole = whole_lines(file, self.path, self._end)
        if whole:
            lines = whole.removesuffix(b"\n").split(b"\n")
            self._seen.update(_key(record) for line in lines if (record := parsed_line(line)) is not None)
            self._end, self._last = self._end + len(whole), lines[-1] + b"\n"


def _asked(line: bytes) -> str:
    return normalized(str((parsed_line(line) or {}).get("question", "")))


def _commented(line: bytes, key: bytes, comment: str) -> bytes:
    """The line with a comment, if it is the one with this key and has none."""
    record = parsed_line(line)
    if record is None or record.get("comment") or _key(record) != key:
        return line
    return line_of(record | {"comment": comment})


def _key(record: dict[str, Any]) -> bytes:
    """A hash that is equal for repeats of a judgement."""
    fields = [str(record.get(name, "")) for name in ("visit", "question", "answer", "label")]
    return hashlib.blake2b(json.dumps(fields).encode(), digest_size=16).digest()
