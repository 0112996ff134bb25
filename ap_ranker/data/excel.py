"""Reads the rows of Excel workbooks."""

from __future__ import annotations

import datetime
import io
import logging
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from ap_ranker.data.rows import Row, as_text, check_columns, rows_of
from ap_ranker.errors import InputError, extra_for, library_errors, one_line
from ap_ranker.safe_open import check_zip

logger = logging.getLogger(__name__)

MAX_TITLE_ROWS = 3
"""Maximum number of rows with one text each, such as a title, that may stand above the names of the columns."""

MAX_ROWS = 2**20
"""Maximum number of rows of a sheet, as in Excel; a damaged file may claim that its next row is the billionth."""

Record = tuple[int, tuple[Any, ...]]
"""The number of a row, and its values."""


def read_excel(content: bytes, path: Path) -> Iterator[Row]:
    """Read the rows of the first sheet with a header and rows; errors as `read_table`.

    A sheet of one column, such as a cover, is read only if no other has more. The header is the first row with any
    text; titles above it are left out. A formula counts as the value that Excel stored with it.
    """
    with extra_for(f"{path}: Excel files need", "excel"):
        import openpyxl

    check_zip(content, path, "an Excel workbook (.xlsx) without a password")
    with library_errors(f"{path}: expected an Excel workbook (.xlsx), found a damaged one"):
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        for fewest in (2, 1):
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # those in the file may be wrong, or say that each row has 16,384 cells
                records = _without_titles(_records(sheet.iter_rows(values_only=True), path), f"{path}, {sheet.title!r}")
                beginning = list(islice(records, 2))
                if len(beginning) == 2 and _filled(beginning[0][1]) >= fewest:
                    yield from rows_of(_values(chain(beginning, records), f"{path}, sheet {sheet.title!r}"), path)
                    return


def _records(rows: Iterable[tuple[Any, ...]], path: Path) -> Iterator[Record]:
    for number, values in enumerate(rows, start=1):
        if number > MAX_ROWS:
            raise InputError(f"{path}: expected at most {MAX_ROWS:,} rows, found more.")
        if _filled(values):
            yield number, values


def _filled(values: Iterable[Any]) -> int:
    return sum(value not in (None, "") for value in values)


def _without_titles(records: Iterator[Record], sheet: str) -> Iterator[Record]:
    """The rows from the names of the columns on; a notice says where these do not come first."""
    beginning = list(islice(records, MAX_TITLE_ROWS + 1))
    titles = next((i for i, (_, values) in enumerate(beginning) if _filled(values) > 1), 0)
    if titles:
        number, _ = beginning[titles]
        logger.info("%s: the names of the columns are in row %d; what stands above is left out.", sheet, number)
    yield from chain(beginning[titles:], records)


def _values(records: Iterator[Record], sheet: str) -> Iterator[tuple[str, dict[str, Any]]]:
    number, header = next(records)
    place = f"{sheet}, row {number}"
    names = [as_text(_shown(value), f"in column {i}", place).strip() for i, value in enumerate(header, 1)]
    while names and not names[-1]:  # cells that only have a format
        names.pop()
    check_columns(names, place)
    for number, values in records:
        place = f"{sheet}, row {number}"
        if _filled(values[len(names) :]):
            raise InputError(f"{place}: expected {len(names)} cells ({one_line(', '.join(names))}), found more.")
        yield place, dict(zip_longest(names, map(_shown, values[: len(names)])))


def _shown(value: object) -> object:
    """A cell as Excel shows it: whole numbers without a decimal point, dates without the time if it is midnight."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date()
    return value
