"""Finds the columns of a table that hold questions and answers, whatever their case or language."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from ap_ranker.data.tables import Table, read_table
from ap_ranker.errors import InputError, one_line

logger = logging.getLogger(__name__)

KNOWN = ("question", "answer", "label", "qid", "aid", "answer_ids", "candidate_ids", "answerable")
"""The columns that a layout may have."""

PAIR = ("question", "answer")

_NAMES = (
    "questions/answers q/a frage/antwort fragen/antworten question/réponse question/reponse pregunta/respuesta "
    "domanda/risposta pergunta/resposta vraag/antwoord pytanie/odpowiedź вопрос/ответ soru/cevap 问题/答案 问题/回答 "
    "問題/答案 問題/回答 質問/回答 질문/답변"
)
NAMES = [tuple(pair.split("/")) for pair in _NAMES.split()]
"""Other names of the columns question and answer; a table has both of a pair, since one alone may mean anything."""

LONGEST_NAMES = {"?": 15, "\uff1f": 5}
"""Question mark -> the length up to which a header that ends with it may be a name, such as "Your question?"."""

OPTION = "--columns QUESTION,ANSWER"


def read_named_table(path: Path, columns: tuple[str, str] | None = None, *, guess: bool = True) -> Table:
    """Read a table as `read_table` does; arguments and errors as for `name_columns`."""
    return name_columns(read_table(path), columns, guess=guess)


def name_columns(table: Table, columns: tuple[str, str] | None = None, *, guess: bool = True) -> Table:
    """Rename the columns of a table to the names of `KNOWN`.

    `columns` are its columns of questions and answers; by default they are recognized. With `guess`, the two columns of
    a table that has no others are taken for these.

    Raises:
        InputError: a name is missing or fits several columns.
    """
    if columns is not None:
        named = [_find(table, name) for name in columns]
        if not all(named):
            found = f"found no {columns[named.index('')]!r} in {table.header}"
            raise InputError(f"{table.path}: expected the columns {_listed(columns)} that --columns names, {found}.")
        return table.renamed(dict(zip(named, PAIR, strict=True)))
    written = {name: column for name in KNOWN if (column := _find(table, name))}
    if not set(PAIR) <= written.keys():
        in_other_words = ([_find(table, name) for name in names] for names in NAMES)
        pair = next(filter(all, in_other_words), None) or (_only_two(table, written) if guess else None)
        written |= dict(zip(PAIR, pair, strict=True)) if pair else {}
    return table.renamed({column: name for name, column in written.items()})


def _find(table: Table, name: str) -> str:
    """The column of this name, else the one that differs in case or surrounding white space only, else nothing."""
    if name in table.columns:
        return name
    similar = [column for column in table.columns if column.strip().casefold() == name.strip().casefold()]
    if len(similar) > 1:
        advice = f"Rename one, or choose: {OPTION}."
        raise InputError(f"{table.path}: expected one column {name!r}, found {_listed(similar)}. {advice}")
    return similar[0] if similar else ""


def _only_two(table: Table, written: dict[str, str]) -> tuple[str, str] | None:
    """The two columns of a table that has no others; `None` if the name of one says what it holds."""
    others = any(len(row.fields) != len(PAIR) for row in table.rows)  # later records of JSON may have more
    if len(table.columns) != len(PAIR) or others or written.keys() - {"question"}:
        return None
    question, answer = table.columns
    if written.get("question") == answer:
        question, answer = answer, question
    if any(question.endswith(mark) and len(question) > length for mark, length in LONGEST_NAMES.items()):
        raise InputError(
            f"{table.path}: expected the names of the columns first, found the question {one_line(repr(question))}. "
            "Write a line above it: question,answer"
        )
    both = _listed((question, answer))
    logger.info("%s: its only two columns, %s, are taken as question and answer.", table.path, both)
    return question, answer


def _listed(names: Iterable[str]) -> str:
    return " and ".join(one_line(repr(name)) for name in names)
