"""A FAQ's file written anew with changed entries: all its other rows, columns and texts stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ap_ranker.data.column_names import find_pair, plain
from ap_ranker.data.faq import Entry, finished, lines_of_wordings, read_faq_table
from ap_ranker.data.html_cells import as_cell, shown_text
from ap_ranker.data.rows import WORDING_COLUMNS, Columns, Row, stripped
from ap_ranker.data.several_texts import with_line_ends
from ap_ranker.data.tables import PAIR, Table
from ap_ranker.files import csv_text, write_text_atomically

Fields = dict[str, str]
"""The texts of a row by column."""


@dataclass(frozen=True)
class FaqFile:
    """A FAQ's table, and the entries of its rows that have an answer.

    An entry's place is the number of its row: two rows of one record, as of Parquet, have the same place in the file.
    `has_names` tells whether the names of the table's columns alone say which ones hold questions and answers.
    """

    table: Table
    entries: list[Entry]
    has_names: bool

    @classmethod
    def read(cls, path: Path, columns: Columns = None) -> FaqFile:
        """Read a FAQ, whose columns are recognized or named; errors as `read_faq`."""
        table = read_faq_table(path, columns)
        rows = [replace(row, place=str(number)) for number, row in enumerate(table.rows)]
        entries, _ = finished(replace(table, rows=rows))
        pair = [table.written.get(column, column) for column in PAIR]
        has_names = columns is not None or find_pair(pair) == [0, 1]
        return cls(table, entries, has_names=has_names)

    @property
    def unfinished(self) -> int:
        """The number of rows without an answer."""
        return len(self.table.rows) - len(self.entries)

    def write(self, entries: Iterable[Entry], output: Path) -> None:
        """Write the table as a CSV file, which only its user can read, with these entries in place of its own.

        Those that are not among them are gone, and new ones come last. Rows without an answer stay.
        """
        rows = self._rows_with(entries)
        columns = self._columns_of(rows)
        cells = [[fields.get(column, "") for column in columns] for fields in _readable(rows)]
        write_text_atomically(output, csv_text(self._names_of(columns), cells), private=True)

    def _rows_with(self, entries: Iterable[Entry]) -> list[Fields]:
        before = {entry.place: entry for entry in self.entries}
        after = {entry.place: entry for entry in entries}
        rows = []
        for number, row in enumerate(self.table.rows):
            place = str(number)
            if place not in before:
                rows.append(row.fields)
            elif place in after:
                rows.append(self._changed(row.fields, before[place], after[place]))
        for place, entry in after.items():
            if place not in before:
                rows.append(self._changed({}, Entry("", "", other={}, place=place), entry))
        return rows

    def _changed(self, fields: Fields, before: Entry, after: Entry) -> Fields:
        """The texts of an entry's row, of which only those that have changed are new."""
        changed = dict(fields)
        if after.question != before.question:
            changed["question"] = as_cell(after.question)
        if after.answer != before.answer:
            changed["answer"] = as_cell(after.answer)
        if after.wordings != before.wordings:
            changed |= self._cells_of_wordings(fields, after.wordings)
        return changed

    def _cells_of_wordings(self, fields: Fields, wordings: Sequence[str]) -> Fields:
        """The cells of a row for these wordings: each stays where it is, and new ones are in the last column."""
        cells: Fields = {}
        new_wordings = dict.fromkeys(wordings)
        for column in self._wording_columns:
            lines = []
            for line in fields.get(column, "").splitlines():
                wording = shown_text(stripped(line))
                if wording in wordings:
                    lines.append(line)
                    new_wordings.pop(wording, None)
            cells[column] = "\n".join(lines)
        last = self._wording_columns[-1]
        cells[last] = "\n".join(filter(None, [cells[last], *lines_of_wordings(new_wordings)]))
        return cells

    @property
    def _wording_columns(self) -> list[str]:
        """The table's columns of further wordings, or else the one to add."""
        return list(filter(WORDING_COLUMNS.fullmatch, self.table.columns)) or ["wordings"]

    def _columns_of(self, rows: Sequence[Fields]) -> list[str]:
        """The table's columns, and those that these rows need beside them."""
        filled: set[str] = set()
        for fields in rows:
            filled.update(fields)
        columns = list(self.table.columns)
        added = filled.difference(columns)
        if "question" in added:
            columns.insert(0, "question")
        if "wordings" in added:
            columns.append("wordings")
        return columns

    def _names_of(self, columns: Iterable[str]) -> list[str]:
        """What the file calls these columns, if that tells which ones hold questions and answers."""
        if not self.has_names:
            return list(columns)
        written = self.table.written
        taken = {plain(written.get(column, column)) for column in self.table.columns}
        names = []
        for column in columns:
            name = written.get(column, column)
            is_new = column not in self.table.columns
            if is_new and name in taken:  # by a column of questions that is called "wordings"
                name = f"{name} 2"
            names.append(name)
        return names


def _readable(rows: Sequence[Fields]) -> list[Mapping[str, str]]:
    """The rows so that they are read as they are: if no text has a line end, `with_line_ends` makes one of `\\n`."""
    as_read = with_line_ends([Row(fields, "") for fields in rows])
    readable: list[Mapping[str, str]] = []
    for fields, row in zip(rows, as_read, strict=True):
        cells = dict(fields)
        for column, text in fields.items():
            is_text_of_entry = column in PAIR or WORDING_COLUMNS.fullmatch(column)
            if row.fields[column] != text and is_text_of_entry:
                cells[column] = as_cell(shown_text(stripped(text)))
        readable.append(cells)
    return readable
