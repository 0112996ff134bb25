"""Reads tables: CSV, TSV, JSON, Parquet and spreadsheets; each row knows its place in the file.

Columns of questions and answers are recognized, whatever their case or language.
"""

from __future__ import annotations

import csv
import io
import itertools
import logging
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ap_ranker.data.column_names import FURTHER_WORDINGS, OF_FORMS, PAIRS, THEIR_TEXTS, TITLES, find_pair, plain
from ap_ranker.data.dataset import QUESTION_MARKS
from ap_ranker.data.excel import read_spreadsheet
from ap_ranker.data.json_tables import read_json, read_jsonl, read_yaml_table
from ap_ranker.data.parquet import read_parquet
from ap_ranker.data.rows import CellCount, Columns, Row, below_titles, named_rows
from ap_ranker.data.several_texts import entries_by_language, with_line_ends, with_lists
from ap_ranker.errors import InputError, one_line
from ap_ranker.files import unguarded
from ap_ranker.safe_open import MAX_RATIO, decode, open_file, require_file, save_as

logger = logging.getLogger(__name__)

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default refuses answers longer than 131,072 characters

KNOWN = ("question", "answer", "label", "qid", "aid", "answer_ids", "candidate_ids", "answerable")
"""The columns that a layout may have."""

PAIR = ("question", "answer")

LONGEST_NAMES = {"?": 15, "\uff1f": 5}
"""Question mark -> the length up to which a header that ends with it may be a name, such as "Your question?"."""

MOST_BY_LANGUAGE = 10
"""Times that a table may have more cells once each language of an entry is a row."""

OPTION = "--columns QUESTION,ANSWER"


@dataclass(frozen=True)
class Table:
    """All rows of a file; `written` has the names in the file of the columns that have been renamed."""

    path: Path
    columns: tuple[str, ...]
    rows: list[Row]
    written: Mapping[str, str] = field(default_factory=dict)

    @property
    def header(self) -> str:
        """The columns as the file names them, for messages."""
        return one_line(", ".join(self.written.get(column, column) for column in self.columns))

    @cached_property
    def alike(self) -> Mapping[str, Sequence[str]]:
        """A name as it is compared -> the columns with it, in order."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for column in self.columns:
            found[plain(column)].append(column)
        return dict(found)

    def renamed(self, names: Mapping[str, str]) -> Table:
        """Give columns new names; another column that has one of these already becomes `other NAME`."""
        changed = {old: new for old, new in names.items() if old != new}
        if not changed:
            return self
        new_names = {new: f"other {new}" for new in changed.values() if new not in names} | changed
        written = {new: old for old, new in new_names.items()}
        rows = [
            replace(
                row,
                fields={new_names.get(name, name): text for name, text in row.fields.items()},
                written=written,
                lists={new_names.get(name, name): texts for name, texts in row.lists.items()},
            )
            for row in self.rows
        ]
        return Table(self.path, tuple(new_names.get(column, column) for column in self.columns), rows, written)

    def require(self, *columns: str) -> None:
        """Raise an `InputError` if one of these columns is missing."""
        if missing := [column for column in columns if column not in self.columns]:
            raise InputError(f"{self.path}: expected a column {missing[0]!r}, found {self.header}.")


def file_format(path: Path) -> str:
    """The file's ending without `.gz`: one of `FORMATS` or an unknown one; Windows hides that of `FAQ.csv.txt`."""
    return Path(re.sub(r"(?<=\.[ct]sv)\.txt$|\.gz$", "", path.name)).suffix.lower()


def is_table(path: Path) -> bool:
    """Whether `read_table` can read the file, by its name."""
    return path.is_file() and file_format(path) in FORMATS


def read_table(path: Path, columns: Columns = None) -> Table:
    """Read a whole file; what it cannot be is an `InputError`, which names the file and the row.

    `columns` name those of questions and answers, which tell the rows of JSON from what stands around them.
    """
    require_file(path)
    reader = FORMATS.get(file_format(path))
    if reader is None:
        endings = f"{', '.join(FORMATS)} (or any of them with .gz)"
        raise InputError(f"{path}: expected a file ending in {endings}, found another ending.{save_as(path)}")
    with open_file(path) as file:
        content = file.read()
    rows = list(CellCount(path, _most_cells(content, path)).of(reader(content, path, columns)))
    if not rows:
        raise InputError(f"{path}: expected at least one row of data, found none.")
    return Table(path, tuple(rows[0].fields), with_line_ends(rows))


COMPRESSED = (".parquet", ".xlsx", ".xls", ".ods")
"""Endings of files whose cells may take less than a byte."""


def _most_cells(content: bytes, path: Path) -> int:
    """How many cells a file may hold: each takes a byte, unless it is compressed."""
    return len(content) * (MAX_RATIO if file_format(path) in COMPRESSED else 1)


def _read_delimited(content: bytes, path: Path, columns: Columns = None) -> Iterator[Row]:
    text, tabs = decode(content, path), file_format(path) == ".tsv"
    above = _ABOVE_HEADER.match(text)
    told, text = (above[0].count("\n"), text[above.end() :]) if above else (0, text)
    delimiter = "\t" if tabs else _delimiter(text, path)
    plain = tabs and not _has_quoted_fields(text)
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL,
        skipinitialspace=not plain and _has_spaced_fields(text, f'{delimiter} "'),
        strict=not plain,
    )
    try:
        records = ((told + reader.line_num, [*map(unguarded, record)]) for record in reader)
        for place, fields in named_rows(records, str(path), "line", "" if plain else delimiter, columns):
            yield Row(fields, place)
    except csv.Error as error:
        found = f"not a valid record ({error}). Close all quotation marks, and write one inside a text twice."
        raise InputError(f"{path}, line {told + reader.line_num}: {found}") from error


_ABOVE_HEADER = re.compile(r'(?:"?sep=[,;\t|]"?[,;\t|]*\r?\n)?(?:(?:[ ,;\t|]|"")*\r?\n)*', re.IGNORECASE)
"""What some programs write to tell Excel what separates the fields, which the header tells, too; rows left empty."""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""What separates the fields of a CSV file: Excel writes semicolons where a comma is the decimal point."""


def _delimiter(text: str, path: Path) -> str:
    """What separates the names of the columns; raises `InputError` if several of `_DELIMITERS` do."""
    readers = {each: csv.reader(io.StringIO(text[: 2**17], newline=""), delimiter=each) for each in _DELIMITERS}
    tops = {each: next(below_titles(enumerate(reader))[1], (0, []))[1] for each, reader in readers.items()}
    found = [each for each, top in tops.items() if find_pair(top)] or [each for each in tops if len(tops[each]) > 1]
    if len(found) > 1:
        kinds = " and ".join(_DELIMITERS[character] for character in found)
        raise InputError(
            f"{path}, line 1: expected names of columns separated by commas, semicolons, tabs or bars, found {kinds}. "
            "Put a name that has one of them in quotation marks."
        )
    return found[0] if found else ","


def _has_quoted_fields(text: str) -> bool:
    """Whether a tab-separated text is to be read as CSV: its quoted fields may hold tabs, line ends and doubled marks.

    Of both readings, the one in which more records fit the header is right. Where all fit in both, no field holds a tab
    or a line end; then quoted fields are known by a doubled mark, or by a quoted header, if no mark stands elsewhere:
    `5" pipe`, `"Gap" refers to` and even `"open`, closed in a later row, are texts.
    """
    if '"' not in text:
        return False
    plain, quoted = _fitting_lines(text, quoting=csv.QUOTE_NONE), _fitting_lines(text)
    if quoted != plain or plain < math.inf:
        return quoted > plain
    marked = [field for field in re.split(r"[\t\r\n]", text) if '"' in field]
    header = re.split(r"[\r\n]", text, maxsplit=1)[0]
    is_quoted = re.compile(r'"(?:[^"]|"")*"').fullmatch
    return all(map(is_quoted, marked)) and ('"' in header or any('""' in field[1:-1] for field in marked))


def _has_spaced_fields(text: str, spaced: str) -> bool:
    """Whether fields are quoted behind a space (`"Gap", "In mm, or so"`): the header's, or so more records fit it."""
    if spaced not in text:
        return False
    by_header = spaced in re.split(r"[\r\n]", text, maxsplit=1)[0]
    return by_header or _fitting_lines(text, spaced[0], skipinitialspace=True) > _fitting_lines(text, spaced[0])


def _fitting_lines(text: str, delimiter: str = "\t", **reading: Any) -> float:
    """Number of the last line before the first record that does not fit the header; infinite if all fit."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, **reading)
    last, widths = 0, set[int]()
    with suppress(csv.Error):
        for record in reader:
            if not widths and len(record) < 2:  # a title
                continue
            named = [place for place, name in enumerate(record, start=1) if name.strip()]
            widths = widths or {len(record), *named[-1:]}  # empty names at the end are none
            if any(record) and len(record) not in widths:
                return last
            last = reader.line_num
        return math.inf
    return last


FORMATS: dict[str, Callable[[bytes, Path, Columns], Iterator[Row]]] = {
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".jsonl": read_jsonl,
    ".json": read_json,
    **dict.fromkeys((".yml", ".yaml"), read_yaml_table),
    ".parquet": read_parquet,
    **dict.fromkeys((".xlsx", ".xls", ".ods"), read_spreadsheet),
}
"""Ending of a table's name -> its reader."""


def read_named_table(path: Path, columns: Columns = None) -> Table:
    """Read a table as `read_table` does; `columns` and errors as for `name_columns`."""
    return name_columns(read_table(path, columns), columns)


def read_columns(path: Path, *required: str) -> Table:
    """Read a table whose columns have names of `KNOWN`; InputError if one of these is missing."""
    table = name_columns(read_table(path), guess=False)
    table.require(*required)
    return table


def name_columns(table: Table, columns: Columns = None, *, guess: bool = True) -> Table:
    """Rename the columns of a table to the names of `KNOWN`.

    `columns` are its columns of questions and answers; by default they are recognized. With `guess`, the two columns of
    a table that has no others are taken for these. InputError if a name is missing or fits several columns.
    """
    if columns is not None:
        named = [_find(table, name) for name in columns]
        if not all(named):
            found = f"found no {columns[named.index('')]!r} in {table.header}"
            raise InputError(f"{table.path}: expected the columns {_listed(columns)} that --columns names, {found}.")
        return _finished(table.renamed(dict(zip(named, PAIR, strict=True))))
    every = dict.fromkeys(name for row in table.rows for name in row.fields)  # later records of JSON may have more
    cells = CellCount(table.path, MOST_BY_LANGUAGE * sum(len(row.fields) for row in table.rows))
    if rows := list(cells.of(entries_by_language([*every], table.rows))):
        table = Table(table.path, tuple(dict.fromkeys(name for row in rows for name in row.fields)), rows)
    written = {name: column for name in KNOWN if (column := _find(table, name))}
    if not set(PAIR) <= written.keys():
        in_other_words = ([_find(table, *names) for names in pair] for pair in PAIRS)
        pair = next(filter(all, in_other_words), None) or _titles_that_ask(table)
        pair = pair or _only_two(table, written, guess=guess)
        written |= dict(zip(PAIR, pair, strict=True)) if pair else {}
    others = {plain(column): column for column in table.columns if column not in written.values()}
    for words in PAIRS if {*PAIR} <= written.keys() else ():  # in another language, perhaps
        if all(other := [next((others[name] for name in names if name in others), "") for names in words]):
            advice = f"--columns {one_line(','.join(other))} takes those instead"
            logger.info("%s: %s are read; %s.", table.path, _listed(written[name] for name in PAIR), advice)
    names = {column: name for name, column in written.items()}
    return _finished(table.renamed(names | _further_wordings(table, written)))


def _further_wordings(table: Table, written: Mapping[str, str]) -> dict[str, str]:
    """Columns of further wordings, such as "Question 2" beside "Question", with names of `WORDING_COLUMNS`."""
    if not {*PAIR} <= written.keys():
        return {}
    question = re.escape(plain(written["question"]))
    others = [column for column in table.columns if column not in written.values()]
    further = [
        column
        for column in others
        if plain(column) in FURTHER_WORDINGS or re.fullmatch(rf"{question}[ _-]?\d+", plain(column))
    ]
    known = set(table.columns)
    free = (name for name in (f"wording {i}" for i in itertools.count(2)) if name not in known)
    return dict(zip(further, free, strict=False))


def _titles_that_ask(table: Table) -> tuple[str, str] | None:
    """The columns of titles and their texts, if most titles are questions."""
    for title, text in itertools.product(TITLES, THEIR_TEXTS):
        names = [table.alike.get(name, [""])[0] for name in (title, text)]
        if all(names):
            asked = sum(row.get(names[0]).endswith(QUESTION_MARKS) for row in table.rows)
            if 2 * asked > len(table.rows):
                return names[0], names[1]
    return None


def _finished(table: Table) -> Table:
    """The table with lists of questions as wordings, if it holds pairs, and with questions."""
    if {*PAIR} <= {*table.columns} and any(row.lists for row in table.rows):
        rows = with_lists(table.rows, table.written.get("answer", "answer"), str(table.path))
        columns = dict.fromkeys((*table.columns, *(name for row in rows for name in row.fields)))
        table = Table(table.path, tuple(columns), rows, table.written)
    return _with_questions(table)


def _with_questions(table: Table) -> Table:
    """The table, unless its questions are numbers or dates: then the column is another one."""
    if len(table.rows) > 1 and all(_NUMBERS.fullmatch(row.get("question")) for row in table.rows):
        found = f"numbers such as {one_line(repr(table.rows[0].get('question')))}"
        column = repr(table.written.get("question", "question"))
        raise InputError(f"{table.path}: expected questions in column {column}, found {found}. Name yours: {OPTION}.")
    return table


_NUMBERS = re.compile(r"[\d\s.,:/+-]+")


def _find(table: Table, *names: str) -> str:
    """The column of the first of these names that there is, but for case and marks around it; empty if there is none.

    Of several that differ only so, that with exactly the name; without one, InputError.
    """
    for name in names:
        similar = table.alike.get(plain(name), ())
        if name in similar:
            return name
        if len(similar) > 1:
            advice = f"Rename one, or choose: {OPTION}."
            raise InputError(f"{table.path}: expected one column {name!r}, found {_listed(similar)}. {advice}")
        if similar:
            return similar[0]
    return ""


def _only_two(table: Table, written: dict[str, str], *, guess: bool) -> tuple[str, str] | None:
    """The two columns of a table that has no others but those of a form; `None` if a name says what one holds."""
    columns = [column for column in table.columns if plain(column) not in OF_FORMS]
    is_form = len(columns) < len(table.columns)  # its columns are called as it asks
    others = any(len(row.fields) != len(table.columns) for row in table.rows)  # later records of JSON may have more
    if len(columns) != len(PAIR) or others or written.keys() - {"question"} or not (guess or is_form):
        return None
    question, answer = columns
    if written.get("question") == answer:
        question, answer = answer, question
    marks = [mark for mark in LONGEST_NAMES if question.endswith(mark)]
    if not is_form and any(len(question) > LONGEST_NAMES[mark] or answer.endswith(mark) for mark in marks):
        raise InputError(
            f"{table.path}: expected the names of the columns first, found the question {one_line(repr(question))}. "
            "Write a line above it: question,answer"
        )
    both = _listed((question, answer))
    logger.info("%s: its only two columns, %s, are taken as question and answer.", table.path, both)
    return question, answer


def _listed(names: Iterable[str]) -> str:
    return " and ".join(one_line(repr(name)) for name in names)
