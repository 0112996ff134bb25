"""Reads tables in JSON and YAML: an object a line, arrays of objects, and what systems put around these."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ap_ranker.data.chat_files import corpus_pairs, is_chat, is_corpus, is_rasa, rasa_intents, turns
from ap_ranker.data.column_names import base_name, find_pair, has_role, is_category, named_pair
from ap_ranker.data.dataset import QUESTION_MARKS
from ap_ranker.data.json_values import is_single, texts_of
from ap_ranker.data.rows import CellCount, Columns, Row, check_columns, row_of, rows_of
from ap_ranker.errors import InputError, library_errors
from ap_ranker.safe_open import decode, parse_yaml_texts

Fields = dict[str, Any]
"""What a row of a table holds: texts, numbers and lists of these, by name."""


def read_jsonl(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read one object a line; errors as `read_table`."""
    known: dict[str, None] = {}
    is_pair = False
    cells = CellCount(path, len(content))
    for i, line in enumerate(decode(content, path).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {i}"
        with library_errors(f"{place}: expected {OBJECT}, found invalid JSON", (ValueError, RecursionError)):
            record = _loads(line)
            if not isinstance(record, dict):
                raise InputError(f"{place}: expected {OBJECT}, found {type(record).__name__}.")
            rows = list(_Walk(columns, cells).rows(record, {})) or [_flat(record)]
        for fields in rows:
            check_columns(list(fields), place)
            if not known:
                known, is_pair = dict.fromkeys(fields), _has_pair(fields, columns)
            if not is_pair and (missing := ", ".join(sorted(known.keys() - fields.keys()))):
                raise InputError(f"{place}: expected the fields of the first line, found none of {missing}.")
            yield row_of({name: fields.get(name) for name in dict.fromkeys((*known, *fields))}, place)


def read_json(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read the objects of arrays, at any depth; those around give them their own fields. Errors as `read_table`."""
    text = decode(content, path)
    if _is_lines(text):
        yield from read_jsonl(content, path, columns)
        return
    with library_errors(f"{path}: expected {ARRAY}, found invalid JSON", (ValueError, RecursionError)):
        value = _loads(text)
        yield from _rows_in(value, path, columns, CellCount(path, len(content)))


def read_yaml_table(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read YAML as JSON is read; its values are texts, such as "No". Errors as `read_table`."""
    value = parse_yaml_texts(decode(content, path), path)
    with library_errors(f"{path}: expected {ARRAY}", (RecursionError,)):
        yield from _rows_in(value, path, columns, CellCount(path, len(content)))


OBJECT = 'a JSON object, such as {"question": "...", "answer": "..."}'
ARRAY = 'an array of JSON objects, such as [{"question": "...", "answer": "..."}]'


def rows_in_record(record: Fields, columns: Columns, cells: CellCount) -> list[Fields]:
    """The rows in one record of a file of another format, whose values may be objects; none if it holds no pair."""
    return list(_Walk(columns, cells).rows(record, {}))


def _rows_in(value: Any, path: Path, columns: Columns, cells: CellCount) -> Iterator[Row]:
    records = list(_Walk(columns, cells).rows(value, {})) or list(_objects(value, {}, cells))
    names = dict.fromkeys(name for record in records for name in record)
    for i, record in enumerate(records, start=1):
        check_columns(list(record), f"{path}, entry {i}")
    values = ({name: record.get(name) for name in names} for record in records)
    yield from rows_of(((f"{path}, entry {i}", each) for i, each in enumerate(values, start=1)), path)


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

    def __init__(self, columns: Columns, cells: CellCount) -> None:
        self._columns = columns
        self._cells = cells

    def rows(self, value: Any, around: Fields) -> Iterator[Fields]:
        """The rows in a value; `around` are the fields of the objects around it. None if nothing holds a pair."""
        if isinstance(value, list):
            yield from self._rows_of_list(value, around)
        elif isinstance(value, dict):
            yield from self._rows_of_object(value, around)

    def _rows_of_list(self, values: list[Any], around: Fields) -> Iterator[Fields]:
        if self._columns is None and is_chat(values):
            yield from (self._joined(around, turn) for turn in turns(values))
            return
        found = [list(self.rows(each, around)) for each in values]
        names = next((self._pair(rows[0]) for rows in found if rows), ())
        for each, rows in zip(values, found, strict=True):
            if rows:
                yield from rows
            elif names and isinstance(each, dict):  # unfinished, as others of the list are rows
                yield self._joined(around, self._split(each)[0])
            elif names and is_single(each) and each not in (None, ""):
                yield self._joined(around, {names[0]: each})

    def _rows_of_object(self, value: Fields, around: Fields) -> Iterator[Fields]:
        if is_rasa(value):
            for intent in rasa_intents(value):
                self._cells.add(intent["responses"])  # which many intents may share
                yield intent
            return
        if is_corpus(value):
            yield from (self._joined(around, pair) for pair in corpus_pairs(value))
            return
        if _has_questions_as_names(value):
            pairs = ({"question": question, "answer": answer} for question, answer in value.items())
            yield from (self._joined(around, pair) for pair in pairs)
            return
        own, nested = self._split(value)
        whole = self._joined(around, own)
        if self._holds_pair(whole):
            yield whole
            inner_around = {name: text for name, text in whole.items() if not has_role(name, self._columns)}
            for each in nested.values():
                yield from (row for row in self.rows(each, inner_around) if self._holds_pair(row))
            return
        found = {name: list(self.rows(each, whole)) for name, each in nested.items()}
        names = next((self._pair(rows[0]) for rows in found.values() if rows), ())
        for name, rows in found.items():
            each = nested[name]
            yield from rows
            if not rows and names and isinstance(each, dict):
                fields = self._split(each)[0]
                if any(fields.get(one) for one in names):  # unfinished, as others beside it are rows
                    yield self._joined(whole, fields)

    def _joined(self, around: Fields, own: Fields) -> Fields:
        """The fields of a row with those around it, which each row has again."""
        joined = around | own
        self._cells.add(joined)
        return joined

    def _split(self, value: Fields) -> tuple[Fields, Fields]:
        """The fields of an object that are texts, and those that are objects of their own."""
        own: Fields = {}
        nested: Fields = {}
        for name, each in value.items():
            is_plain = is_single(each) or (isinstance(each, list) and all(map(is_single, each)))
            texts = each if is_plain else None
            may_be_text = not (is_category(name) and not _is_flat(each)) and not (
                isinstance(each, list) and is_chat(each)
            )
            if texts is None and has_role(name, self._columns) and may_be_text:
                texts = texts_of(each)
            if isinstance(texts, dict):
                own |= {f"{name}.{language}": text for language, text in texts.items()}
            elif is_plain or texts is not None:
                own[name] = texts
            else:
                nested[name] = each
        return own, nested

    def _holds_pair(self, fields: Fields) -> bool:
        return _has_pair(fields, self._columns)

    def _pair(self, fields: Fields) -> tuple[str, ...]:
        """The names of a row's question and answer."""
        names = list(fields)
        if self._columns is not None:
            return self._columns
        return tuple(names[place] for place in find_pair([base_name(name) for name in names]))


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
            flat |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            flat[name] = value
    return flat


def _objects(value: Any, around: Fields, cells: CellCount) -> Iterator[Fields]:
    """The innermost objects of a value without questions and answers that are known; each has those around it."""
    if isinstance(value, dict):
        value = {name: _as_text(name, each) for name, each in value.items() if each != {}}
        inner = {name: each for name, each in value.items() if isinstance(each, dict) or _is_table(each)}
        around = around | {name: each for name, each in value.items() if name not in inner}
        if not inner:
            cells.add(around)
            yield around
            return
        value = [*inner.values()]
    if not isinstance(value, list):
        raise InputError(f"{cells.path}: expected {ARRAY}, found {type(value).__name__}.")
    for each in value:
        yield from _objects(each, around, cells)


def _as_text(name: str, value: Any) -> Any:
    """A value of a title or a body that is an object for one text, such as {"value": "<p>Yes</p>"}, as that text."""
    if isinstance(value, dict) and has_role(name) and not is_category(name):
        text = texts_of(value)
        if is_single(text) and text is not None:
            return text
    return value


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
