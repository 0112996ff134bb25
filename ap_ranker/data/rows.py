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


_SEEN = re.compile(r"[^\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]")


def stripped(text: str) -> str:
    """A text without white space around it; empty if nothing of it can be seen, which is what an empty text is."""
    return text.strip() if _SEEN.search(text) else ""


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
"""Cells, rows times columns, that any table may have; a larger file may have as many as bytes."""


class CellCount:
    """Counts the cells of a table while it is read: rows that are short in a file may all have its many columns.

    A file of 300 KB, 5,000 columns and 5,000 rows that fill two of them would take a gigabyte. `most` is how many cells
    the file itself may hold.
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


def rows_of(records: Iterable[tuple[str, dict[str, Any]]], path: Path) -> Iterator[Row]:
    """The rows of a compressed file, from their places and values; errors as `as_text` and `check_growth`."""
    size = 0
    checked_size = 0
    for place, values in records:
        row = row_of(values, place)
        size += ROW_BYTES + sum(map(len, row.fields.values()))
        if size > checked_size + ALWAYS_READ // 4:
            check_growth(path, size)
            checked_size = size
        yield row


MAX_TITLE_ROWS = 3
"""Maximum number of rows, such as a title, that may stand above the names of the columns."""

Record = tuple[int, Sequence[Any]]
"""The number of a row or line, and its values."""


def texts(values: Iterable[Any]) -> list[str]:
    """The values that have any text, as texts without white space around them."""
    stripped_values = [str(value).strip() for value in values if value is not None]
    return [text for text in stripped_values if text]


def below_titles(records: Iterable[Record]) -> tuple[int, Iterator[Record]]:
    """The number of titles above the names of the columns, and the records with any text from the names on."""
    filled = _with_texts(records)
    top = list(islice(filled, MAX_TITLE_ROWS + 2))
    n_titles = _count_titles(top)
    return n_titles, chain(top[n_titles:], filled)


def _with_texts(records: Iterable[Record]) -> Iterator[Record]:
    """The records with any text."""
    for number, values in records:
        if texts(values):
            yield number, values


def _count_titles(top: Sequence[Record]) -> int:
    """How many of the first records, each of which has a text, stand above the names of the columns.

    Names are the first of questions and answers: of these two alone, or more names than the first record has texts.
    Without such, names are the first record with several texts, below one that is no such name, if others have several,
    too.
    """
    rows = [texts(values) for _, values in top]
    for place, row in enumerate(rows[: MAX_TITLE_ROWS + 1]):
        if find_pair(row) and (place == 0 or len(rows[0]) < max(len(row), 3)):
            return place
    with_several_texts: list[int] = []
    for place, row in enumerate(rows):
        if len(row) > 1:
            with_several_texts.append(place)
    if len(with_several_texts) < 2 or with_several_texts[0] > MAX_TITLE_ROWS:
        return 0
    place = with_several_texts[0]
    has_name = not ALONE.isdisjoint(map(plain, rows[0]))
    names_the_only_column = has_name or len(top[0][1]) < len(top[place][1])
    return 0 if names_the_only_column else place


def named_rows(
    records: Iterable[Record], file: str, unit: str, mark: str = "", chosen: Columns = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The places and values of the rows below the names of the columns.

    A record is a `unit` (row, line); a bare `mark` ends a text. A row that has the names of the columns again is left
    out, and so are columns without a text. Where the columns of questions and answers are recognized, or `chosen`,
    columns without a name are left out, too, and a row that ends early has no further texts. InputError: a text in no
    named column, or too few.
    """

    def place_of(number: int) -> str:
        return f"{file}, {unit} {number}"

    after_blank: set[int] = set()
    n_titles, records = below_titles(_noting_blanks(records, after_blank))
    first, header_values = next(records, (1, ()))
    place = place_of(first)
    header = _Header.of(header_values, place, chosen=chosen)
    below = list(records)
    filled = _filled(below)
    check_columns(header.names_to_check(filled), place)
    if n_titles:
        logger.info("%s: the names of the columns are in %s %d; what stands above is left out.", file, unit, first)
    ignored = header.ignored(below, is_sheet=unit != "line")
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
            # The error about a column without a name, for the column of the text.
            check_columns([*map(str, range(outside[0])), ""], place)
        is_too_short = len(values) < header.right and not header.is_pair
        if outside or is_too_short:
            advice = ""
            if not header.may_be_names():
                advice = f" {unit.capitalize()} {first} must hold the names of the columns."
            elif outside and mark:
                advice = f" Put texts that hold {mark!r} in quotation marks."
            expected = f"expected {len(header.columns)} texts ({header.listed}), found {len(values)}"
            raise InputError(f"{place_of(number)}: {expected}.{advice}")
        fields = header.fields(values)
        if n_before and header.is_repeated_in(fields):
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
            names.append(as_text(value, f"in column {number}", place=place).strip())
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

    def names_to_check(self, filled: Container[int]) -> list[str]:
        """The names that must be there, once each: of a table without a pair also those of all `filled` columns."""
        if self.is_pair:
            return [self.names[position] for position in self.columns]
        names = [f" {position}" for position in range(self.left)]  # so that an error counts these columns, too
        named = set(self.columns)
        for position in range(self.left, self.right):
            if position in named or position in filled:
                names.append(self.names[position])
        return names

    def ignored(self, below: Iterable[Record], *, is_sheet: bool) -> set[int]:
        """The positions of columns whose texts are left out: those without a name, beside a pair.

        Behind the last name, these are any columns of a sheet; of a delimited file, those that its first line has, too.
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
            if position not in ignored and _has_text(values[position]):
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
        """Whether the fields of a row are the names of a pair again."""
        is_same = all(str(value).strip(" \ufeff") == name for name, value in fields.items())
        return is_same and bool(find_pair(self.names))


def _log_columns_left_out(positions: Iterable[int], file: str) -> None:
    first_numbers = [str(position + 1) for position in sorted(positions)[:3]]
    if first_numbers:
        logger.info("%s: columns without a name are left out: %s.", file, ", ".join(first_numbers))


def _has_text(value: object) -> bool:
    return value is not None and bool(str(value).strip())


def _filled(records: Iterable[Record]) -> set[int]:
    """The positions at which any record has a text."""
    filled: set[int] = set()
    for _, values in records:
        for position, value in enumerate(values):
            if _has_text(value):
                filled.add(position)
    return filled


def _noting_blanks(records: Iterable[Record], after_blank: set[int]) -> Iterator[Record]:
    """The records; `after_blank` gets the numbers of those below one without any text."""
    is_blank = False
    for number, values in records:
        if not texts(values):
            is_blank = True
        elif is_blank:
            after_blank.add(number)
            is_blank = False
        yield number, values


def _other_tables(below: Sequence[Record], nameless: set[int], after_blank: set[int]) -> dict[int, str]:
    """The numbers of the rows of other tables below a table of pairs; the first row of each with its texts.

    Another table stands below a blank row. It has its names in more columns than the first one: also in such that have
    no name there, and hold nothing above. Most of its rows have texts in these, too. A note beside an entry is none.
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


def check_columns(names: Sequence[str], place: object) -> None:
    """Raise an `InputError` that begins with `place` if a column has no name, or that of another one."""
    earlier: set[str] = set()
    for i, name in enumerate(names):
        if not name.strip() or name in earlier:
            problem = f"{one_line(repr(name))} again" if name.strip() else "none"
            advice = "Name it, or leave it out (with pandas: to_csv(..., index=False))."
            raise InputError(f"{place}: expected a name for each column, found {problem} for column {i + 1}. {advice}")
        earlier.add(name)


_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")
"""Characters that these formats can hold, but UTF-8 text cannot or should not."""


def as_text(value: object, column: str, place: str) -> str:
    """A value of JSON, Parquet or Excel as a delimited file would hold it: ids with spaces between, wordings lines.

    Raises `InputError`, which begins with `place`, for what is no text, number or list of them.
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
    no_text = _NO_TEXT.search(text)
    if no_text is not None:
        problem = f"the character {no_text[0]!r}"
    if problem:
        raise InputError(f"{place}: expected Unicode text or a number in column {column!r}, found {problem}.")
    return text
