"""Reads the rows of workbooks: of Excel, old and new, and of LibreOffice."""

from __future__ import annotations

import datetime
import io
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from ap_ranker.child_process import ChildProcess
from ap_ranker.data.column_names import hold_pairs
from ap_ranker.data.rows import Row, as_text, check_columns, rows_of
from ap_ranker.errors import InputError, extra_for, library_errors, one_line
from ap_ranker.safe_open import OLD_OFFICE, check_growth, check_zip, found_instead, open_file

logger = logging.getLogger(__name__)

MAX_TITLE_ROWS = 3
"""Maximum number of rows, such as a title, that may stand above the names of the columns."""

Record = tuple[int, Sequence[Any]]
"""The number of a row, and its values."""


def read_spreadsheet(content: bytes, path: Path) -> Iterator[Row]:
    """Read the rows of the sheets that are shown; errors as `read_table`.

    The first one is that whose columns have the names of questions and answers, or else more than one column, as a
    cover has not; all sheets with its columns, or with its questions and answers, are read, and a notice names the
    others that have rows. Titles above the names of the columns are left out. A formula counts as its stored value.
    """
    with extra_for(f"{path}: spreadsheets need", "excel"):
        import python_calamine  # noqa: F401  # which reads in the child process

    if not content.startswith(OLD_OFFICE):
        check_zip(content, path, "a spreadsheet without a password")
    with ChildProcess() as child:
        sheets = child.call(read_cells, path)
    tables = {name: found for name, rows in sheets if len(found := _without_titles(rows)) > 1}
    names = {name: _texts(found[0][1]) for name, found in tables.items()}
    first = max(tables, key=lambda name: (hold_pairs(names[name]), len(names[name]) > 1), default="")
    shared = {name: {*names[name]} & {*names[first]} for name in tables}
    read = [name for name in tables if hold_pairs(shared[name]) or {*names[name]} == {*names[first]}]
    columns = dict.fromkeys(chain.from_iterable(names[name] for name in read))
    if len(tables) > 1:
        others = ", ".join(name for name in tables if name not in read)
        without = f"; left out, as they have other columns: {others}" if others else ""
        logger.info("%s: sheets that are read: %s%s.", path, ", ".join(read), without)
    for name in read:
        place = f"{path}, sheet {name!r}"
        if (number := tables[name][0][0]) > 1:
            logger.info("%s: the names of the columns are in row %d; what stands above is left out.", place, number)
        yield from rows_of(((at, columns | values) for at, values in _values(tables[name], place)), path)


def read_cells(path: Path) -> list[tuple[str, list[list[Any]]]]:
    """The sheets that a spreadsheet shows, each with its name and cells, as JSON can hold them."""
    from python_calamine import CalamineWorkbook, SheetVisibleEnum

    with open_file(path) as file:
        content = file.read()
    found = found_instead(content, path) or "a damaged one, or one with a password"
    with library_errors(f"{path}: expected a spreadsheet without a password, found {found}"):
        book = CalamineWorkbook.from_filelike(io.BytesIO(content))
        shown = [each.name for each in book.sheets_metadata if each.visible == SheetVisibleEnum.Visible]
        cells = {name: book.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in shown}
    check_growth(path, sum(len(row) for rows in cells.values() for row in rows), len(content))
    return [(name, [list(map(_shown, row)) for row in rows]) for name, rows in cells.items()]


def _texts(values: Iterable[Any]) -> list[str]:
    return [text for value in values if value is not None and (text := str(value).strip())]


def _without_titles(rows: Iterable[Sequence[Any]]) -> list[Record]:
    """The rows with any text, from the names of the columns on: those of questions and answers, or several ones."""
    records = [(number, values) for number, values in enumerate(rows, start=1) if _texts(values)]
    beginning = [_texts(values) for _, values in records[: MAX_TITLE_ROWS + 1]]
    by_name = (i for i, names in enumerate(beginning) if hold_pairs(names))
    by_number = (i for i, names in enumerate(beginning) if len(names) > 1)
    return records[next(chain(by_name, by_number), 0) :]


def _values(records: Sequence[Record], sheet: str) -> Iterator[tuple[str, dict[str, Any]]]:
    (number, header), *others = records
    place = f"{sheet}, row {number}"
    names = [as_text(value, f"in column {i}", place).strip() for i, value in enumerate(header, 1)]
    while names and not names[-1]:  # cells that only have a format
        names.pop()
    check_columns(names, place)
    for number, values in others:
        place = f"{sheet}, row {number}"
        if _texts(values[len(names) :]):
            raise InputError(f"{place}: expected {len(names)} cells ({one_line(', '.join(names))}), found more.")
        yield place, dict(zip_longest(names, values[: len(names)]))


def _shown(value: Any) -> Any:
    """A cell as it is shown: whole numbers without a decimal point, dates without the time if it is midnight."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return str(value.date())
    return value if isinstance(value, (str, bool, int, float)) else str(value)
