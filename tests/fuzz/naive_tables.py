"""A second reader of tables, slow and plain, that says what a file holds; it only has to be right about sound files."""

from __future__ import annotations

import gzip
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from .target import Nonsense, expect


def naive_rows(path: Path) -> list[dict[str, str]]:
    """Each record of a CSV, TSV, JSONL or Parquet file, its fields as text."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix == ".parquet":
        table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content)).read()
        columns = [_as_text(column).to_pylist() for column in table.columns]
        return [_record(list(zip(table.column_names, values, strict=True))) for values in zip(*columns, strict=True)]
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    if suffix == ".jsonl":
        lines = [line for line in text.split("\n") if line.strip()]
        return [_record(json.loads(line, object_pairs_hook=list, parse_int=str, parse_float=str)) for line in lines]
    records = _csv_records(text) if suffix == ".csv" else [line.split("\t") for line in _lines(text)]
    header, *rows = [record for record in records if any(record)]
    names = [name.strip() for name in header]
    return [_record(list(zip(names, row, strict=True))) for row in rows]


def _as_text(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Dates and times as ISO 8601 writes them: Python has fewer years than Parquet."""
    return column.cast(pyarrow.string()) if pyarrow.types.is_temporal(column.type) else column


def _record(fields: list[tuple[str, Any]]) -> dict[str, str]:
    names = [name for name, _ in fields]
    expect(len(set(names)) == len(names), f"two columns of one name were read: {names}")
    return {name: _text(value) for name, value in fields}


def _text(value: Any) -> str:
    if isinstance(value, list):
        expect(not any(isinstance(each, tuple) for each in value), f"an object was read as text: {value}")
        return " ".join(map(_text, value))
    if isinstance(value, float):
        expect(math.isfinite(value), f"a number that is none was read as text: {value}")
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if value is None or isinstance(value, bool):
        return "" if value is None else str(int(value))
    if isinstance(value, str | int | float | Decimal):
        return str(value)
    raise Nonsense(f"{type(value).__name__} was read as text: {value!r}")


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _csv_records(text: str) -> list[list[str]]:
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
        elif character == ",":
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
