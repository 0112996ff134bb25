"""Reads the rows of workbooks: of Excel, old and new, and of LibreOffice."""

from __future__ import annotations

import datetime
import io
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from ap_ranker.child_process import ChildProcess
from ap_ranker.data.rows import Row, as_text, check_columns, rows_of
from ap_ranker.errors import InputError, extra_for, library_errors, one_line
from ap_ranker.safe_open import OLD_OFFICE, check_growth, check_zip, found_instead, open_file

logger = logging.getLogger(__name__)

MAX_TITLE_ROWS = 3
"""Maximum number of rows with one text each, such as a title, that may stand above the names of the columns."""

Record = tuple[int, Sequence[Any]]
"""The number of a row, and its values."""


def read_spreadsheet(content: bytes, path: Path) -> Iterator[Row]:
    """Read the rows of the first sheet that is shown, with a header and rows; errors as `read_table`.

    A sheet of one column, such as a cover, is read only if no other has more. The header is the first row with any
    text; titles above it are left out. A formula counts as the value that was stored with it.
    """
    with extra_for(f"{path}: spreadsheets need", "excel"):
        import python_calamine  # noqa: F401  # which reads in the child process

    if not content.startswith(OLD_OFFICE):
        check_zip(content, path, "a spreadsheet without a password")
    with ChildProcess() as child:
        sheets = child.call(read_cells, path)
    for fewest in (2, 1):
        for name, rows in sheets:
            filled = ((number, values) for number, values in enumerate(rows, start=1) if _filled(values))
            records = _without_titles(filled, f"{path}, {name!r}")
            beginning = list(islice(records, 2))
            if len(beginning) == 2 and _filled(beginning[0][1]) >= fewest:
                yield from rows_of(_values(chain(beginning, records), f"{path}, sheet {name!r}"), path)
                return


def read_cells(path: Path) -> list[tuple[str, list[list[Any]]]]:
    """The sheets that a spreadsheet shows, each with its name and cells, as JSON can hold them."""
    from python_calamine import CalamineWorkbook, SheetVisibleEnum

    with open_file(path) as file:
        content = file.read()
    found = found_instead(content, path) or "a damaged one"
    with library_errors(f"{path}: expected a spreadsheet without a password, found {found}"):
        book = CalamineWorkbook.from_filelike(io.BytesIO(content))
        shown = [each.name for each in book.sheets_metadata if each.visible == SheetVisibleEnum.Visible]
        cells = {name: book.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in shown}
    check_growth(path, sum(len(row) for rows in cells.values() for row in rows), len(content))
    return [(name, [list(map(_shown, row)) for row in rows]) for name, rows in cells.items()]


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
    names = [as_text(value, f"in column {i}", place).strip() for i, value in enumerate(header, 1)]
    while names and not names[-1]:  # cells that only have a format
        names.pop()
    check_columns(names, place)
    for number, values in records:
        place = f"{sheet}, row {number}"
        if _filled(values[len(names) :]):
            raise InputError(f"{place}: expected {len(names)} cells ({one_line(', '.join(names))}), found more.")
        yield place, dict(zip_longest(names, values[: len(names)]))


def _shown(value: Any) -> Any:
    """A cell as it is shown: whole numbers without a decimal point, dates without the time if it is midnight."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return str(value.date())
    return value if isinstance(value, (str, bool, int, float)) else str(value)
