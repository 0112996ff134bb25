"""Takes over what versions before the database wrote into files of JSON lines. The files stay as they are."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from sqlalchemy import Connection, Table, insert, select

from ap_ranker.errors import InputError
from ap_ranker.safe_open import open_file
from ap_ranker.web.changes import Change
from ap_ranker.web.database import OLD_OUTCOMES, Database, changes, facts, judgements, now, questions, storable
from ap_ranker.web.judgements import key_of_answer, key_of_question
from ap_ranker.web.question_log import LoggedQuestion

logger = logging.getLogger(__name__)

Row = dict[str, Any]
Needed = Annotated[str, Field(min_length=1)]


@dataclass
class _Judgement:
    time: int
    question: Needed
    answer: Needed
    label: Annotated[int, Field(ge=0, le=1)]
    stored_question: str = ""
    comment: str = ""
    visit: str = ""

    def row(self) -> Row:
        texts = {name: storable(getattr(self, name)) for name in ("question", "answer", "stored_question", "comment")}
        keys = {"question_key": key_of_question(self.question), "answer_key": key_of_answer(self.answer)}
        visit = storable(self.visit) or f"unknown {self.label}"  # which counted as one visit, once with either label
        return texts | keys | {"time": self.time, "visit": visit, "network": "", "helped": bool(self.label)}


_FIELDS, _TIME = TypeAdapter(Row), TypeAdapter(datetime)

KINDS: Mapping[str, tuple[Table, TypeAdapter[Any], Sequence[str]]] = {
    "judgements": (judgements, TypeAdapter(_Judgement), ("visit", "question_key", "answer_key")),
    "changes": (changes, TypeAdapter(Change), ("id",)),
    "questions": (questions, TypeAdapter(LoggedQuestion), ("time", "question_key")),
}
"""Part of the database -> its table, what a line states, and the columns that tell a row from the others."""


def take_over(database: Database, *folders: Path) -> None:
    """Take over the files in these folders that servers wrote by default, once; what cannot be read waits for later."""
    for name, part in {"feedback.jsonl": "judgements", "changes.jsonl": "changes"}.items():
        fact = f"took over {name}"
        is_done = select(facts.c.name).where(facts.c.name == fact)
        try:
            with database.reading() as connection:
                if connection.scalar(is_done):
                    continue  # writing would count as a change of that part, and all servers would read it again
            with database.writing(part) as connection:
                if connection.scalar(is_done) is None:
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
    table, kind, columns = KINDS[part]
    there = set(map(tuple, connection.execute(select(*(table.c[name] for name in columns)))))
    try:
        with open_file(path) as file:
            lines = file.read().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise InputError(f"{path}: expected a file that can be read ({error.strerror}).") from error
    new: dict[object, Row] = {}
    longest = {column.name: length for column in table.c if (length := getattr(column.type, "length", None))}
    others = []
    for number, line in enumerate(lines, 1):
        try:
            fields = _FIELDS.validate_json(line)
            time = _TIME.validate_python(fields.get("time", datetime.now(UTC)))
            outcome = str(fields.get("outcome"))
            said = {"time": int(time.timestamp()), "outcome": OLD_OUTCOMES.get(outcome, outcome)}
            row = kind.validate_python(fields | said).row()
            if any(len(row.get(name, "")) > length for name, length in longest.items()):  # PostgreSQL would refuse all
                raise ValueError(line)
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
