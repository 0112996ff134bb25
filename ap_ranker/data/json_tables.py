"""Reads tables in JSON and YAML: an object a line, arrays of objects, and what systems put around these."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
    first_names: dict[str, None] = {}
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
            if not first_names:
                first_names = dict.fromkeys(fields)
                is_pair = _has_pair(fields, columns)
            missing = ", ".join(sorted(first_names.keys() - fields.keys()))
            if missing and not is_pair:
                raise InputError(f"{place}: expected the fields of the first line, found none of {missing}.")
            all_fields = dict.fromkeys(first_names) | fields  # `None` where it has none
            yield row_of(all_fields, place)


def read_json(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read the objects of arrays, at any depth; those around give them their own fields. Errors as `read_table`."""
    text = decode(content, path)
    if _is_lines(text):
        yield from read_jsonl(content, path, columns=columns)
        return
    with library_errors(f"{path}: expected {ARRAY}, found invalid JSON", (ValueError, RecursionError)):
        value = _loads(text)
        yield from _rows_in(value, path, columns=columns, cells=CellCount(path, len(content)))


def read_yaml_table(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read YAML as JSON is read; its values are texts, such as "No". Errors as `read_table`."""
    value = parse_yaml_texts(decode(content, path), path)
    with library_errors(f"{path}: expected {ARRAY}", (RecursionError,)):
        yield from _rows_in(value, path, columns=columns, cells=CellCount(path, len(content)))


OBJECT = 'a JSON object, such as {"question": "...", "answer": "..."}'
ARRAY = 'an array of JSON objects, such as [{"question": "...", "answer": "..."}]'


def rows_in_record(record: Fields, columns: Columns, cells: CellCount) -> list[Fields]:
    """The rows in one record of a file of another format, whose values may be objects; none if it holds no pair."""
    return list(_Walk(columns, cells).rows(record, {}))


def _rows_in(value: Any, path: Path, columns: Columns, cells: CellCount) -> Iterator[Row]:
    records = list(_Walk(columns, cells).rows(value, {})) or list(_objects(value, {}, cells=cells))
    names: dict[str, None] = {}
    for number, record in enumerate(records, start=1):
        check_columns(list(record), f"{path}, entry {number}")
        names.update(dict.fromkeys(record))
    yield from rows_of(_with_all_fields(records, names, path=path), path)


def _with_all_fields(records: Iterable[Fields], names: Iterable[str], path: Path) -> Iterator[tuple[str, Fields]]:
    """The place of each record, and its values of all these names, `None` where it has none."""
    for number, record in enumerate(records, start=1):
        yield f"{path}, entry {number}", dict.fromkeys(names) | record


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
            for turn in turns(values):
                yield self._joined(around, turn)
            return
        rows_of_values = [list(self.rows(value, around)) for value in values]
        names = self._pair_of_first(rows_of_values)
        for value, rows in zip(values, rows_of_values, strict=True):
            if rows:
                yield from rows
            elif names and isinstance(value, dict):  # unfinished, as others of the list are rows
                own_fields, _ = self._split(value)
                yield self._joined(around, own_fields)
            elif names and is_single(value) and value not in (None, ""):
                yield self._joined(around, {names[0]: value})

    def _rows_of_object(self, value: Fields, around: Fields) -> Iterator[Fields]:
        if is_rasa(value):
            for intent in rasa_intents(value):
                self._cells.add(intent["responses"])  # which many intents may share
                yield intent
            return
        if is_corpus(value):
            for pair in corpus_pairs(value):
                yield self._joined(around, pair)
            return
        if _has_questions_as_names(value):
            for question, answer in value.items():
                yield self._joined(around, {"question": question, "answer": answer})
            return
        own_fields, nested = self._split(value)
        whole = self._joined(around, own_fields)
        if self._holds_pair(whole):
            yield whole
            yield from self._pairs_within(nested.values(), whole)
            return
        rows_of_nested = [list(self.rows(part, whole)) for part in nested.values()]
        names = self._pair_of_first(rows_of_nested)
        for part, rows in zip(nested.values(), rows_of_nested, strict=True):
            yield from rows
            if not rows and names and isinstance(part, dict):
                fields, _ = self._split(part)
                if any(fields.get(name) for name in names):  # unfinished, as others beside it are rows
                    yield self._joined(whole, fields)

    def _pairs_within(self, values: Iterable[Any], row: Fields) -> Iterator[Fields]:
        """The rows within a row that hold a pair of their own; of the row around them, they have what is no text."""
        around = {name: text for name, text in row.items() if not has_role(name, self._columns)}
        for value in values:
            for inner_row in self.rows(value, around):
                if self._holds_pair(inner_row):
                    yield inner_row

    def _pair_of_first(self, rows_of_values: Iterable[list[Fields]]) -> tuple[str, ...]:
        """The names of question and answer in the first row of all; empty if there is no row."""
        for rows in rows_of_values:
            if rows:
                return self._pair(rows[0])
        return ()

    def _joined(self, around: Fields, own_fields: Fields) -> Fields:
        """The fields of a row with those around it, which each row has again."""
        joined = around | own_fields
        self._cells.add(joined)
        return joined

    def _split(self, value: Fields) -> tuple[Fields, Fields]:
        """The fields of an object that are texts, and those that are objects of their own."""
        own_fields: Fields = {}
        nested: Fields = {}
        for name, part in value.items():
            is_plain = is_single(part) or (isinstance(part, list) and all(map(is_single, part)))
            texts = part if is_plain else None
            if texts is None and self._may_be_text(name, part):
                texts = texts_of(part)  # also of null, which becomes an empty text
            if isinstance(texts, dict):
                for language, text in texts.items():
                    own_fields[f"{name}.{language}"] = text
            elif is_plain or texts is not None:
                own_fields[name] = texts
            else:
                nested[name] = part
        return own_fields, nested

    def _may_be_text(self, name: str, value: Any) -> bool:
        """Whether a field holds a question, an answer, wordings or a category, perhaps as an object."""
        if not has_role(name, self._columns):
            return False
        if is_category(name) and not _is_flat(value):
            return False
        return not (isinstance(value, list) and is_chat(value))

    def _holds_pair(self, fields: Fields) -> bool:
        return _has_pair(fields, self._columns)

    def _pair(self, fields: Fields) -> tuple[str, ...]:
        """The names of a row's question and answer."""
        if self._columns is not None:
            return self._columns
        names = list(fields)
        places = find_pair(map(base_name, names))
        return tuple(names[place] for place in places)


def _is_flat(value: Any) -> bool:
    """Whether a value is an object with nothing within it, such as a category {"id": 1, "name": "Parcels"}."""
    return isinstance(value, dict) and all(map(is_single, value.values()))


def _has_questions_as_names(value: Fields) -> bool:
    """Whether an object's names are questions, which its values answer."""
    if not value:
        return False
    has_only_texts = all(isinstance(text, str) for text in value.values())
    return has_only_texts and all(name.endswith(QUESTION_MARKS) for name in value)


def _flat(record: Fields) -> Fields:
    """A record without a pair, with the fields of objects in it by the names of both."""
    flat: Fields = {}
    for name, value in record.items():
        if value and _is_flat(value):
            for inner_name, inner_value in value.items():
                flat[f"{name}.{inner_name}"] = inner_value
        else:
            flat[name] = value
    return flat


def _objects(value: Any, around: Fields, cells: CellCount) -> Iterator[Fields]:
    """The innermost objects of a value without recognized questions and answers, with the fields of those around."""
    if isinstance(value, dict):
        own_fields: Fields = {}
        nested: list[Any] = []
        for name, part in value.items():
            if part == {}:
                continue
            content = _as_text(name, part)
            if isinstance(content, dict) or _is_table(content):
                nested.append(content)
            else:
                own_fields[name] = content
        around = around | own_fields
        if not nested:
            cells.add(around)
            yield around
            return
        value = nested
    if not isinstance(value, list):
        raise InputError(f"{cells.path}: expected {ARRAY}, found {type(value).__name__}.")
    for part in value:
        yield from _objects(part, around, cells=cells)


def _as_text(name: str, value: Any) -> Any:
    """A value of a title or a body that is an object for one text, such as {"value": "<p>Yes</p>"}, as that text."""
    if isinstance(value, dict) and has_role(name) and not is_category(name):
        text = texts_of(value)
        if is_single(text) and text is not None:
            return text
    return value


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(record, dict) for record in value)


def _loads(text: str) -> Any:
    """Numbers stay texts: Python does not parse an id of 5,000 digits. NaN is refused by `as_text`."""
    return json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=_no_name_twice)


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        [(name, _)] = counts.most_common(1)
        raise ValueError(f"the field {name!r} twice")
    return record
