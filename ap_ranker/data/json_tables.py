"""Reads tables in JSON: an object a line, or arrays of objects."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ap_ranker.data.column_names import find_pair
from ap_ranker.data.dataset import QUESTION_MARKS
from ap_ranker.data.rows import Row, as_text, check_columns, rows_of
from ap_ranker.errors import InputError, library_errors, told_at
from ap_ranker.safe_open import decode


def read_jsonl(content: bytes, path: Path) -> Iterator[Row]:
    """Read one object a line; errors as `read_table`."""
    columns: set[str] = set()
    for i, line in enumerate(decode(content, path).split("\n"), start=1):
        if line.strip():
            place = f"{path}, line {i}"
            with library_errors(f"{place}: expected {OBJECT}, found invalid JSON", (ValueError, RecursionError)):
                record = _loads(line)
            if not isinstance(record, dict):
                raise InputError(f"{place}: expected {OBJECT}, found {type(record).__name__}.")
            check_columns(list(record), place)
            columns = columns or set(record)
            if missing := ", ".join(sorted(columns - set(record))):
                raise InputError(f"{place}: expected the fields of the first line, missing {missing}.")
            yield Row({key: as_text(value, key, place) for key, value in record.items()}, place)


def read_json(content: bytes, path: Path) -> Iterator[Row]:
    """Read the objects of arrays, at any depth; those around give them their own fields. Errors as `read_table`."""
    text = decode(content, path)
    if _is_lines(text):
        yield from read_jsonl(content, path)
        return
    with library_errors(f"{path}: expected {ARRAY}, found invalid JSON", (ValueError, RecursionError)):
        value = _loads(text)
        with told_at(path):
            records = list(_objects(value, {}))
    columns = dict.fromkeys(name for record in records for name in record)
    for i, record in enumerate(records, start=1):
        check_columns(list(record), f"{path}, entry {i}")
    values = ({name: record.get(name) for name in columns} for record in records)
    yield from rows_of(((f"{path}, entry {i}", each) for i, each in enumerate(values, start=1)), path)


OBJECT = 'a JSON object, such as {"question": "...", "answer": "..."}'
ARRAY = 'an array of JSON objects, such as [{"question": "...", "answer": "..."}]'


def _is_lines(text: str) -> bool:
    """Whether a text has an object a line: nothing follows the brace that ends the first one."""
    first, _, rest = text.strip().partition("\n")
    return first.startswith("{") and first.rstrip().endswith("}") and rest.lstrip().startswith("{")


def _objects(value: Any, around: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects that are rows: those with a question and an answer, theirs or around them, or with none in them.

    An object whose names are questions has a row for each of them.
    """
    if isinstance(value, dict):
        inner = [each for each in value.values() if isinstance(each, dict) or _is_table(each)]
        around = around | {name: each for name, each in value.items() if not any(each is one for one in inner)}
        if value and all(isinstance(text, str) and name.endswith(QUESTION_MARKS) for name, text in value.items()):
            yield from ({"question": question, "answer": answer} for question, answer in value.items())
            return
        if not inner or find_pair(around):
            yield around
            return
        value = inner
    if not isinstance(value, list):
        raise InputError(f"expected {ARRAY}, found {type(value).__name__}.")
    for each in value:
        yield from _objects(each, around)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _loads(text: str) -> Any:
    """Numbers stay texts: Python does not parse an id of 5,000 digits. NaN is refused by `as_text`."""
    return json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=_no_name_twice)


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the field {name!r} twice")
    return record
