"""Rows of a CSV, TSV, JSONL or Parquet file, each with the place it came from."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ap_ranker.errors import InputError

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default refuses answers longer than 131,072 characters


@dataclass(frozen=True)
class Row:
    """One record of a file: its fields as text, and where it stands, for messages."""

    fields: dict[str, str]
    place: str

    def need(self, column: str) -> str:
        """The field's text without surrounding white space; an empty or missing one is an `InputError`."""
        value = self.get(column)
        if not value:
            raise InputError(f"{self.place}: expected text in column {column!r}, found nothing.")
        return value

    def get(self, column: str) -> str:
        """The field's text without surrounding white space; empty if there is none."""
        return self.fields.get(column, "").strip()


@dataclass(frozen=True)
class Table:
    """All rows of a file; every row has every column."""

    path: Path
    columns: tuple[str, ...]
    rows: list[Row]


def file_format(path: Path) -> str:
    """`.csv`, `.tsv`, `.jsonl` or `.parquet`, whether gzipped or not; the file's own ending if it is none of them."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def is_table(path: Path) -> bool:
    """Whether the file's name says that `read_table` can read it."""
    return path.is_file() and file_format(path) in _READERS


def read_table(path: Path) -> Table:
    """Read a whole file.

    Raises:
        InputError: no such file, an unknown format, not UTF-8, a broken record, no rows; names the file and the row.
    """
    if not path.is_file():
        raise InputError(f"No file at {str(path)!r}.")
    reader = _READERS.get(file_format(path))
    if reader is None:
        raise InputError(f"{path}: expected a file ending in {', '.join(_READERS)} (or any of them with .gz).")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: expected a complete gzip file, found a damaged one ({error}).") from error
    rows = list(reader(content, path))
    if not rows:
        raise InputError(f"{path}: expected at least one row of data, found none.")
    return Table(path, tuple(rows[0].fields), rows)


def _decode(content: bytes, path: Path) -> str:
    try:
        return content.decode("utf-8-sig")  # spreadsheets write a byte order mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = content[error.start : error.start + 1].hex()
        raise InputError(
            f"{path}, line {line}: expected UTF-8 text, found the byte 0x{found}. Save the file as UTF-8 and try again."
        ) from error


def _read_csv(content: bytes, path: Path) -> Iterator[Row]:
    yield from _delimited(csv.reader(io.StringIO(_decode(content, path), newline=""), strict=True), path)


def _read_tsv(content: bytes, path: Path) -> Iterator[Row]:
    # In tab-separated benchmark files a quotation mark is an ordinary character.
    lines = io.StringIO(_decode(content, path), newline="")
    yield from _delimited(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), path)


def _delimited(reader: csv._reader, path: Path) -> Iterator[Row]:  # type: ignore[name-defined]
    try:
        header = [name.strip() for name in next(reader, [])]
        for values in reader:
            if not any(values):
                continue  # a blank line holds no record
            place = f"{path}, line {reader.line_num}"
            if len(values) != len(header):
                raise InputError(f"{place}: expected {len(header)} fields ({', '.join(header)}), found {len(values)}.")
            yield Row(dict(zip(header, values, strict=True)), place)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not a valid record ({error}).") from error


def _read_jsonl(content: bytes, path: Path) -> Iterator[Row]:
    columns: set[str] = set()
    for number, line in enumerate(_decode(content, path).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{place}: expected a JSON object, found invalid JSON ({error}).") from error
        if not isinstance(record, dict):
            raise InputError(f"{place}: expected a JSON object, found {type(record).__name__}.")
        columns = columns or set(record)
        if missing := columns - set(record):
            raise InputError(f"{place}: expected the fields of the first line, missing {', '.join(sorted(missing))}.")
        yield Row({key: _text(value) for key, value in record.items()}, place)


def _read_parquet(content: bytes, path: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(content))
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: expected a Parquet file ({error}).") from error
    for number, record in enumerate(table.to_pylist(), start=1):
        yield Row({key: _text(value) for key, value in record.items()}, f"{path}, row {number}")


def _text(value: object) -> str:
    """A field of JSON or Parquet as a delimited file would hold it: lists of ids are separated by spaces."""
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(map(_text, value))
    return str(int(value)) if isinstance(value, bool) else str(value)


_READERS: dict[str, Callable[[bytes, Path], Iterator[Row]]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]], ending: str) -> None:
    """Write a file that `read_table` reads; every field is text.

    Args:
        path: where.
        columns: of each row.
        rows: the records.
        ending: the name that the file will have, which says its format, since `path` may be a draft of it.

    Raises:
        InputError: the format cannot be written, or cannot hold a text: tab-separated fields have no tabs or line ends.
    """
    format_ = file_format(Path(ending))
    content = io.StringIO(newline="")
    if format_ == ".jsonl":
        content.writelines(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)
    elif format_ == ".csv":
        writer = csv.DictWriter(content, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    elif format_ == ".tsv":
        for values in (columns, *([row[column] for column in columns] for row in rows)):
            if any(character in value for value in values for character in "\t\r\n"):
                raise InputError(
                    f"{ending}: expected texts without tabs and line ends, which a tab-separated file cannot hold, "
                    "found some: name a .csv or .jsonl file."
                )
            content.write("\t".join(values) + "\n")
    else:
        raise InputError(
            f"{ending}: expected a name ending in .csv, .tsv or .jsonl (or any of them with .gz) to write."
        )
    encoded = content.getvalue().encode("utf-8")
    path.write_bytes(gzip.compress(encoded, mtime=0) if ending.endswith(".gz") else encoded)
