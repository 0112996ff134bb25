"""Reads the rows of workbooks: of Excel, old and new, and of LibreOffice."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ap_ranker.child_process import ChildProcess
from ap_ranker.data.column_names import find_pair
from ap_ranker.data.rows import Columns, Record, Row, below_titles, named_rows, rows_of, texts
from ap_ranker.errors import extra_for, library_errors
from ap_ranker.files import unguarded
from ap_ranker.safe_open import OLD_OFFICE, check_growth, check_zip, found_instead, open_file

logger = logging.getLogger(__name__)


def read_spreadsheet(content: bytes, path: Path, chosen: Columns = None) -> Iterator[Row]:
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
        sheets: dict[str, list[Record]] = {}
        for name, rows in child.call(read_cells, path):
            sheets[name] = list(enumerate(rows, start=1))
    header_of: dict[str, list[str]] = {}  # of the sheets that have rows
    for name, records in sheets.items():
        _, from_names_on = below_titles(records)
        top = list(islice(from_names_on, 2))
        if len(top) > 1:
            header_of[name] = texts(top[0][1])
    names = _sheets_to_read(header_of)
    columns: dict[str, None] = {}
    for name in names:
        columns.update(dict.fromkeys(header_of[name]))
    if len(header_of) > 1:
        names_left_out = [name for name in header_of if name not in names]
        without = ""
        if names_left_out:
            without = f"; left out, as they have other columns: {', '.join(names_left_out)}"
        logger.info("%s: sheets that are read: %s%s.", path, ", ".join(names), without)
    for name in names:
        named = named_rows(sheets[name], f"{path}, sheet {name!r}", is_sheet=True, chosen=chosen)
        yield from rows_of(_with_all_columns(named, columns), path)


def _with_all_columns(
    records: Iterable[tuple[str, dict[str, Any]]], columns: dict[str, None]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The places and values of rows, `None` for a column of another sheet."""
    for place, values in records:
        yield place, columns | values


def _sheets_to_read(header_of: Mapping[str, Sequence[str]]) -> list[str]:
    """The sheets with the columns of the first one, or with its questions and answers, by the names of their columns.

    Which one is the first, `read_spreadsheet` says.
    """

    def preference(name: str) -> tuple[bool, bool]:
        return bool(find_pair(header_of[name])), len(header_of[name]) > 1

    first = max(header_of, key=preference, default="")
    names = []
    for name, header in header_of.items():
        shared_names = set(header) & set(header_of[first])
        if find_pair(shared_names) or set(header) == set(header_of[first]):
            names.append(name)
    return names


def read_cells(path: Path) -> list[tuple[str, list[list[Any]]]]:
    """The sheets that a spreadsheet shows, each with its name and cells, as JSON can hold them."""
    from python_calamine import CalamineWorkbook, SheetVisibleEnum

    with open_file(path) as file:
        content = file.read()
    other_kind = found_instead(content, path) or "a damaged one, or one with a password"
    with library_errors(f"{path}: expected a spreadsheet without a password, found {other_kind}"):
        book = CalamineWorkbook.from_filelike(io.BytesIO(content))
        sheets = book.sheets_metadata
        visible = [metadata.name for metadata in sheets if metadata.visible == SheetVisibleEnum.Visible]
        cells = {}
        for name in visible:
            sheet = book.get_sheet_by_name(name)
            rows = sheet.to_python(skip_empty_area=False)
            cells[name] = rows
            for (top, left), (bottom, _) in sheet.merged_cell_ranges or ():
                for row in filter(texts, rows[top + 1 : bottom + 1]):  # a text beside several rows is that of each
                    row[left : left + 1] = rows[top][left : left + 1]
    all_rows = chain.from_iterable(cells.values())
    n_cells = sum(map(len, all_rows))
    check_growth(path, n_cells, len(content))
    shown_cells: list[tuple[str, list[list[Any]]]] = []
    for name, rows in cells.items():
        shown_cells.append((name, [list(map(_shown, row)) for row in rows]))
    return shown_cells


def _shown(cell: Any) -> Any:
    """A cell as it is shown: whole numbers without a decimal point, dates without the time if it is midnight.

    Of a text from a table that ap-ranker has written, the mark before a formula is left out, as of a CSV file.
    """
    whole = isinstance(cell, float) and cell.is_integer()
    if whole:
        return int(cell)
    if isinstance(cell, str):
        return unguarded(cell)
    if isinstance(cell, (int, float)):
        return cell
    return str(cell).removesuffix(" 00:00:00")
