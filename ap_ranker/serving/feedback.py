"""What users said of the answers, in a file that `ap-ranker train` reads."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

from ap_ranker.errors import InputError


class FeedbackFile:
    """A JSONL file of judged candidates: `question`, `answer` (the text that was matched), `label` 1 or 0, and more.

    One process writes it, in any number of threads. A line is written whole: what a crash left of one is cut off first.
    """

    def __init__(self, path: Path) -> None:
        """Open the file for appending, so that a place that cannot be written is found at once.

        Raises:
            InputError: it cannot be written, or its name is not one of a JSONL file.
        """
        if path.suffix != ".jsonl":
            raise InputError(f"Expected a file for feedback that ends in .jsonl, found {str(path)!r}.")
        self.path = path
        self._lock = threading.Lock()
        try:
            with path.open("ab"):
                pass
        except OSError as error:
            raise InputError(f"{path}: expected a file for feedback that can be written ({error.strerror}).") from error

    def append(self, *, question: str, answer: str, stored_question: str, helped: bool) -> None:
        """Add a line, on the disk when this returns."""
        record = {
            "question": question,
            "answer": answer,
            "label": int(helped),
            "stored_question": stored_question,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        line = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with self._lock, self.path.open("ab+") as file:
            _cut_half_line(file.fileno())
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def _cut_half_line(descriptor: int, block: int = 4096) -> None:
    """Cut what follows the last line break, which is nothing unless a write was interrupted."""
    size = end = os.lseek(descriptor, 0, os.SEEK_END)
    while end:
        start = max(0, end - block)
        os.lseek(descriptor, start, os.SEEK_SET)
        place = os.read(descriptor, end - start).rfind(b"\n")
        if place >= 0:
            end = start + place + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)
