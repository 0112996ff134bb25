"""Reads the rows of CSV and TSV files: what separates their fields, and which of these are quoted."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ap_ranker.data.column_names import find_pair
from ap_ranker.data.rows import Columns, Record, Row, below_titles, named_rows, stripped
from ap_ranker.errors import InputError
from ap_ranker.files import unguarded
from ap_ranker.safe_open import decode

# The default refuses answers longer than 131,072 characters; the module takes a C long, which has 32 bits in Windows.
csv.field_size_limit(2**31 - 1)

_ABOVE_HEADER = re.compile(r'(?:"?sep=[,;\t|]"?[,;\t|]*\r?\n)?(?:(?:[ ,;\t|]|"")*\r?\n)*', re.IGNORECASE)
"""The line by which programs tell Excel what separates the fields, and empty rows; without either, the empty text.

The line is not needed: the header tells what separates the fields, too.
"""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""What separates the fields of a CSV file: Excel writes semicolons where a comma is the decimal point."""


def read_csv(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read fields between commas, semicolons, tabs or vertical bars; errors as `read_table`."""
    return _read_delimited(content, path, columns=columns, is_tsv=False)


def read_tsv(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read fields between tabs, which may be quoted or not; errors as `read_table`."""
    return _read_delimited(content, path, columns=columns, is_tsv=True)


def _read_delimited(content: bytes, path: Path, columns: Columns, *, is_tsv: bool) -> Iterator[Row]:
    whole_text = decode(content, path)
    text = _ABOVE_HEADER.sub("", whole_text, count=1)
    n_lines_above = whole_text.count("\n", 0, len(whole_text) - len(text))
    delimiter = "\t" if is_tsv else _delimiter(text, path, n_lines_above)
    is_unquoted = is_tsv and not _has_quoted_fields(text)
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if is_unquoted else csv.QUOTE_MINIMAL,
        skipinitialspace=not is_unquoted and _has_spaced_fields(text, delimiter),
        strict=not is_unquoted,
    )
    try:
        records = _numbered_records(reader, n_lines_above)
        mark = "" if is_unquoted else delimiter  # nothing separates it from a text if no text is quoted
        for place, fields in named_rows(records, str(path), is_sheet=False, delimiter=mark, chosen=columns):
            yield Row(fields, place)
    except csv.Error as error:
        problem = f"not a valid record ({error}). Close all quotation marks, and write one inside a text twice."
        raise InputError(f"{path}, line {n_lines_above + reader.line_num}: {problem}") from error


def _numbered_records(reader: Any, n_lines_above: int = 0) -> Iterator[Record]:
    """The records of a reader of the `csv` module, each with the number of its last line in the file."""
    for record in reader:
        yield n_lines_above + reader.line_num, [unguarded(text) for text in record]


def _delimiter(text: str, path: Path, n_lines_above: int) -> str:
    """What separates the names of the columns; raises `InputError` if several of `_DELIMITERS` do."""
    beginning = text[: 2**17]
    of_pairs: dict[str, int] = {}  # each with the line of the names that it separates
    of_several_names: dict[str, int] = {}
    for delimiter in _DELIMITERS:
        line, names = _names_of_columns(beginning, delimiter)
        if find_pair(names):
            of_pairs[delimiter] = n_lines_above + line
        if len(names) > 1:
            of_several_names[delimiter] = n_lines_above + line
    candidates = of_pairs or of_several_names
    if len(candidates) > 1:
        kinds = " and ".join(_DELIMITERS[delimiter] for delimiter in candidates)
        raise InputError(
            f"{path}, line {min(candidates.values())}: expected names of columns separated by commas, semicolons, tabs "
            f"or bars, found {kinds}. Put a name that has one of them in quotation marks."
        )
    return next(iter(candidates), ",")


def _names_of_columns(text: str, delimiter: str) -> Record:
    """The names of the columns of a text if this separates them, and their line; empty if it holds nothing."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    _, records = below_titles(_numbered_records(reader))
    return next(records, (0, []))


def _has_quoted_fields(text: str) -> bool:
    """Whether a tab-separated text is to be read as CSV: its quoted fields may hold tabs, line ends and doubled marks.

    Of both readings, the one in which more records fit the header is right. Where all fit in both, no field holds a tab
    or a line end. Then it is read as CSV if each mark belongs to a quoted field, and if one of these fields has a
    doubled mark or is in the header. So `5" pipe`, `"Gap" refers to` and even `"open`, which a later row closes, are
    texts.
    """
    if '"' not in text:
        return False
    fitting_unquoted = _fitting_lines(text, quoting=csv.QUOTE_NONE)
    fitting_quoted = _fitting_lines(text)
    both_fit = fitting_quoted == fitting_unquoted == math.inf
    if not both_fit:
        return fitting_quoted > fitting_unquoted
    is_quoted = re.compile(r'"(?:[^"]|"")*"').fullmatch
    has_doubled_mark = False
    for text_of_field in re.split(r"[\t\r\n]", text):
        if '"' in text_of_field:
            if not is_quoted(text_of_field):
                return False
            has_doubled_mark = has_doubled_mark or '""' in text_of_field[1:-1]
    return has_doubled_mark or '"' in _first_line(text)


def _has_spaced_fields(text: str, delimiter: str) -> bool:
    """Whether fields are quoted behind a space (`"Gap", "In mm, or so"`): the header's, or so more records fit it."""
    beginning_of_field = f'{delimiter} "'
    if beginning_of_field not in text:
        return False
    if beginning_of_field in _first_line(text):
        return True
    return _fitting_lines(text, delimiter, skipinitialspace=True) > _fitting_lines(text, delimiter)


def _first_line(text: str) -> str:
    return re.split(r"[\r\n]", text, maxsplit=1)[0]


def _fitting_lines(text: str, delimiter: str = "\t", **reading: Any) -> float:
    """Number of the last line before the first record that does not fit the header; infinite if all fit."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, **reading)
    n_fitting = 0
    widths: set[int] = set()
    try:
        for record in reader:
            if not widths:
                if len(record) < 2:  # a title
                    continue
                widths = {len(record), _number_of_last_text(record)}  # empty names at the end are none
            if any(record) and len(record) not in widths:
                return n_fitting
            n_fitting = reader.line_num
    except csv.Error:
        return n_fitting
    return math.inf


def _number_of_last_text(record: Sequence[str]) -> int:
    """The number of the last field with a text, from 1 on; 0 if there is none."""
    for number in range(len(record), 0, -1):
        if stripped(record[number - 1]):
            return number
    return 0
