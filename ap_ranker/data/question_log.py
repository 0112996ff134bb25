"""The log of questions that `ap-ranker serve --log-questions` writes: what was asked, and what came of it."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from ap_ranker.data.appended import parsed_line
from ap_ranker.errors import InputError
from ap_ranker.safe_open import open_file, require_file

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
    """A question of a user. There is nothing about the user.

    Attributes:
        time: in UTC, as ISO 8601.
        question: the question, as from `clean_question`.
        outcome: what came of it.
        score: of the best entry, shown or not: a probability, if the checkpoint is calibrated; `None` if unknown.
        entry: the id of this entry; empty if there is none.
    """

    time: str
    question: str
    outcome: Outcome
    score: float | None = None
    entry: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As the log holds it."""
        return asdict(self)


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

    Lines that hold no question, such as one that a crash left incomplete, are left out; a warning counts them.

    Args:
        path: the newest file, which `--log-questions` names.

    Raises:
        InputError: there is no such file, or it holds no question at all.
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
        raise InputError(
            f"{path}: expected questions as `ap-ranker serve --log-questions FILE` logs them (time, question, outcome, "
            "score, entry), found other lines only. Name that file."
        )
    if others:
        logger.warning("%s: %s lines that are no logged questions left out.", path, f"{others:,}")
    return questions


def _question(record: dict[str, Any]) -> LoggedQuestion | None:
    question, score, time = (record.get(name) for name in ("question", "score", "time"))
    if not isinstance(question, str) or record.get("outcome") not in list(Outcome) or not _is_time(time):
        return None
    return LoggedQuestion(
        str(time),
        clean_question(question),
        Outcome(record["outcome"]),
        float(score) if isinstance(score, int | float) else None,
        str(record.get("entry") or ""),
    )


def _is_time(value: object) -> bool:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return False
    return True
