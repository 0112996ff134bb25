"""Reads tables: CSV, TSV, JSON, Parquet and spreadsheets; each row knows its place in the file.

Columns of questions and answers are recognized, whatever their case or language.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from ap_ranker.data.column_names import FURTHER_WORDINGS, OF_FORMS, PAIRS, THEIR_TEXTS, TITLES, is_entry, plain
from ap_ranker.data.dataset import QUESTION_MARKS
from ap_ranker.data.delimited import read_csv, read_tsv
from ap_ranker.data.excel import read_spreadsheet
from ap_ranker.data.json_tables import read_json, read_jsonl, read_yaml_table
from ap_ranker.data.parquet import read_parquet
from ap_ranker.data.rows import WORDING_COLUMNS, CellCount, Columns, Row
from ap_ranker.data.several_texts import entries_by_language, with_line_ends, with_lists
from ap_ranker.errors import InputError, one_line
from ap_ranker.safe_open import MAX_RATIO, open_file, require_file, save_as

logger = logging.getLogger(__name__)

T = TypeVar("T")

KNOWN = ("question", "answer", "label", "qid", "aid", "answer_ids", "candidate_ids", "answerable")
"""The columns that a layout may have."""

PAIR = ("question", "answer")
"""The columns of a FAQ."""

MOST_BY_LANGUAGE = 10
"""The maximum growth of a table's number of cells when each language of an entry becomes a row."""

COLUMNS_OPTION = "--columns QUESTION,ANSWER"
"""The option that names the columns of questions and answers, as messages advise it."""

COMPRESSED = (".parquet", ".xlsx", ".xls", ".ods")
"""Endings of files whose cells may take less than a byte."""

_NUMBERS = re.compile(r"[\d\s.,:/+-]+")
"""Numbers and dates, which are no questions."""


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
        columns_of: defaultdict[str, list[str]] = defaultdict(list)
        for column in self.columns:
            columns_of[plain(column)].append(column)
        return dict(columns_of)

    def renamed(self, names: Mapping[str, str]) -> Table:
        """Give columns new names; another column that has one of these already becomes `other NAME`.

        If there is an `other NAME`, too, it becomes `other NAME 2`, and so on.
        """
        changed = {old: new for old, new in names.items() if old != new}
        if not changed:
            return self
        new_names = dict(changed)
        taken = set(self.columns).union(changed.values())
        for new in changed.values():
            if new in self.columns and new not in names:
                new_names[new] = _free_name(f"other {new}", taken)
                taken.add(new_names[new])
        written = {new: old for old, new in new_names.items()}
        columns = tuple(new_names.get(column, column) for column in self.columns)
        rows = []
        for row in self.rows:
            fields = _with_new_names(row.fields, new_names)
            lists = _with_new_names(row.lists, new_names)
            rows.append(replace(row, fields=fields, written=written, lists=lists))
        return Table(self.path, columns, rows=rows, written=written)

    def require(self, *columns: str) -> None:
        """Raise an `InputError` if one of these columns is missing."""
        for column in columns:
            if column not in self.columns:
                raise InputError(f"{self.path}: expected a column {column!r}, found {self.header}.")


def _free_name(name: str, taken: Container[str]) -> str:
    """The first of `NAME`, `NAME 2`, `NAME 3` ... that is not taken."""
    free_name = name
    number = 1
    while free_name in taken:
        number += 1
        free_name = f"{name} {number}"
    return free_name


def _with_new_names(values: Mapping[str, T], new_names: Mapping[str, str]) -> dict[str, T]:
    return {new_names.get(name, name): value for name, value in values.items()}


def file_format(path: Path) -> str:
    """The file's ending in small letters, without `.gz`: one of `FORMATS`, or another one.

    Of `FAQ.csv.txt` it is `.csv`: Windows hides the last ending, and its editor adds one.
    """
    name = path.name.lower().removesuffix(".gz")
    return Path(re.sub(r"(?<=\.[ct]sv)\.txt$", "", name)).suffix


def is_table(path: Path) -> bool:
    """Whether `read_table` can read the file, by its name."""
    return path.is_file() and file_format(path) in FORMATS


def read_table(path: Path, columns: Columns = None) -> Table:
    """Read a whole file.

    `columns` name those of questions and answers, which tell the rows of JSON from what stands around them.

    Raises:
        InputError: the file cannot be read as its ending says; names the file and the row.
    """
    require_file(path)
    reader = FORMATS.get(file_format(path))
    if reader is None:
        endings = f"{', '.join(FORMATS)} (or any of them with .gz)"
        advice = save_as(path) or " Save it as one of these."
        raise InputError(f"{path}: expected a file ending in {endings}, found another ending.{advice}")
    with open_file(path) as file:
        content = file.read()
    cells = CellCount(path, _most_cells(content, path))
    rows = list(cells.of(reader(content, path, columns)))
    if not rows:
        raise InputError(
            f"{path}: expected at least one row of data, found none. Write one below the names of the columns."
        )
    return Table(path, tuple(_names_of_fields(rows)), rows=with_line_ends(rows))


def _names_of_fields(rows: Iterable[Row]) -> dict[str, None]:
    """The names that any row has, in order: later records of JSON may have more than the first one."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row.fields))
    return names


def _most_cells(content: bytes, path: Path) -> int:
    """How many cells a file may hold: each takes a byte, unless it is compressed."""
    cells_of_byte = MAX_RATIO if file_format(path) in COMPRESSED else 1
    return len(content) * cells_of_byte


FORMATS: dict[str, Callable[[bytes, Path, Columns], Iterator[Row]]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
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
        new_names = _new_names(table, columns)
        written = {name: column for column, name in new_names.items()}
        return _complete(table.renamed(new_names | _further_wordings(table, written)))
    table = _with_a_row_for_each_language(table)
    written = {}
    for name in KNOWN:
        column = _find(table, name)
        if column:
            written[name] = column
    if not _has_pair(written):
        pair = _pair_in_other_words(table) or _titles_that_ask(table)
        if pair is None:
            pair = _only_two(table, written, guess=guess)
        if pair is not None:
            written |= dict(zip(PAIR, pair, strict=True))
    new_names = {column: name for name, column in written.items()}
    if _has_pair(written):
        _log_other_pairs(table, written)
        new_names |= _further_wordings(table, written)
    return _complete(table.renamed(new_names))


def _has_pair(names: Collection[str]) -> bool:
    return set(PAIR).issubset(names)


def _new_names(table: Table, columns: tuple[str, str]) -> dict[str, str]:
    """The names in a table of these columns -> those of `PAIR`; InputError if there is no such column."""
    columns_of_table = [_find(table, column) for column in columns]
    if not all(columns_of_table):
        missing = columns[columns_of_table.index("")]
        raise InputError(
            f"{table.path}: expected the columns {_listed(columns)} that --columns names, found no {missing!r} in "
            f"{table.header}. Name two of these."
        )
    if len(set(columns_of_table)) < len(columns_of_table):
        raise InputError(
            f"{table.path}: expected two columns that --columns names, found that {_listed(columns)} are one column, "
            f"{one_line(repr(columns_of_table[0]))}. Its columns are {table.header}."
        )
    return dict(zip(columns_of_table, PAIR, strict=True))


def _with_a_row_for_each_language(table: Table) -> Table:
    """The table with each language of an entry in a row of its own; as it is if it has one language."""
    n_cells = sum(len(row.fields) for row in table.rows)
    cells = CellCount(table.path, MOST_BY_LANGUAGE * n_cells)
    names = list(_names_of_fields(table.rows))
    rows = list(cells.of(entries_by_language(names, table.rows)))
    if not rows:
        return table
    return Table(table.path, tuple(_names_of_fields(rows)), rows=rows)


def _pair_in_other_words(table: Table) -> tuple[str, str] | None:
    """The columns of questions and answers by the names that people call them."""
    for question_names, answer_names in PAIRS:
        question = _find(table, *question_names)
        answer = _find(table, *answer_names)
        if question and answer:
            return question, answer
    return None


def _log_other_pairs(table: Table, written: Mapping[str, str]) -> None:
    """Tell of columns that could be another pair, such as one in another language."""
    columns_left: dict[str, str] = {}
    for column in table.columns:
        if column not in written.values():
            columns_left[plain(column)] = column
    for question_names, answer_names in PAIRS:
        question = _first_of(question_names, columns_left)
        answer = _first_of(answer_names, columns_left)
        if question and answer:
            advice = f"--columns {one_line(f'{question},{answer}')} takes those instead"
            pair = _listed([written[name] for name in PAIR])
            logger.info("%s: %s are read; %s.", table.path, pair, advice)


def _first_of(names: Iterable[str], columns: Mapping[str, str]) -> str:
    """The column with the first of these names that there is; empty if there is none."""
    for name in names:
        if name in columns:
            return columns[name]
    return ""


def _further_wordings(table: Table, written: Mapping[str, str]) -> dict[str, str]:
    """Columns of further wordings, such as "Question 2" beside "Question", with names of `WORDING_COLUMNS`."""
    question = re.escape(plain(written["question"]))
    new_names: dict[str, str] = {}
    taken = set(table.columns)
    number = 2
    for column in table.columns:
        if column in written.values() or WORDING_COLUMNS.fullmatch(column):
            continue
        is_numbered = re.fullmatch(rf"{question}[ _-]?\d+", plain(column)) is not None
        if is_numbered or plain(column) in FURTHER_WORDINGS:
            while f"wording {number}" in taken:
                number += 1
            new_names[column] = f"wording {number}"
            number += 1
    return new_names


def _titles_that_ask(table: Table) -> tuple[str, str] | None:
    """The columns of titles and their texts, if most titles are questions."""
    for title_name, text_name in itertools.product(TITLES, THEIR_TEXTS):
        if title_name in table.alike and text_name in table.alike:
            title = table.alike[title_name][0]
            n_asking = sum(row.get(title).endswith(QUESTION_MARKS) for row in table.rows)
            if 2 * n_asking > len(table.rows):
                return title, table.alike[text_name][0]
    return None


def _complete(table: Table) -> Table:
    """The table whose columns have names of `KNOWN`, with lists of questions as wordings, if it holds pairs.

    InputError if its questions are none.
    """
    if _has_pair(table.columns) and any(row.lists for row in table.rows):
        rows = with_lists(table.rows, table.written.get("answer", "answer"), file=str(table.path))
        columns = dict.fromkeys(table.columns) | _names_of_fields(rows)
        table = Table(table.path, tuple(columns), rows=rows, written=table.written)
    _check_questions(table)
    return table


def _check_questions(table: Table) -> None:
    """Raise an `InputError` if all questions are numbers or dates: then the column is another one."""
    if len(table.rows) > 1 and all(_NUMBERS.fullmatch(row.get("question")) for row in table.rows):
        problem = f"numbers such as {one_line(repr(table.rows[0].get('question')))}"
        column = repr(table.written.get("question", "question"))
        advice = f"Name yours: {COLUMNS_OPTION}."
        raise InputError(f"{table.path}: expected questions in column {column}, found {problem}. {advice}")


def _find(table: Table, *names: str) -> str:
    """The column of the first of these names that there is, but for case and marks around it; empty if there is none.

    If several columns have such a name, it is the one with exactly this name; without one, InputError.
    """
    for name in names:
        similar = table.alike.get(plain(name), ())
        if name in similar:
            return name
        if len(similar) > 1:
            advice = f"Rename one, or choose: {COLUMNS_OPTION}."
            raise InputError(f"{table.path}: expected one column {name!r}, found {_listed(similar)}. {advice}")
        if similar:
            return similar[0]
    return ""


def _only_two(table: Table, written: dict[str, str], *, guess: bool) -> tuple[str, str] | None:
    """The two columns of a table that has no others but those of a form; `None` if a name says what one holds."""
    columns = [column for column in table.columns if plain(column) not in OF_FORMS]
    is_form = len(columns) < len(table.columns)  # then the names of its columns are what it asks, perhaps questions
    has_other_names = bool(written.keys() - {"question"})
    if len(columns) != len(PAIR) or has_other_names or not (guess or is_form):
        return None
    if any(len(row.fields) != len(table.columns) for row in table.rows):  # the first records of JSON may have fewer
        return None
    question, answer = columns
    if written.get("question") == columns[1]:  # the answers stand before their questions
        answer, question = columns
    both = _listed((question, answer))
    if not is_form and not written and is_entry(question, answer):
        texts = f"{one_line(repr(question), 60)} and {one_line(repr(answer), 60)}"
        raise InputError(
            f"{table.path}: expected names of columns, found an entry, {texts}. If they are names, give them as "
            "--columns; if not, write the line question,answer above them."
        )
    logger.info("%s: its only two columns, %s, are taken as question and answer.", table.path, both)
    return question, answer


def _listed(names: Iterable[str]) -> str:
    return " and ".join(one_line(repr(name)) for name in names)
