"""Reads the rows of CSV, TSV, JSONL and Parquet files, each with its place in the file."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ap_ranker.errors import InputError, one_line
from ap_ranker.reading import check_growth, decode, open_file, require_file

if TYPE_CHECKING:
    import pyarrow

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default refuses answers longer than 131,072 characters


WORDING_COLUMNS = re.compile(r"wordings?( ?[0-9]+)?", re.IGNORECASE)
"""Names of columns with further wordings of a question, one per line of a cell."""


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a file: its fields as text, and its file and line, for messages."""

    fields: dict[str, str]
    place: str

    def need(self, column: str) -> str:
        """The field's text without surrounding white space; raises `InputError` if it is empty or missing."""
        value = self.get(column)
        if not value:
            raise InputError(f"{self.place}: expected text in column {column!r}, found nothing.")
        return value

    def get(self, column: str) -> str:
        """The field's text without surrounding white space; empty if it is missing."""
        return self.fields.get(column, "").strip()


@dataclass(frozen=True)
class Table:
    """All rows of a file; every row has every column."""

    path: Path
    columns: tuple[str, ...]
    rows: list[Row]

    @property
    def header(self) -> str:
        """The columns, for messages."""
        return one_line(", ".join(self.columns))

    def require(self, *columns: str) -> None:
        """Raise an `InputError` if one of these columns is missing."""
        if missing := [column for column in columns if column not in self.columns]:
            raise InputError(f"{self.path}: expected a column {missing[0]!r}, found {self.header}.")


def file_format(path: Path) -> str:
    """The file's ending without `.gz`: `.csv`, `.tsv`, `.jsonl`, `.parquet`, or an unknown one."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def is_table(path: Path) -> bool:
    """Whether `read_table` can read the file, by its name."""
    return path.is_file() and file_format(path) in _READERS


def read_table(path: Path) -> Table:
    """Read a whole file.

    Raises:
        InputError: no such file, an unknown format, not UTF-8, a broken record, a column without a name or with the
            name of another one, a field that is not text, no rows; names the file and the row.
    """
    require_file(path)
    reader = _READERS.get(file_format(path))
    if reader is None:
        raise InputError(f"{path}: expected a file ending in {', '.join(_READERS)} (or any of them with .gz).")
    with open_file(path) as file:
        content = file.read()
    rows = list(reader(content, path))
    if not rows:
        raise InputError(f"{path}: expected at least one row of data, found none.")
    return Table(path, tuple(rows[0].fields), rows)


def _check_columns(names: Sequence[str], place: object) -> None:
    for i, name in enumerate(names):
        if not name.strip():
            raise InputError(
                f"{place}: expected a name for each column, found none for column {i + 1}. Name it, or leave it out "
                "(with pandas: to_csv(..., index=False))."
            )
        if name in names[:i]:
            raise InputError(
                f"{place}: expected each column once, found {one_line(repr(name))} again as column {i + 1}."
            )


def _read_delimited(content: bytes, path: Path) -> Iterator[Row]:
    lines = io.StringIO(decode(content, path), newline="")
    if file_format(path) == ".tsv":  # in tab-separated benchmark files a quotation mark is an ordinary character
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_columns(header, f"{path}, line 1")
        for values in reader:
            if not any(values):
                continue  # a blank line
            place = f"{path}, line {reader.line_num}"
            if len(values) != len(header):
                names = one_line(", ".join(header))
                raise InputError(f"{place}: expected {len(header)} fields ({names}), found {len(values)}.")
            yield Row(dict(zip(header, values, strict=True)), place)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not a valid record ({error}).") from error


def _read_jsonl(content: bytes, path: Path) -> Iterator[Row]:
    columns: set[str] = set()
    for i, line in enumerate(decode(content, path).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {i}"
        record = _json_object(line, place)
        columns = columns or set(record)
        if missing := columns - set(record):
            raise InputError(f"{place}: expected the fields of the first line, missing {', '.join(sorted(missing))}.")
        yield Row({key: _text(value, key, place) for key, value in record.items()}, place)


def _json_object(line: str, place: str) -> dict[str, Any]:
    try:
        # Numbers stay texts: Python does not parse an id of 5,000 digits.
        record = json.loads(
            line, parse_int=str, parse_float=str, parse_constant=_no_number, object_pairs_hook=_no_name_twice
        )
    except RecursionError as error:
        raise InputError(f"{place}: expected a JSON object of texts, found one nested too deeply.") from error
    except ValueError as error:
        raise InputError(f"{place}: expected a JSON object, found invalid JSON ({error}).") from error
    if not isinstance(record, dict):
        raise InputError(f"{place}: expected a JSON object, found {type(record).__name__}.")
    _check_columns(list(record), place)
    return record


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name}, which JSON does not have: write null where there is no value")


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the field {next(name for name in names if names.count(name) > 1)!r} twice")
    return record


_AT_ONCE = 256
"""Number of Parquet rows converted at once: few, as one value that all rows share may be long."""

_ROW = 64
"""Bytes that a row counts beside its texts when a file's growth is checked: empty rows take memory, too."""


def _read_parquet(content: bytes, path: Path) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(f'{path}: Parquet files need an extra: pip install "ap-ranker[parquet]"') from error

    n_rows = read = 0
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
        _check_columns(file.schema_arrow.names, path)
        groups = range(file.metadata.num_row_groups)
        check_growth(path, sum(file.metadata.row_group(group).total_byte_size for group in groups))
        for batch in file.iter_batches(_AT_ONCE):
            columns = {name: _values(batch[name], name, path) for name in batch.schema.names}
            for index in range(batch.num_rows):
                n_rows += 1
                place = f"{path}, row {n_rows}"
                fields = {name: _text(values[index], name, place) for name, values in columns.items()}
                read += _ROW + sum(map(len, fields.values()))
                yield Row(fields, place)
            check_growth(path, read)
    except (pyarrow.ArrowException, OSError, OverflowError) as error:
        raise InputError(f"{path}: expected a Parquet file ({error}).") from error


def _values(column: pyarrow.Array, name: str, path: Path) -> list[Any]:
    """A column's values; texts as bytes, since a file may declare bytes that are not UTF-8 as text."""
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    listed = types.is_list(kind) or types.is_large_list(kind)
    inner = kind.value_type if listed else kind
    numbers = [types.is_boolean, types.is_integer, types.is_floating, types.is_decimal]
    plain_kinds = [types.is_null, *numbers, types.is_binary, types.is_large_binary, types.is_fixed_size_binary]
    if types.is_date(inner) or types.is_timestamp(inner) or types.is_time(inner):
        target = pyarrow.string()
    elif types.is_string(inner) or types.is_large_string(inner):
        target = pyarrow.large_binary()
    elif any(is_kind(inner) for is_kind in plain_kinds):
        target = inner
    else:
        raise InputError(f"{path}: expected texts, numbers or lists of them in column {name!r}, found {inner}.")
    values: list[Any] = column.cast(pyarrow.large_list(target) if listed else target).to_pylist()
    return values


_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")
"""Characters that JSON and Parquet can hold, but UTF-8 text cannot or should not."""


def _text(value: object, column: str, place: str) -> str:
    """A field of JSON or Parquet as a delimited file would hold it: ids separated by spaces, wordings by lines."""
    if value is None:
        return ""
    if isinstance(value, list):
        if any(isinstance(part, list) for part in value):
            raise InputError(f"{place}: expected text or texts in column {column!r}, found a list inside a list.")
        separator = "\n" if WORDING_COLUMNS.fullmatch(column) else " "
        return separator.join(_text(part, column, place) for part in value)
    if isinstance(value, dict):
        raise InputError(f"{place}: expected text in column {column!r}, found an object with fields of its own.")
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{place}: expected UTF-8 text in column {column!r}, found the byte 0x{value[error.start]:02x}."
            ) from error
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{place}: expected text or a number in column {column!r}, found {value}: leave it empty.")
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if match := _NO_TEXT.search(text):
        raise InputError(f"{place}: expected Unicode text in column {column!r}, found the character {match[0]!r}.")
    return text


_READERS: dict[str, Callable[[bytes, Path], Iterator[Row]]] = {
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]], ending: str) -> None:
    """Write a file that `read_table` reads; every field is text.

    Args:
        path: the file to write.
        columns: the columns of each row.
        rows: the records.
        ending: the final name of the file, which decides the format; `path` may be a draft.

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
