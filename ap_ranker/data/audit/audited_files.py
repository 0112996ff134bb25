"""The files of a data set as they were written, before the reader merges or refuses anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from ap_ranker.data import reader
from ap_ranker.data.faq import DEFAULT_MATCH, Entry
from ap_ranker.data.reader import Layout
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import Table, read_columns, read_named_table
from ap_ranker.errors import InputError
from ap_ranker.text.reading import normalized

T = TypeVar("T")


def firsts(items: Iterable[T], key: Callable[[T], str]) -> list[T]:
    """The first item of each key that is not empty."""
    first_of: dict[str, T] = {}
    for item in items:
        first_of.setdefault(key(item), item)
    return [item for name, item in first_of.items() if name]


class Text(NamedTuple):
    """A question or an answer; `matched` is the text that training reads: an answer with its stored question."""

    text: str
    place: str
    matched: str


@dataclass
class Asked:
    """A question as one entry or one group of judged candidates asks it; `place` is its first row.

    Answers are their ids or, if they have none, their normalized texts.
    """

    split: str
    text: str
    place: str
    layout: Layout
    right: set[str] = field(default_factory=set)
    wrong: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class QuestionFile:
    """A file of questions."""

    split: str
    layout: Layout
    table: Table
    pools: Table | None = None

    @cached_property
    def judgements(self) -> list[tuple[Row, int, bool]]:
        """Judged candidates, their labels, and whether these are the best; those with an unknown label are left out."""
        classes = reader.label_classes(self.table)
        judgements: list[tuple[Row, int, bool]] = []
        if self.layout != Layout.judged:
            return judgements
        for row in self.table.rows:
            with suppress(InputError):
                label = reader.read_label(row, classes)
                judgements.append((row, label, label == len(classes) - 1))
        return judgements

    def asked(self) -> Iterable[Asked]:
        """Its questions."""
        questions: dict[str, Asked] = {}
        if self.layout == Layout.judged:
            for row, _, is_best in self.judgements:
                if row.get("question") and row.get("answer"):
                    key = row.get("qid") or row.get("question")
                    question = questions.setdefault(key, self._asked(row))
                    answers = question.right if is_best else question.wrong
                    answers.add(normalized(row.get("answer")))
            return questions.values()
        for row in self.table.rows:
            if not row.get("question"):
                continue
            if self.layout == Layout.by_id:
                questions.setdefault(row.place, self._asked(row)).right.update(right_ids(row))
            elif row.get("answer"):
                questions.setdefault(row.place, self._asked(row)).right.add(normalized(row.get("answer")))
        return questions.values()

    def _asked(self, row: Row) -> Asked:
        """The question of a row, without its answers."""
        return Asked(self.split, row.get("question"), row.place, self.layout)


@dataclass(frozen=True)
class Data:
    """All files of a data set; `stored` is the file of answers of data by id; texts above `max_tokens` are cut."""

    files: list[QuestionFile]
    stored: Table | None
    max_tokens: int

    @cached_property
    def stored_rows(self) -> list[Row]:
        """The rows of the file of answers."""
        return self.stored.rows if self.stored else []

    @cached_property
    def questions(self) -> list[Text]:
        """The distinct question texts of each file, stored questions included, with their first place."""
        texts: list[Text] = []
        tables = [file.table.rows for file in self.files]
        for rows in [*tables, self.stored_rows]:
            for row in firsts(rows, _question_of):
                texts.append(Text(row.get("question"), row.place, row.get("question")))
        return texts

    @cached_property
    def answers(self) -> list[Text]:
        """The distinct answer texts of each file, with their first place."""
        texts: list[Text] = []
        for file in self.files:
            if file.layout != Layout.by_id:
                for row in firsts(file.table.rows, _answer_of):
                    texts.append(Text(row.get("answer"), row.place, row.get("answer")))
        for row in firsts(self.stored_rows, _answer_of):
            matched = Entry.of(row).text(DEFAULT_MATCH)
            texts.append(Text(row.get("answer"), row.place, matched))
        return texts

    @cached_property
    def asked(self) -> list[Asked]:
        """The questions of all splits; stored questions belong to train, as in training."""
        asked: list[Asked] = []
        for file in self.files:
            asked += file.asked()
        if any(file.split == "train" for file in self.files):
            for row in self.stored_rows:
                question = row.get("question")
                if question:
                    asked.append(Asked("train", question, row.place, Layout.by_id, right={row.get("aid")}))
        return asked


def _question_of(row: Row) -> str:
    return row.get("question")


def _answer_of(row: Row) -> str:
    return row.get("answer")


def read_data(
    path: Path, named: dict[str, Path | None], answers: Path | None, columns: tuple[str, str] | None, max_tokens: int
) -> Data:
    """Read the files of `audit`; a single file holds training questions, `named` ones are those of other splits."""
    own: dict[str, Path | None] = {"train": path}
    if path.is_dir():
        own = {split: reader.find_split(path, split) for split in reader.SPLITS}
    path_of = dict(own)
    for split, file in named.items():
        if file:
            path_of[split] = file
    files: list[QuestionFile] = []
    for split, file in path_of.items():
        if file is not None:
            table = read_named_table(file, columns)
            layout = reader.find_layout(table)
            has_pools = path.is_dir() and file == own[split] and layout == Layout.by_id
            pools = reader.find_pools(path, split) if has_pools else None
            pooled = None
            if pools:
                pooled = read_columns(pools, "qid", "candidate_ids")
            files.append(QuestionFile(split, layout, table, pooled))
    if not files:
        raise reader.missing_split(path, *reader.SPLITS)
    stored = None
    by_id = [question_file.table.path for question_file in files if question_file.layout == Layout.by_id]
    if by_id:
        stored = read_columns(answers or reader.find_answers(by_id[0]), "aid", "answer")
    return Data(files, stored, max_tokens)


def right_ids(row: Row) -> list[str]:
    """The ids of a question's right answers; none if it is marked as unanswerable."""
    if row.get("answerable").lower() in reader.UNANSWERABLE:
        return []
    return row.get("answer_ids").split()
