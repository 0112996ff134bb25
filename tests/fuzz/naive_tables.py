"""A second reader of tables, slow and plain, that says what a file holds; it only has to be right about sound files."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow
import pyarrow.parquet

from ap_ranker.data.column_names import PAIRS, base_name, plain
from ap_ranker.data.rows import stripped
from ap_ranker.data.tables import KNOWN
from ap_ranker.errors import InputError, library_errors
from ap_ranker.safe_open import decode

from .target import Nonsense, expect

_TEXTS = {name for questions, answers in PAIRS for name in (*questions, *answers)}


def naive_rows(path: Path) -> list[dict[str, str]]:
    """Each record of a CSV, TSV, JSONL, Parquet or Excel file, its fields as text.

    InputError for objects and lists of texts within a record: how these are read is known to the target `shapes`.
    """
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix == ".xlsx":
        return _workbook(content)
    if suffix == ".parquet":
        table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content)).read()
        columns = [_as_text(column).to_pylist() for column in table.columns]
        return [_record(list(zip(table.column_names, values, strict=True))) for values in zip(*columns, strict=True)]
    try:
        text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError:  # which other encoding it has is no question for this reader
        text = decode(content, path)
    if suffix == ".jsonl":
        lines = [line for line in text.split("\n") if line.strip()]
        return [_record(json.loads(line, object_pairs_hook=list, parse_int=str, parse_float=str)) for line in lines]
    records = _csv_records(text, _delimiter(text)) if suffix == ".csv" else _tsv_records(text)
    header, *rows = _below_titles([record for record in records if any(map(stripped, record))])
    names = [stripped(name) for name in header]
    is_pair = _is_pair([base_name(name) for name in names])
    texts = [[cell.strip(" \ufeff") for cell in row] for row in rows]
    rows = [row for i, row in enumerate(rows) if i == 0 or not is_pair or texts[i] != names]
    named = max(place for place, name in enumerate([" ", *names]) if name)
    # Columns without a name are left out, and a notice counts their texts.
    whole = [[*row, *[""] * (len(names) - len(row))] for row in rows]
    return [_record(list(zip(names[:named], row[:named], strict=True))) for row in whole]


def _is_pair(row: list[str]) -> bool:
    known = {plain(name) for name in row}
    return any(known & {*questions} and known & {*answers} for questions, answers in PAIRS)


def _below_titles(rows: list[list[str]]) -> list[list[str]]:
    """Without titles above names of questions and answers; or above others, if a title alone is as wide as these."""
    filled = [[each for each in row if stripped(each)] for row in rows]
    for i in range(min(4, len(rows))):
        if _is_pair(filled[i]) and (i == 0 or len(filled[0]) < max(3, len(filled[i]))):
            return rows[i:]
    several = [i for i in range(min(5, len(rows))) if len(filled[i]) > 1]
    if len(several) > 1 and 0 < several[0] < 4 and len(rows[0]) >= len(rows[several[0]]):
        alone = {name for questions, answers in PAIRS for name in (*questions[:2], *answers)}
        return rows if plain(filled[0][0]) in alone else rows[several[0] :]
    return rows


def named_rows(path: Path, *, guess: bool = True) -> list[dict[str, str]]:
    """The records; columns of known names, in any case or language, have those of the layouts."""
    rows = naive_rows(path)
    columns = list(rows[0]) if rows else []

    def find(name: str) -> str | None:
        same = [column for column in columns if column == name]
        similar = [column for column in columns if plain(column) == plain(name)]
        return (same or similar or [None])[0]

    names = {find(name): name for name in KNOWN}
    names.pop(None, None)
    if not {"question", "answer"} <= set(names.values()):
        pairs = [tuple(next(filter(None, map(find, side)), None) for side in pair) for pair in PAIRS]
        pair = next((pair for pair in pairs if None not in pair), None)
        if pair is None and guess and {*map(len, rows)} == {2} and set(names.values()) <= {"question"}:
            pair = (columns[1], columns[0]) if names.get(columns[1]) == "question" else (columns[0], columns[1])
        if pair is not None:
            names |= dict(zip(pair, ("question", "answer"), strict=True))
    taken = {new: f"other {new}" for old, new in names.items() if old != new and new not in names}
    return [{(taken | names).get(column, column): text for column, text in row.items()} for row in rows]


def _workbook(content: bytes) -> list[dict[str, str]]:
    with library_errors("expected a workbook that this reader can read, too"):  # a damaged one counts as refused
        book = openpyxl.load_workbook(io.BytesIO(content), data_only=True)
    for sheet in book.worksheets:
        values = [[_cell(value) for value in row] for row in sheet.iter_rows(values_only=True)]
        header, *rows = [row for row in values if any(map(stripped, row))] or [[]]
        if header:
            names = [name.strip() for name in header if name.strip()]
            return [_record(list(zip(names, row, strict=False))) for row in rows]
    return []


def _cell(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    if isinstance(value, datetime.datetime):
        return str(value).removesuffix(" 00:00:00")
    return str(value) if isinstance(value, datetime.date | datetime.time) else _text(int(value) if whole else value)


def _as_text(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Dates and times as ISO 8601 writes them: Python has fewer years than Parquet."""
    return column.cast(pyarrow.string()) if pyarrow.types.is_temporal(column.type) else column


def _record(fields: list[tuple[str, Any]]) -> dict[str, str]:
    names = [name for name, _ in fields]
    expect(len(set(names)) == len(names), f"two columns of one name were read: {names}")
    for name, value in fields:
        if isinstance(value, list) and len(value) > 1 and plain(name) in _TEXTS:
            raise InputError(f"expected one text for {name}, found a list: see the target `shapes`")
    return {name: _text(value) for name, value in fields}


def _text(value: Any) -> str:
    if isinstance(value, list):
        if any(isinstance(each, tuple | list) for each in value):
            raise InputError(f"expected no object or list in a field's list, found {value}: see the target `shapes`")
        return " ".join(map(_text, value))
    if isinstance(value, float):
        expect(math.isfinite(value), f"a number that is none was read as text: {value}")
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if value is None or isinstance(value, bool):
        return "" if value is None else str(int(value))
    if isinstance(value, str | int | float | Decimal):
        return str(value)
    if isinstance(value, dict):
        raise InputError(f"expected no object in a field, found {value}: see the target `shapes`")
    raise Nonsense(f"{type(value).__name__} was read as text: {value!r}")


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _delimiter(text: str) -> str:
    """The only one that stands outside of quotation marks before the first line ends."""
    outside, quoted = "", False
    for character in text:
        if character == '"':
            quoted = not quoted
        elif not quoted and character in "\r\n":
            break
        elif not quoted:
            outside += character
    found = {character for character in ",;\t" if character in outside}
    known = {each for each in found if _is_pair(_csv_records(text.split("\n", maxsplit=1)[0], each)[0])}
    found = known or found
    expect(len(found) < 2, f"a header with several delimiters was read: {outside}")
    return found.pop() if found else ","


def _tsv_records(text: str) -> list[list[str]]:
    """Rows of plain texts, unless only marks explain the rows, or each mark is one that CSV would write."""
    plain, quoted = [line.split("\t") for line in _lines(text)], _csv_records(text, "\t")
    if not _is_even(plain):
        return quoted
    marked = [field for row in plain for field in row if '"' in field]
    inner = [field[1:-1].replace('""', "") for field in marked]
    whole = all(len(field) > 1 and field[0] == field[-1] == '"' for field in marked)
    told = any('""' in field[1:-1] for field in marked) or any('"' in name for name in plain[0])
    return quoted if whole and told and not any('"' in text for text in inner) else plain


def _is_even(rows: list[list[str]]) -> bool:
    """Whether all rows are as long as the header, with or without empty names at its end."""
    named = max((place for place, name in enumerate(rows[0], start=1) if name.strip()), default=0)
    return all(len(row) in (len(rows[0]), named) for row in rows if any(row))


def _csv_records(text: str, delimiter: str) -> list[list[str]]:
    """RFC 4180, character by character."""
    records: list[list[str]] = [[]]
    field, quoted, place = "", False, 0
    while place < len(text):
        character, after = text[place], text[place + 1 : place + 2]
        if quoted:
            if character == '"' and after == '"':
                field, place = field + '"', place + 1
            elif character == '"':
                quoted = False
            else:
                field += character
        elif character == '"' and not field:
            quoted = True
        elif character == delimiter:
            records[-1].append(field)
            field = ""
        elif character in "\r\n":
            records[-1].append(field)
            records.append([])
            field = ""
        else:
            field += character
        place += 1
    records[-1].append(field)
    return records
