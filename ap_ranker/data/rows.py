"""The rows of a table, and how the values of each format become text."""

from __future__ import annotations

import logging
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import regex as re

from ap_ranker.data.column_names import ALONE, base_name, find_pair, named_pair, plain
from ap_ranker.data.dataset import QUESTION_MARKS
from ap_ranker.errors import InputError, one_line
from ap_ranker.safe_open import ALWAYS_READ, check_growth

logger = logging.getLogger(__name__)

WORDING_COLUMNS = re.compile(r"wordings?( ?[0-9]+)?", re.IGNORECASE)
"""Names of columns with further wordings of a question, one per line of a cell."""


_VISIBLE = re.compile(r"[^\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]")
"""A character that can be seen: not U+2800, the braille pattern without dots, though Unicode counts it as a sign."""


def stripped(text: str) -> str:
    """A text without white space around it, or the empty text if none of its characters can be seen."""
    return text.strip() if _VISIBLE.search(text) else ""


def _text_of(value: object) -> str:
    """A cell's text, stripped; empty if it has none."""
    return "" if value is None else stripped(str(value))


Columns = tuple[str, str] | None
"""The names of the columns of questions and answers, if the user names them."""


@dataclass(frozen=True)
class LeftOut:
    """A file, a folder, a row or a part that was not read."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{one_line(self.place)}: left out: {self.reason}"


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a file: its texts by column, and its file and line, for messages.

    `written` has the names in the file of the columns that `Table.renamed` has renamed; `lists` has the texts of those
    fields that are lists.
    """

    fields: dict[str, str]
    place: str
    written: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def need(self, column: str) -> str:
        """The field's text without surrounding white space; raises `InputError` if it is empty or missing."""
        text = self.get(column)
        if not text:
            raise InputError(
                f"{self.place}: expected text in column {self.written.get(column, column)!r}, found nothing. "
                "Write it, or remove the row; ap-ranker check FILE names all such rows."
            )
        return text

    def get(self, column: str) -> str:
        """The field's text without surrounding white space; empty if it is missing."""
        return stripped(self.fields.get(column, ""))


ROW_BYTES = 64
"""Bytes that a row counts beside its texts when a file's growth is checked: empty rows take memory, too."""


MOST_CELLS = 1_000_000
"""The maximum number of cells, rows times columns, of a file; one of more bytes may have a cell for each byte."""


class CellCount:
    """Counts the cells of a table while it is read.

    A row that is short in the file gets all of the table's columns, which may be many: a file of 300 KB, 5,000 columns
    and 5,000 rows that fill two of them would take a gigabyte. `most` is how many cells the file itself may hold.
    """

    def __init__(self, path: Path, most: int) -> None:
        self.path = path
        self._most = max(MOST_CELLS, most)
        self._count = 0

    def add(self, fields: Sized) -> None:
        """Count the fields of a row, or the texts of one; InputError if there are too many by now."""
        self._count += len(fields)
        if self._count > self._most:
            problem = "more, most of them empty or the same in each row"
            advice = "Leave out columns that few rows fill, or divide the file."
            raise InputError(f"{self.path}: expected at most {self._most:,} cells, found {problem}. {advice}")

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, counted."""
        for row in rows:
            self.add(row.fields)
            for texts_of_list in row.lists.values():
                self.add(texts_of_list)
            yield row


def row_of(values: dict[str, Any], place: str) -> Row:
    """The row of values that may be lists; errors as `as_text`."""
    fields: dict[str, str] = {}
    lists: dict[str, tuple[str, ...]] = {}
    for name, value in values.items():
        fields[name] = as_text(value, name, place=place)
        if isinstance(value, list):
            part_texts = [stripped(as_text(part, name, place=place)) for part in value]
            lists[name] = tuple(filter(None, part_texts))
    return Row(fields, place, lists=lists)


_CHECKED_BYTES = ALWAYS_READ // 4
"""The number of bytes between two checks of a file's growth, each of which asks the file system for its size."""


def rows_of(records: Iterable[tuple[str, dict[str, Any]]], path: Path) -> Iterator[Row]:
    """The rows of a compressed file, from their places and values; errors as `as_text` and `check_growth`."""
    size = 0
    checked_size = 0
    for place, values in records:
        row = row_of(values, place)
        size += ROW_BYTES + sum(map(len, row.fields.values()))
        if size > checked_size + _CHECKED_BYTES:
            check_growth(path, size)
            checked_size = size
        yield row


MAX_TITLE_ROWS = 3
"""Maximum number of rows, such as a title, that may stand above the names of the columns."""

Record = tuple[int, Sequence[Any]]
"""The number of a row or line, and its values."""


def texts(values: Iterable[Any]) -> list[str]:
    """The values that have any text, as texts without white space around them."""
    return list(filter(None, map(_text_of, values)))


def below_titles(records: Iterable[Record]) -> tuple[int, Iterator[Record]]:
    """The number of titles above the names of the columns, and the records with any text from the names on."""
    filled = _with_texts(records)
    top = list(islice(filled, MAX_TITLE_ROWS + 2))  # all titles, the names below them, and one row
    n_titles = _count_titles(top)
    return n_titles, chain(top[n_titles:], filled)


def _with_texts(records: Iterable[Record]) -> Iterator[Record]:
    """The records with any text."""
    for number, values in records:
        if texts(values):
            yield number, values


def _count_titles(top: Sequence[Record]) -> int:
    """How many of the first records, each of which has a text, stand above the names of the columns.

    (1) Names of questions and answers are recognized below other records, unless the first of these has at least three
    texts and as many as they: then it has the names itself.

        Our FAQ;Version 2
        Question;Answer          names

    (2) Other names are the first record with several texts, if another record has several, too, and if the first
    record has as many fields: programs fill up a title with empty ones.

        FAQ;;
        No.;Customers say;We say names
        1;Where?;Here.

    (3) Else the first record has the names. Here it is the only one; a text beside another is a mistake.

        Text                     names
        Here.;(old)
        There.
    """
    rows = [texts(values) for _, values in top]
    for place, row in enumerate(rows[: MAX_TITLE_ROWS + 1]):
        first_is_title = len(rows[0]) < max(len(row), 3)
        if find_pair(row) and (place == 0 or first_is_title):
            return place
    with_several_texts = [place for place, row in enumerate(rows) if len(row) > 1]
    if len(with_several_texts) < 2:
        return 0
    place = with_several_texts[0]
    _, first_values = top[0]
    _, values = top[place]
    first_is_name = not ALONE.isdisjoint(map(plain, rows[0]))
    first_is_filled_up = len(first_values) >= len(values)
    if place > MAX_TITLE_ROWS or first_is_name or not first_is_filled_up:
        return 0
    return place


def named_rows(
    records: Iterable[Record], file: str, *, is_sheet: bool, delimiter: str = "", chosen: Columns = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The places and values of the rows below the names of the columns.

    Records are the rows of a sheet or the lines of a text, in which a `delimiter` outside of quotation marks separates
    values. A row that has the names of the columns again is left out, and so are columns without a text. Where the
    columns of questions and answers are recognized, or `chosen`, columns without a name are left out, too, and a row
    that ends early has no further texts. InputError: a text in no named column, or too few.
    """
    unit = "row" if is_sheet else "line"

    def place_of(number: int) -> str:
        return f"{file}, {unit} {number}"

    with_texts, after_blank = _split_at_blanks(records)
    n_titles, from_names_on = below_titles(with_texts)
    first, header_values = next(from_names_on, (1, ()))
    place = place_of(first)
    header = _Header.of(header_values, place, chosen=chosen)
    below = list(from_names_on)
    filled = _filled(below)
    header.check(filled, place)
    if n_titles:
        logger.info("%s: the names of the columns are in %s %d; what stands above is left out.", file, unit, first)
    ignored = header.ignored(below, is_sheet=is_sheet)
    _log_columns_left_out(ignored & filled, file)
    rows_of_other_tables: dict[int, str] = {}
    if header.is_pair:
        rows_of_other_tables = _other_tables(below, ignored, after_blank=after_blank)
    for number, title in rows_of_other_tables.items():
        if title:
            logger.warning("%s: left out: another table below the first one (%s).", place_of(number), title)
    for n_before, (number, values) in enumerate(below):
        if number in rows_of_other_tables:
            continue
        outside = header.texts_outside(values, ignored)
        if outside and outside[0] < header.left:
            raise _bad_name("none", outside[0] + 1, place)
        is_too_short = len(values) < header.right and not header.is_pair
        if outside or is_too_short:
            advice = ""
            if not header.may_be_names():
                advice = f" {unit.capitalize()} {first} must hold the names of the columns."
            elif outside and delimiter:
                advice = f" Put texts that hold {delimiter!r} in quotation marks."
            expected = f"expected {len(header.columns)} texts ({header.listed}), found {len(values)}"
            raise InputError(f"{place_of(number)}: {expected}.{advice}")
        fields = header.fields(values)
        if n_before and header.is_repeated_in(fields):  # right below the names, it may be an entry
            logger.info("%s: left out: the names of the columns again (%s).", place_of(number), header.listed)
        else:
            yield place_of(number), fields


@dataclass(frozen=True)
class _Header:
    """The record with the names of the columns.

    `columns` are the positions of those with a name, `is_pair` tells whether questions and answers are among them.
    """

    names: Sequence[str]
    columns: Sequence[int]
    is_pair: bool

    @classmethod
    def of(cls, values: Iterable[Any], place: str, chosen: Columns) -> _Header:
        """The header with these values; errors as `as_text`."""
        names = []
        for number, value in enumerate(values, start=1):
            name = as_text(value, f"in column {number}", place=place)
            names.append(stripped(name))
        columns = [position for position, name in enumerate(names) if name]
        is_pair = bool(find_pair(map(base_name, names))) if chosen is None else named_pair(names, chosen)
        return cls(names, columns, is_pair=is_pair)

    @cached_property
    def left(self) -> int:
        """The position of the first name."""
        return min(self.columns, default=0)

    @cached_property
    def right(self) -> int:
        """The position behind the last name."""
        return max(self.columns, default=0) + 1

    @cached_property
    def listed(self) -> str:
        """The names, for messages."""
        return one_line(", ".join(self.names[position] for position in self.columns))

    def check(self, filled: set[int], place: str) -> None:
        """Raise an `InputError` if a name is missing or stands twice; without a pair, all `filled` columns need one."""
        positions = set(self.columns)
        if not self.is_pair:
            positions |= filled.intersection(range(self.left, self.right))
        _check_names([(position + 1, self.names[position]) for position in sorted(positions)], place)

    def ignored(self, below: Iterable[Record], *, is_sheet: bool) -> set[int]:
        """The positions of columns whose texts are left out: those without a name, beside a pair.

        Behind the last name, these are all columns of a sheet, where notes may stand beside the table. Of a delimited
        file, they are only those for which the line of the names has a field, too: a text behind them comes from a
        delimiter that is part of a text.
        """
        if not self.is_pair:
            return set()
        end = len(self.names)
        if is_sheet:
            end = max([len(values) for _, values in below], default=0)
        nameless = set(range(self.right)).difference(self.columns)
        return nameless.union(range(self.right, end))

    def texts_outside(self, values: Sequence[Any], ignored: Container[int]) -> list[int]:
        """The positions of texts before the first name and behind the last one."""
        positions = []
        for position in (*range(min(self.left, len(values))), *range(self.right, len(values))):
            if position not in ignored and _text_of(values[position]):
                positions.append(position)
        return positions

    def may_be_names(self) -> bool:
        """Whether it looks like names of columns: there are several, and the first is no question."""
        return len(self.columns) != 1 and not self.names[self.left].endswith(QUESTION_MARKS)

    def fields(self, values: Sequence[Any]) -> dict[str, Any]:
        """The values of a row by name, empty where it has ended."""
        fields = {}
        for position in self.columns:
            fields[self.names[position]] = values[position] if position < len(values) else ""
        return fields

    def is_repeated_in(self, fields: Mapping[str, Any]) -> bool:
        """Whether the fields of a row are the names of a table of pairs again, as where files were joined.

        Each of these may begin with a byte order mark.
        """
        is_same = all(str(value).strip(" \ufeff") == name for name, value in fields.items())
        return is_same and self.is_pair


def _log_columns_left_out(positions: Iterable[int], file: str) -> None:
    first_numbers = [str(position + 1) for position in sorted(positions)[:3]]
    if first_numbers:
        logger.info("%s: columns without a name are left out: %s.", file, ", ".join(first_numbers))


def _filled(records: Iterable[Record]) -> set[int]:
    """The positions at which any record has a text."""
    filled: set[int] = set()
    for _, values in records:
        for position, value in enumerate(values):
            if _text_of(value):
                filled.add(position)
    return filled


def _split_at_blanks(records: Iterable[Record]) -> tuple[list[Record], set[int]]:
    """The records with any text, and the numbers of those below one without any."""
    with_texts: list[Record] = []
    after_blank: set[int] = set()
    is_below_blank = False
    for number, values in records:
        if texts(values):
            with_texts.append((number, values))
            if is_below_blank:
                after_blank.add(number)
        is_below_blank = not texts(values)
    return with_texts, after_blank


def _other_tables(below: Sequence[Record], nameless: set[int], after_blank: set[int]) -> dict[int, str]:
    """The numbers of the rows of other tables below a table of pairs; the first row of each with its texts.

    Another table stands below a blank row, and is wider than the first one: its names, and most of its rows, have texts
    also in columns in which the first table has neither a name nor a text. An entry with a note beside it is no table.
    """
    starts: list[int] = []
    for place, (number, _) in enumerate(below):
        if place and number in after_blank:
            starts.append(place)
    if not starts:
        return {}
    rows_of_other_tables: dict[int, str] = {}
    free = nameless - _filled(below[: starts[0]])
    for start, end in zip(starts, [*starts[1:], len(below)], strict=True):
        block = below[start:end]
        if _is_table_beside(block, free):
            for number, _ in block:
                rows_of_other_tables[number] = ""
            first_number, first_values = block[0]
            rows_of_other_tables[first_number] = one_line(", ".join(texts(first_values)), 80)
    return rows_of_other_tables


def _is_table_beside(block: Sequence[Record], free: set[int]) -> bool:
    """Whether records between two blank ones are a table, perhaps with a title, that has names in `free` columns."""
    _, first_values = block[0]
    has_title = len(block) > 1 and len(texts(first_values)) == 1
    rows = block[1:] if has_title else block
    _, names = rows[0]
    if len(rows) < 2 or any(name.endswith(QUESTION_MARKS) for name in texts(names)):
        return False
    is_wide = [not free.isdisjoint(_filled([record])) for record in rows]
    return is_wide[0] and 2 * sum(is_wide) > len(is_wide)


def check_columns(names: Iterable[str], place: object) -> None:
    """Raise an `InputError` that begins with `place` if a column has no name, or that of another one."""
    _check_names(enumerate(names, start=1), place)


def _check_names(columns: Iterable[tuple[int, str]], place: object) -> None:
    """As `check_columns`, of the numbers and names of columns."""
    earlier: set[str] = set()
    for number, name in columns:
        if not stripped(name):
            raise _bad_name("none", number, place)
        if name in earlier:
            raise _bad_name(f"{one_line(repr(name))} again", number, place)
        earlier.add(name)


def _bad_name(name: str, number: int, place: object) -> InputError:
    """What to raise where the column of a number has this name."""
    advice = "Name it, or leave it out (with pandas: to_csv(..., index=False))."
    return InputError(f"{place}: expected a name for each column, found {name} for column {number}. {advice}")


_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")
"""Characters that these formats can hold, but UTF-8 text cannot or should not."""


def as_text(value: object, column: str, place: str) -> str:
    """A value of JSON, Parquet or Excel as a delimited file would hold it.

    A list becomes one text: wordings one a line, anything else (ids) separated by spaces. Raises `InputError`, which
    begins with `place`, for what is no text, number or list of them.
    """
    if isinstance(value, list) and not any(isinstance(part, list) for part in value):
        separator = "\n" if WORDING_COLUMNS.fullmatch(column) else " "
        return separator.join(as_text(part, column, place=place) for part in value)
    text = ""
    problem = ""
    if isinstance(value, list):
        problem = "a list inside a list"
    elif isinstance(value, dict):
        problem = "an object with fields of its own"
    elif isinstance(value, float) and not math.isfinite(value):
        problem = f"{value}: leave it empty"
    elif isinstance(value, bytes):
        try:
            text = value.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"the byte 0x{value[error.start]:02x}, which is not UTF-8"
    elif isinstance(value, bool):
        text = str(int(value))
    elif value is not None:
        text = str(value)
    bad_character = _NO_TEXT.search(text)
    if bad_character is not None:
        problem = f"the character {bad_character[0]!r}"
    if problem:
        raise InputError(f"{place}: expected Unicode text or a number in column {column!r}, found {problem}.")
    return text
