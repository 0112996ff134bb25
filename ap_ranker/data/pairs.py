"""Pairs of a question and its answer: alone, or as questions about the entries of a FAQ."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.faq import Entry, Match, read_faq
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import Table
from ap_ranker.errors import InputError
from ap_ranker.text.keys import normalized, question_key

NAMED = 3
"""Maximum number of rows that are named beside their count."""


def read_pairs(table: Table) -> Dataset:
    """The pairs of a table; equal answer texts are one answer, equal question texts are one question.

    Further wordings of a row (columns `wordings`, `wording 2` ...) are questions with the same answer.
    """
    row_of: dict[str, int] = {}
    positives: defaultdict[str, dict[int, None]] = defaultdict(dict)
    notes: Counter[str] = Counter()
    for row in table.rows:
        answer = row_of.setdefault(row.need("answer"), len(row_of))
        for question in _asked(row):
            if answer in positives[question]:
                notes["repeated question-answer pairs merged"] += 1
            positives[question][answer] = None
    answers = [Answer(str(i), text) for text, i in row_of.items()]
    return _dataset(table, answers, positives, notes, table.path)


def pairs_among(table: Table, faq: Path, match: Match, columns: tuple[str, str] | None = None) -> Dataset:
    """The pairs of a table, with every entry of a FAQ as a candidate, as in a search.

    A pair's answer is recognized by its text, whatever its case and white space: it is the answer of an entry, its
    stored question and answer together, or the text that is matched. All entries with this answer are right. A pair
    whose answer is not in the FAQ is left out; `notes` counts these and names the first.

    An entry whose stored question is one of the table's is matched by its answer alone: a question must not meet its
    own text, or it would be found too easily. It stays a known wording, which is left out likewise where scores of
    wordings are compared.

    Args:
        table: the pairs.
        faq: the file of the FAQ.
        match: the text of an entry to match.
        columns: the names of the columns of questions and answers in either file; by default they are recognized.

    Raises:
        InputError: the FAQ cannot be read, or has none of the answers.
    """
    entries = _read(faq, columns)
    asked = {question_key(question) for row in table.rows for question in _asked(row)}
    entries_of: defaultdict[str, list[int]] = defaultdict(list)
    for i, entry in enumerate(entries):
        for form in {normalized(text) for text in (entry.answer, entry.text(Match.both), entry.text(match))}:
            entries_of[form].append(i)
    positives: defaultdict[str, dict[int, None]] = defaultdict(dict)
    missing: list[str] = []
    for row in table.rows:
        if right := entries_of.get(normalized(row.need("answer"))):
            for question in _asked(row):
                positives[question] |= dict.fromkeys(right)
        else:
            missing.append(row.place.removeprefix(f"{table.path}, "))
    if not positives:
        advice = "each answer must be that of an entry, word for word"
        raise InputError(f"{table.path}: expected answers of {faq}, found none of them: {advice}.")
    notes: Counter[str] = Counter()
    if missing:
        places = "; ".join(missing[:NAMED]) + (f"; and {len(missing) - NAMED:,} more" if len(missing) > NAMED else "")
        notes[f"pairs left out, because their answer is not in {faq}: {places}"] = len(missing)
    ids = [entry.other.get("aid", "") for entry in entries]
    if not all(ids) or len(set(ids)) < len(ids):
        ids = [str(i) for i in range(len(entries))]
    answers = []
    for name, entry in zip(ids, entries, strict=True):
        meets_itself = question_key(entry.question) in asked
        text = (replace(entry, question="") if meets_itself else entry).text(match)
        answers.append(Answer(name, text, entry.questions, entry.answer))
    return _dataset(table, answers, positives, notes, faq)


def _asked(row: Row) -> tuple[str, ...]:
    """The questions of a row."""
    return (row.need("question"), *Entry.of(row).wordings)


def _read(faq: Path, columns: tuple[str, str] | None) -> list[Entry]:
    """The entries of a FAQ, which may have the named columns or others that are recognized."""
    try:
        return read_faq(faq, columns)
    except InputError:
        if columns is None:
            raise
        return read_faq(faq)


def _dataset(
    table: Table, answers: list[Answer], positives: dict[str, dict[int, None]], notes: Counter[str], file: Path
) -> Dataset:
    questions = [Question(str(i), text, tuple(right)) for i, (text, right) in enumerate(positives.items())]
    return Dataset(str(table.path), answers, questions, notes=notes, answers_file=str(file))
