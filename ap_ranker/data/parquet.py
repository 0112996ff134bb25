"""Reads the rows of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ap_ranker.data.json_tables import rows_in_record
from ap_ranker.data.rows import CellCount, Columns, Row, check_columns, rows_of
from ap_ranker.errors import InputError, extra_for, library_errors
from ap_ranker.safe_open import MAX_RATIO, check_growth

if TYPE_CHECKING:
    import pyarrow

_AT_ONCE = 256
"""Number of Parquet rows converted at once: few, as one value that all rows share may be long."""


def read_parquet(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read the rows of a Parquet file; errors as for `read_table`."""
    with extra_for(f"{path}: Parquet files need", "parquet"):
        import pyarrow
        import pyarrow.parquet

    with library_errors(
        f"{path}: expected a Parquet file", (pyarrow.ArrowException, OSError, OverflowError, UnicodeDecodeError)
    ):
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
        check_columns(file.schema_arrow.names, path)
        row_groups = range(file.metadata.num_row_groups)
        check_growth(path, sum(file.metadata.row_group(number).total_byte_size for number in row_groups))
        cells = CellCount(path, MAX_RATIO * len(content))
        yield from rows_of(_records(file, path, columns=columns, cells=cells), path)


def _records(
    file: pyarrow.parquet.ParquetFile, path: Path, columns: Columns, cells: CellCount
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The places and the values of the rows; a row that holds objects may become several."""
    names = file.schema_arrow.names
    number = 0
    for batch in file.iter_batches(_AT_ONCE):
        values_by_column = [_values(batch[name], name, path=path) for name in names]
        for values in zip(*values_by_column, strict=True):
            number += 1
            place = f"{path}, row {number}"
            record = dict(zip(names, values, strict=True))
            for flat_record in _flat(record, place, columns=columns, cells=cells):
                yield place, flat_record


def _flat(record: dict[str, Any], place: str, columns: Columns, cells: CellCount) -> list[dict[str, Any]]:
    """A record as rows of texts; InputError if objects in it hold what is no question or answer."""
    for name, value in record.items():
        if _holds_objects(value):
            rows = rows_in_record(record, columns, cells=cells)
            if rows:
                return rows
            raise InputError(f"{place}: expected texts, numbers or lists of them in column {name!r}, found objects.")
    return [record]


def _holds_objects(value: Any) -> bool:
    """Whether a value is an object or a list of objects or lists."""
    if isinstance(value, list):
        return any(isinstance(part, (dict, list)) for part in value)
    return isinstance(value, dict)


def _values(column: pyarrow.Array, name: str, path: Path) -> list[Any]:
    """A column's values; texts as bytes, since a file may declare bytes that are not UTF-8 as text."""
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    is_list = types.is_list(kind) or types.is_large_list(kind)
    inner = kind.value_type if is_list else kind
    if types.is_date(inner) or types.is_timestamp(inner) or types.is_time(inner):
        inner = pyarrow.string()
    elif types.is_string(inner) or types.is_large_string(inner):
        inner = pyarrow.large_binary()
    elif types.is_struct(inner) or types.is_list(inner) or types.is_large_list(inner):
        return column.to_pylist()
    elif types.is_nested(inner) or types.is_duration(inner):
        raise InputError(f"{path}: expected texts, numbers or lists of them in column {name!r}, found {inner}.")
    target = pyarrow.large_list(inner) if is_list else inner
    return column.cast(target).to_pylist()
