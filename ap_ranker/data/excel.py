"""Reads the rows of workbooks: of Excel, old and new, and of LibreOffice."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ap_ranker.child_process import ChildProcess
from ap_ranker.data.column_names import find_pair
from ap_ranker.data.rows import Columns, Row, below_titles, named_rows, rows_of, texts
from ap_ranker.errors import extra_for, library_errors
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
        sheets = {name: [*enumerate(rows, start=1)] for name, rows in child.call(read_cells, path)}
    tops = {name: [*islice(below_titles(rows)[1], 2)] for name, rows in sheets.items()}
    names = {name: texts(top[0][1]) for name, top in tops.items() if len(top) > 1}
    first = max(names, key=lambda name: (bool(find_pair(names[name])), len(names[name]) > 1), default="")
    shared = {name: {*names[name]} & {*names[first]} for name in names}
    read = [name for name in names if find_pair(shared[name]) or {*names[name]} == {*names[first]}]
    columns = dict.fromkeys(chain.from_iterable(names[name] for name in read))
    if len(names) > 1:
        others = ", ".join(name for name in names if name not in read)
        without = ""
        if others:
            without = f"; left out, as they have other columns: {others}"
        logger.info("%s: sheets that are read: %s%s.", path, ", ".join(read), without)
    for name in read:
        rows = named_rows(sheets[name], f"{path}, sheet {name!r}", "row", chosen=chosen)
        yield from rows_of(((place, columns | values) for place, values in rows), path)


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
            cells[name] = rows = sheet.to_python(skip_empty_area=False)
            for (top, left), (bottom, _) in sheet.merged_cell_ranges or ():
                for row in filter(texts, rows[top + 1 : bottom + 1]):  # a text beside several rows is that of each
                    row[left : left + 1] = rows[top][left : left + 1]
    n_cells = sum(map(len, chain.from_iterable(cells.values())))
    check_growth(path, n_cells, len(content))
    shown_cells: list[tuple[str, list[list[Any]]]] = []
    for name, rows in cells.items():
        shown_cells.append((name, [list(map(_shown, row)) for row in rows]))
    return shown_cells


def _shown(cell: Any) -> Any:
    """A cell as it is shown: whole numbers without a decimal point, dates without the time if it is midnight."""
    whole = isinstance(cell, float) and cell.is_integer()
    if whole:
        return int(cell)
    if isinstance(cell, (str, int, float)):
        return cell
    return str(cell).removesuffix(" 00:00:00")
