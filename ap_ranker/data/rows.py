"""The rows of a table, and how the values of each format become text."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
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
        if value := self.get(column):
            return value
        raise InputError(
            f"{self.place}: expected text in column {self.written.get(column, column)!r}, found nothing. "
            "Write it, or remove the row; ap-ranker check FILE names all such rows."
        )

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
            found = "found more, most of them empty or the same in each row"
            advice = "Leave out columns that few rows fill, or divide the file."
            raise InputError(f"{self.path}: expected at most {self._most:,} cells, {found}. {advice}")

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, counted."""
        for row in rows:
            self.add(row.fields)
            for listed in row.lists.values():
                self.add(listed)
            yield row


def row_of(values: dict[str, Any], place: str) -> Row:
    """The row of values that may be lists; errors as `as_text`."""
    fields = {name: as_text(value, name, place) for name, value in values.items()}
    lists: dict[str, tuple[str, ...]] = {}
    for name, value in values.items():
        if isinstance(value, list):
            texts = (as_text(part, name, place) for part in value)
            lists[name] = tuple(text.strip() for text in texts if stripped(text))
    return Row(fields, place, lists=lists)


def rows_of(records: Iterable[tuple[str, dict[str, Any]]], path: Path) -> Iterator[Row]:
    """The rows of a compressed file, from their places and values; errors as `as_text` and `check_growth`."""
    read = checked = 0
    for place, values in records:
        row = row_of(values, place)
        read += ROW_BYTES + sum(map(len, row.fields.values()))
        if read > checked + ALWAYS_READ // 4:
            check_growth(path, checked := read)
        yield row


MAX_TITLE_ROWS = 3
"""Maximum number of rows, such as a title, that may stand above the names of the columns."""

Record = tuple[int, Sequence[Any]]
"""The number of a row or line, and its values."""


def texts(values: Iterable[Any]) -> list[str]:
    """The values that have any text."""
    return [text for value in values if value is not None and (text := str(value).strip())]


def below_titles(records: Iterable[Record]) -> tuple[int, Iterator[Record]]:
    """The number of titles above the names of the columns; the records with any text from these on.

    Names are the first of questions and answers: of these two alone, or more names than the first record has texts. Or
    else they are the first several texts, below one that is no such name, if others have several, too.
    """
    filled = (record for record in records if texts(record[1]))
    top = [*islice(filled, MAX_TITLE_ROWS + 2)]
    rows = [texts(values) for _, values in top]
    several = [i for i, row in enumerate(rows) if len(row) > 1]
    start = several[0] if len(several) > 1 and several[0] <= MAX_TITLE_ROWS else 0
    if start and (ALONE.intersection(map(plain, rows[0])) or len(top[0][1]) < len(top[start][1])):
        start = 0  # it names the only column
    for i, row in reversed([*enumerate(rows[: MAX_TITLE_ROWS + 1])]):
        start = i if find_pair(row) and (not i or len(rows[0]) < max(len(row), 3)) else start
    return start, chain(top[start:], filled)


def named_rows(
    records: Iterable[Record], file: str, unit: str, mark: str = "", chosen: Columns = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The places and values of the rows below the names of the columns, which are left out where they stand again.

    A record is a `unit` (row, line); a bare `mark` ends a text. Columns without a text are left out, and so are those
    without a name where the columns of questions and answers are recognized, or `chosen`; then a row that ends early
    has no further texts. InputError: a text in no named column, or too few.
    """
    after_blank: set[int] = set()
    n_titles, records = below_titles(_noting_blanks(records, after_blank))
    first, header = next(records, (1, ()))
    place = f"{file}, {unit} {first}"
    names = [as_text(value, f"in column {i}", place).strip() for i, value in enumerate(header, 1)]
    columns = [i for i, name in enumerate(names) if name]
    left, right = min(columns, default=0), max(columns, default=0) + 1
    below = list(records)
    is_pair = bool(find_pair(map(base_name, names))) if chosen is None else named_pair(names, chosen)
    named = set(columns)
    nameless = [i for i in range(right) if i not in named]
    filled = _filled(below)
    checked = columns if is_pair else [i for i in range(left, right) if i in named or i in filled]
    check_columns([*([] if is_pair else (f" {i}" for i in range(left))), *(names[i] for i in checked)], place)
    known = one_line(", ".join(names[i] for i in columns))
    if n_titles:
        logger.info("%s: the names of the columns are in %s %d; what stands above is left out.", file, unit, first)
    ignored = set(nameless) if is_pair else set()
    if is_pair:  # behind the names: of a sheet, any; of a delimited file, those that its first line has, too
        ignored.update(
            range(right, len(names) if unit == "line" else max(map(len, (row for _, row in below)), default=0))
        )
    if lost := sorted(ignored & filled):
        numbers = ", ".join(str(i + 1) for i in lost[:3])
        logger.info("%s: columns without a name are left out: %s.", file, numbers)
    others_below = _other_tables(below, ignored, after_blank) if is_pair else {}
    for number, title in others_below.items():
        if title:
            logger.warning("%s, %s %d: left out: another table below the first one (%s).", file, unit, number, title)
    for i, (number, values) in enumerate(below):
        if number in others_below:
            continue
        beside = chain(range(min(left, len(values))), range(right, len(values)))
        others = [at for at in beside if at not in ignored and texts(values[at : at + 1])]
        if others and others[0] < left:
            check_columns([*map(str, range(others[0])), ""], place)
        if others or (len(values) < right and not is_pair):
            is_no_header = len(columns) == 1 or names[left].endswith(QUESTION_MARKS)
            advice = f" {unit.capitalize()} {first} must hold the names of the columns." if is_no_header else ""
            if others and mark and not is_no_header:
                advice = f" Put texts that hold {mark!r} in quotation marks."
            expected = f"expected {len(columns)} texts ({known}), found {len(values)}"
            raise InputError(f"{file}, {unit} {number}: {expected}.{advice}")
        cells = {at: values[at] if at < len(values) else "" for at in columns}
        if i and all(str(cell).strip(" \ufeff") == names[at] for at, cell in cells.items()) and find_pair(names):
            logger.info("%s, %s %d: left out: the names of the columns again (%s).", file, unit, number, known)
        else:
            yield f"{file}, {unit} {number}", {names[at]: cell for at, cell in cells.items()}


def _filled(records: Iterable[Record]) -> set[int]:
    """The positions at which any record has a text."""
    return {at for _, values in records for at, value in enumerate(values) if texts([value])}


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
    """The numbers of the rows of other tables below a table of pairs; the first of each with what it begins with.

    Below a blank row, another table has its names in more columns than the first one: in such that have no name there,
    and hold nothing above. Most of its rows have texts in these, too. A note beside an entry is none.
    """
    starts = [i for i, (number, _) in enumerate(below) if number in after_blank and i]
    if not starts:
        return {}
    others: dict[int, str] = {}
    beside = nameless - _filled(below[: starts[0]])
    for start, end in zip(starts, [*starts[1:], len(below)], strict=True):
        block = below[start:end]
        has_title = len(block) > 1 and len(texts(block[0][1])) == 1
        rows = block[1:] if has_title else block
        wide = [not beside.isdisjoint(_filled([record])) for record in rows]
        names = texts(rows[0][1])
        asks = any(name.endswith(QUESTION_MARKS) for name in names)
        if len(rows) > 1 and wide[0] and not asks and 2 * sum(wide) > len(wide):
            others |= dict.fromkeys((number for number, _ in block), "")
            others[block[0][0]] = one_line(", ".join(texts(block[0][1])), 80)
    return others


def check_columns(names: Sequence[str], place: object) -> None:
    """Raise an `InputError` that begins with `place` if a column has no name, or that of another one."""
    earlier: set[str] = set()
    for i, name in enumerate(names):
        if not name.strip() or name in earlier:
            found = f"{one_line(repr(name))} again" if name.strip() else "none"
            advice = "Name it, or leave it out (with pandas: to_csv(..., index=False))."
            raise InputError(f"{place}: expected a name for each column, found {found} for column {i + 1}. {advice}")
        earlier.add(name)


_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")
"""Characters that these formats can hold, but UTF-8 text cannot or should not."""


def as_text(value: object, column: str, place: str) -> str:
    """A value of JSON, Parquet or Excel as a delimited file would hold it: ids with spaces between, wordings lines.

    Raises `InputError`, which begins with `place`, for what is no text, number or list of them.
    """
    if isinstance(value, list) and not any(isinstance(part, list) for part in value):
        separator = "\n" if WORDING_COLUMNS.fullmatch(column) else " "
        return separator.join(as_text(part, column, place) for part in value)
    text, found = "", ""
    if isinstance(value, list):
        found = "a list inside a list"
    elif isinstance(value, dict):
        found = "an object with fields of its own"
    elif isinstance(value, float) and not math.isfinite(value):
        found = f"{value}: leave it empty"
    elif isinstance(value, bytes):
        try:
            text = value.decode("utf-8")
        except UnicodeDecodeError as error:
            found = f"the byte 0x{value[error.start]:02x}, which is not UTF-8"
    elif value is not None:
        text = str(int(value) if isinstance(value, bool) else value)
    if match := _NO_TEXT.search(text):
        found = f"the character {match[0]!r}"
    if found:
        raise InputError(f"{place}: expected Unicode text or a number in column {column!r}, found {found}.")
    return text
