"""Takes over what versions before the database wrote into files of JSON lines. The files stay as they are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter
from sqlalchemy import Connection, String, Table, insert, select

from ap_ranker.errors import InputError
from ap_ranker.safe_open import open_file
from ap_ranker.web.changes import change_of, row_of
from ap_ranker.web.database import Database, changes, facts, judgements, now, questions, storable
from ap_ranker.web.judgements import key_of_answer, key_of_question
from ap_ranker.web.question_log import Outcome

logger = logging.getLogger(__name__)

Row = dict[str, Any]
Needed = Annotated[str, Field(min_length=1)]


class _Judgement(BaseModel):
    question: Needed
    answer: Needed
    label: Annotated[int, Field(ge=0, le=1)]
    stored_question: str = ""
    comment: str = ""
    visit: str = ""


class _Question(BaseModel):
    question: Needed
    outcome: Outcome
    score: float | None = None
    entry: str = ""


def _judgement(fields: Row) -> Row:
    said = _Judgement.model_validate(fields)
    keys = {"question_key": key_of_question(said.question), "answer_key": key_of_answer(said.answer)}
    visit = said.visit or f"unknown {said.label}"  # which counted as one visit, once with either label
    return said.model_dump(exclude={"label"}) | keys | {"helped": bool(said.label), "network": "", "visit": visit}


def _question(fields: Row) -> Row:
    asked = _Question.model_validate(fields)
    return asked.model_dump() | {"question_key": key_of_question(asked.question)}


def _change(fields: Row) -> Row:
    return row_of(change_of(fields))


KINDS: Mapping[str, tuple[Table, Callable[[Row], Row], Sequence[str]]] = {
    "judgements": (judgements, _judgement, ("visit", "question_key", "answer_key")),
    "changes": (changes, _change, ("id",)),
    "questions": (questions, _question, ("time", "question_key")),
}
"""Part of the database -> its table, what makes a row of the fields of a line, the columns that tell rows apart."""

_FIELDS, _TIME = TypeAdapter(Row), TypeAdapter(datetime)


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
    new: dict[object, Row] = {}
    others = []
    for number, line in enumerate(lines, 1):
        try:
            row = _row(part, line)
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


def _row(part: str, line: bytes) -> Row:
    """The row of a line; ValueError or OverflowError if it is of another kind, or does not fit the table."""
    table, make, _ = KINDS[part]
    fields = _FIELDS.validate_json(line)
    time = int(_TIME.validate_python(fields.get("time", datetime.now(UTC))).timestamp())
    row = make(fields | {"time": time}) | {"time": time}
    for name, value in row.items():
        kind = table.c[name].type
        if isinstance(value, str):
            row[name] = storable(value)
            if isinstance(kind, String) and kind.length and len(value) > kind.length:
                raise ValueError(f"{name}: expected at most {kind.length} characters, found {len(value)}.")
    return row
