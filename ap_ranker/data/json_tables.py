"""Reads tables in JSON and YAML: an object a line, arrays of objects, and what systems put around these."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ap_ranker.data.chat_files import corpus_pairs, is_chat, is_corpus, is_rasa, rasa_intents, turns
from ap_ranker.data.column_names import base_name, find_pair, has_role, is_category, named_pair
from ap_ranker.data.dataset import QUESTION_MARKS
from ap_ranker.data.json_values import is_single, texts_of
from ap_ranker.data.rows import Columns, Row, check_columns, row_of, rows_of
from ap_ranker.errors import InputError, library_errors, told_at
from ap_ranker.safe_open import decode, parse_yaml_texts

Fields = dict[str, Any]
"""What a row of a table holds: texts, numbers and lists of these, by name."""


def read_jsonl(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read one object a line; errors as `read_table`."""
    columns_so_far: dict[str, None] = {}
    is_pair = False
    for i, line in enumerate(decode(content, path).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {i}"
        with library_errors(f"{place}: expected {OBJECT}, found invalid JSON", (ValueError, RecursionError)):
            record = _loads(line)
            if not isinstance(record, dict):
                raise InputError(f"{place}: expected {OBJECT}, found {type(record).__name__}.")
            rows = list(_Walk(columns).rows(record, {})) or [_flat(record)]
        for fields in rows:
            check_columns(list(fields), place)
            if not columns_so_far:
                columns_so_far = dict.fromkeys(fields)
                is_pair = _has_pair(fields, columns)
            if not is_pair and (missing := ", ".join(sorted(columns_so_far.keys() - fields.keys()))):
                raise InputError(f"{place}: expected the fields of the first line, found none of {missing}.")
            yield row_of({name: fields.get(name) for name in dict.fromkeys((*columns_so_far, *fields))}, place)


def read_json(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read the objects of arrays, at any depth; those around give them their own fields. Errors as `read_table`."""
    text = decode(content, path)
    if _is_lines(text):
        yield from read_jsonl(content, path, columns)
        return
    with library_errors(f"{path}: expected {ARRAY}, found invalid JSON", (ValueError, RecursionError)):
        value = _loads(text)
        yield from _rows_in(value, path, columns)


def read_yaml_table(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read YAML as JSON is read; its values are texts, such as "No". Errors as `read_table`."""
    value = parse_yaml_texts(decode(content, path), path)
    with library_errors(f"{path}: expected {ARRAY}", (RecursionError,)):
        yield from _rows_in(value, path, columns)


OBJECT = 'a JSON object, such as {"question": "...", "answer": "..."}'
ARRAY = 'an array of JSON objects, such as [{"question": "...", "answer": "..."}]'


def rows_in_record(record: Fields, columns: Columns) -> list[Fields]:
    """The rows in one record of a file of another format, whose values may be objects; none if it holds no pair."""
    return list(_Walk(columns).rows(record, {}))


def _rows_in(value: Any, path: Path, columns: Columns) -> Iterator[Row]:
    with told_at(path):
        records = list(_Walk(columns).rows(value, {})) or list(_objects(value, {}))
    names = dict.fromkeys(chain.from_iterable(records))
    for i, record in enumerate(records, start=1):
        check_columns(list(record), f"{path}, entry {i}")

    def complete_entries() -> Iterator[tuple[str, Fields]]:
        for i, record in enumerate(records, start=1):
            yield f"{path}, entry {i}", {name: record.get(name) for name in names}

    yield from rows_of(complete_entries(), path)


def _is_lines(text: str) -> bool:
    """Whether a text has an object a line: nothing follows the brace that ends the first one."""
    first, _, rest = text.strip().partition("\n")
    return first.startswith("{") and first.rstrip().endswith("}") and rest.lstrip().startswith("{")


def _has_pair(names: Sequence[str] | Fields, columns: Columns) -> bool:
    """Whether names are those of a question and an answer, perhaps with a language behind."""
    bases = [base_name(name) for name in names]
    if columns is not None:
        return named_pair([*names, *bases], columns)
    return bool(find_pair(bases))


class _Walk:
    """Finds the rows of a value: the objects that hold question and answer, whatever stands around and beside them."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def rows(self, value: Any, around: Fields) -> Iterator[Fields]:
        """The rows in a value; `around` are the fields of the objects around it. None if nothing holds a pair."""
        if isinstance(value, list):
            yield from self._rows_of_list(value, around)
        elif isinstance(value, dict):
            yield from self._rows_of_object(value, around)

    def _rows_of_list(self, values: list[Any], around: Fields) -> Iterator[Fields]:
        if self._columns is None and is_chat(values):
            yield from (around | turn for turn in turns(values))
            return
        rows_of_values = [list(self.rows(inner, around)) for inner in values]
        names = next((self._pair(rows[0]) for rows in rows_of_values if rows), ())
        for inner, rows in zip(values, rows_of_values, strict=True):
            if rows:
                yield from rows
            elif names and isinstance(inner, dict):  # unfinished, as others of the list are rows
                yield around | self._split(inner)[0]
            elif names and is_single(inner) and inner not in (None, ""):
                yield around | {names[0]: inner}

    def _rows_of_object(self, value: Fields, around: Fields) -> Iterator[Fields]:
        if is_rasa(value):
            yield from rasa_intents(value)
            return
        if is_corpus(value):
            yield from (around | pair for pair in corpus_pairs(value))
            return
        if _has_questions_as_names(value):
            yield from (around | {"question": question, "answer": answer} for question, answer in value.items())
            return
        own, nested = self._split(value)
        whole = around | own
        if self._holds_pair(whole):
            yield whole
            inner_around = {name: text for name, text in whole.items() if not has_role(name, self._columns)}
            for inner in nested.values():
                yield from (row for row in self.rows(inner, inner_around) if self._holds_pair(row))
            return
        rows_of_fields = {name: list(self.rows(inner, whole)) for name, inner in nested.items()}
        names = next((self._pair(rows[0]) for rows in rows_of_fields.values() if rows), ())
        for name, rows in rows_of_fields.items():
            inner = nested[name]
            yield from rows
            if not rows and names and isinstance(inner, dict):
                fields = self._split(inner)[0]
                if any(fields.get(column) for column in names):  # unfinished, as others beside it are rows
                    yield whole | fields

    def _split(self, value: Fields) -> tuple[Fields, Fields]:
        """The fields of an object that are texts, and those that are objects of their own."""
        own: Fields = {}
        nested: Fields = {}
        for name, inner in value.items():
            is_plain = is_single(inner) or (isinstance(inner, list) and all(map(is_single, inner)))
            texts = inner if is_plain else None
            may_be_text = not (is_category(name) and not _is_flat(inner)) and not (
                isinstance(inner, list) and is_chat(inner)
            )
            if texts is None and has_role(name, self._columns) and may_be_text:
                texts = texts_of(inner)
            if isinstance(texts, dict):
                own |= {f"{name}.{language}": text for language, text in texts.items()}
            elif is_plain or texts is not None:
                own[name] = texts
            else:
                nested[name] = inner
        return own, nested

    def _holds_pair(self, fields: Fields) -> bool:
        return _has_pair(fields, self._columns)

    def _pair(self, fields: Fields) -> tuple[str, ...]:
        """The names of a row's question and answer."""
        names = list(fields)
        if self._columns is not None:
            return self._columns
        return tuple(names[place] for place in find_pair(map(base_name, names)))


def _is_flat(value: Any) -> bool:
    """Whether a category is an object of its own, such as {"id": 1, "name": "Parcels"}, and nothing is within it."""
    return isinstance(value, dict) and all(map(is_single, value.values()))


def _has_questions_as_names(value: Fields) -> bool:
    """Whether an object's names are questions, which its values answer."""
    return bool(value) and all(isinstance(text, str) and name.endswith(QUESTION_MARKS) for name, text in value.items())


def _flat(record: Fields) -> Fields:
    """A record without a pair, with the fields of objects in it by the names of both."""
    flat: Fields = {}
    for name, value in record.items():
        if isinstance(value, dict) and value and all(map(is_single, value.values())):
            flat |= {f"{name}.{inner}": inner_value for inner, inner_value in value.items()}
        else:
            flat[name] = value
    return flat


def _objects(value: Any, around: Fields) -> Iterator[Fields]:
    """The innermost objects of a value without questions and answers that are known; each has those around it."""
    if isinstance(value, dict):
        inner: list[Any] = []
        around = dict(around)
        for name, field in value.items():
            if field == {}:
                continue
            text = _as_text(name, field)
            if isinstance(text, dict) or _is_table(text):
                inner.append(text)
            else:
                around[name] = text
        if not inner:
            yield around
            return
        value = inner
    if not isinstance(value, list):
        raise InputError(f"expected {ARRAY}, found {type(value).__name__}.")
    for entry in value:
        yield from _objects(entry, around)


def _as_text(name: str, value: Any) -> Any:
    """A value of a title or a body that is an object for one text, such as {"value": "<p>Yes</p>"}, as that text."""
    if isinstance(value, dict) and has_role(name) and not is_category(name):
        text = texts_of(value)
        if is_single(text) and text is not None:
            return text
    return value


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _loads(text: str) -> Any:
    """Numbers stay texts: Python does not parse an id of 5,000 digits. NaN is refused by `as_text`."""
    return json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=_no_name_twice)


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the field {name!r} twice")
    return record
