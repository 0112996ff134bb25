"""Reads a table among documents: the entries of a FAQ, or a passage for each row."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ap_ranker.data.faq import Entry
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import PAIR, name_columns, read_table
from ap_ranker.documents.folder import FileReading, LeftOut
from ap_ranker.documents.html import Converted
from ap_ranker.documents.passages import split
from ap_ranker.errors import InputError

TRAINING = ("answer_ids", "candidate_ids", "label")
"""Columns of questions to train with or to measure by, which are not to be found."""


def read_rows(path: Path, name: str, columns: tuple[str, str] | None) -> FileReading:
    """Read a table of a folder; `name` is its path in the folder, which becomes the source of its entries."""
    raw = read_table(path)
    table = name_columns(raw, guess=False)
    if training := [column for column in TRAINING if column in table.columns and "question" in table.columns]:
        raise InputError(f"{path}: its column {training[0]!r} belongs to training data, not to texts to search.")
    chosen = False
    if columns:
        with suppress(InputError):  # another table of the folder may have them
            table, chosen = name_columns(raw, columns), True
    source = {"file_path": name}
    if not set(PAIR) <= set(table.columns):
        if path.suffix.lower() == ".json":  # such as the settings of a program
            raise InputError(f"{path}: expected articles, or questions with answers, found {table.header}.")
        return FileReading([each for row in table.rows for each in _passages(row, name)], has_columns=chosen)
    entries: list[Entry] = []
    left_out: list[LeftOut] = []
    for row in table.rows:
        try:
            entry = Entry.of(row)
        except InputError:
            left_out.append(LeftOut(name + row.place.removeprefix(str(path)), "it has no answer."))
        else:
            entries.append(replace(entry, other=source | entry.other))
    return FileReading(entries, left_out, has_columns=chosen)


def _passages(row: Row, name: str) -> list[Entry]:
    text = "\n".join(f"{column}: {value.strip()}" for column, value in row.fields.items() if value.strip())
    return split(Converted(text), name, row.place)
