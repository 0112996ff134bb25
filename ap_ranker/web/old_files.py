"""Takes over what versions before the database wrote into files of JSON lines. The files stay as they are."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field
from sqlalchemy import Connection, Table, insert, select

from ap_ranker.errors import InputError
from ap_ranker.safe_open import open_file
from ap_ranker.web.changes import Action
from ap_ranker.web.database import Database, changes, facts, judgements, now, questions, storable
from ap_ranker.web.judgements import key_of_answer, key_of_question
from ap_ranker.web.question_log import Outcome

logger = logging.getLogger(__name__)

KINDS: Mapping[str, tuple[Table, Sequence[str], Sequence[str]]] = {
    "judgements": (judgements, ("question", "answer", "label"), ("visit", "question_key", "answer_key")),
    "changes": (changes, ("id", "action"), ("id",)),
    "questions": (questions, ("question", "outcome"), ("time", "question_key")),
}
"""Part of the database -> its table, the fields of a line, and the columns that tell a row from the others."""

NEEDED = {Action.undo: ("undone",), Action.add_entry: ("answer",), Action.change_entry: ("entry", "answer")}
"""The further fields of changes; others than these need the entry."""


class _Line(BaseModel):
    """A line of any kind of file; each has some of the fields."""

    time: datetime = Field(default_factory=lambda: datetime.now(UTC))
    question: str = ""
    answer: str = ""
    stored_question: str = ""
    label: Annotated[int, Field(ge=0, le=1)] | None = None
    visit: str = ""
    comment: str = ""
    id: str = ""
    action: Action | None = None
    entry: str = ""
    of: str = ""
    wordings: tuple[str, ...] = ()
    undone: str = ""
    outcome: Outcome | None = None
    score: float | None = None

    def row(self, part: str) -> dict[str, Any]:
        """The row of a part's table; ValueError if the line is of another kind."""
        table, needed, _ = KINDS[part]
        needed = (*needed, *(NEEDED.get(self.action, ("entry",)) if self.action else ()))
        if any(value is None or value == "" for value in (getattr(self, name) for name in needed)):
            raise ValueError
        row = self.model_dump() | {"time": int(self.time.timestamp()), "helped": bool(self.label)}
        row |= {"question_key": key_of_question(self.question), "answer_key": key_of_answer(self.answer)}
        row |= {"visit": self.visit or f"unknown {self.label}"}  # which counted as one visit, once with either label
        row |= {"network": "", "owner": "", "wordings": json.dumps(self.wordings, ensure_ascii=False)}
        columns = [column.name for column in table.c if column is not table.autoincrement_column]
        texts = {name: storable(value) for name, value in row.items() if isinstance(value, str)}
        limits = {column.name: length for column in table.c if (length := getattr(column.type, "length", None))}
        if any(len(texts[name]) > limits[name] for name in texts.keys() & limits):  # PostgreSQL would refuse the file
            raise ValueError
        return {name: value for name, value in (row | texts).items() if name in columns}


def take_over(database: Database, *folders: Path) -> None:
    """Take over the files in these folders that servers wrote by default, once; what cannot be read waits for later."""
    for name, part in {"feedback.jsonl": "judgements", "changes.jsonl": "changes"}.items():
        fact = f"took over {name}"
        try:
            with database.writing(part) as connection:
                if connection.scalar(select(facts.c.name).where(facts.c.name == fact)) is None:
                    connection.execute(insert(facts).values(name=fact, value=str(now())))
                    for path in sorted({path.resolve() for folder in folders if (path := folder / name).is_file()}):
                        _add(connection, part, path)
        except InputError as error:
            logger.warning("%s It is taken over at a later start.", error)


def import_file(database: Database, part: str, path: Path) -> None:
    """Take over a file, and the older ones beside a log of questions; InputError if it cannot be read or kept."""
    older = [path.with_name(f"{path.name}.{number}") for number in range(4, 0, -1)] if part == "questions" else []
    with database.writing(part) as connection:
        for file in (*filter(Path.is_file, older), path):
            _add(connection, part, file)


def _add(connection: Connection, part: str, path: Path) -> None:
    """Insert the rows of a file that are not there yet, a later one in place of an earlier one."""
    table, _, columns = KINDS[part]
    there = set(map(tuple, connection.execute(select(*(table.c[name] for name in columns)))))
    try:
        with open_file(path) as file:
            lines = file.read().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise InputError(f"{path}: expected a file that can be read ({error.strerror}).") from error
    new: dict[object, dict[str, Any]] = {}
    others = []
    for number, line in enumerate(lines, 1):
        try:
            row = _Line.model_validate_json(line or b"{}").row(part)
        except (ValueError, OverflowError):
            others += [str(number)] if line.strip() else []
            continue
        identity = tuple(row[name] for name in columns)
        if identity not in there:
            key = (identity, part == "questions" and number)  # which may be asked twice in a second
            earlier = new.get(key, row)  # its comment stays, if there is no other
            new[key] = {name: earlier[name] if value == "" else value for name, value in row.items()}
    if new:
        connection.execute(insert(table), list(new.values()))
    logger.info("Took over %s %s from %s, which stays and is not read again.", f"{len(new):,}", part, path)
    if others:
        named = ", ".join(others[:5]) + ", ..." * (len(others) > 5)
        logger.warning("%s: %s lines left out that are no %s: %s.", path, f"{len(others):,}", part, named)
