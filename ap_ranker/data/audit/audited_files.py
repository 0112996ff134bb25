"""The files of a data set as they were written, before the reader merges or refuses anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from ap_ranker.data import reader
from ap_ranker.data.dataset import judged_for_each_question
from ap_ranker.data.faq import DEFAULT_MATCH, Entry, wording_lines
from ap_ranker.data.reader import Layout
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import Table, read_columns, read_named_table
from ap_ranker.errors import InputError
from ap_ranker.text.reading import normalized

T = TypeVar("T")


def firsts(items: Iterable[T], key: Callable[[T], str]) -> list[T]:
    """The first item with each key, in order, without those whose key is empty."""
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
    """One question to audit: a row of pairs, a row of questions by id, or all judged candidates with one qid.

    `place` is its first row. Answers are their ids or, if they have none, their normalized texts.
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
        judgements: list[tuple[Row, int, bool]] = []
        if self.layout != Layout.judged:
            return judgements
        classes = reader.label_classes(self.table)
        for row in self.table.rows:
            with suppress(InputError):  # another check finds unknown labels
                label = reader.read_label(row, classes)
                judgements.append((row, label, label == len(classes) - 1))
        return judgements

    def asked(self) -> Iterable[Asked]:
        """Its questions."""
        if self.layout == Layout.judged:
            return self._judged_questions()
        questions: dict[tuple[str, str], Asked] = {}
        for row in self.table.rows:
            right: list[str] = []
            if self.layout == Layout.by_id:
                right = right_ids(row)
            elif row.get("answer"):
                right = [normalized(row.get("answer"))]
            is_asked = right or self.layout == Layout.by_id or reader.is_unanswerable(row)
            if row.get("question") and is_asked:
                key = (
                    row.place,
                    row.get("question"),
                )  # a record of JSON may hold several pairs, of one question or not
                question = questions.setdefault(key, self._asked(row))
                question.right.update(right)
        return questions.values()

    def _judged_questions(self) -> Iterable[Asked]:
        questions: dict[str, Asked] = {}
        for row, _, is_best in self.judgements:
            if row.get("question") and row.get("answer"):
                key = row.get("qid") or row.get("question")
                question = questions.setdefault(key, self._asked(row))
                answers = question.right if is_best else question.wrong
                answers.add(normalized(row.get("answer")))
        return questions.values()

    def _asked(self, row: Row) -> Asked:
        """The question of a row, without its answers."""
        return Asked(self.split, row.get("question"), row.place, self.layout)


@dataclass(frozen=True)
class Data:
    """All files of a data set; `answer_table` holds the answers of data by id, or the FAQ that pairs are compared with.

    Texts above `max_tokens` are cut.
    """

    files: list[QuestionFile]
    answer_table: Table | None
    max_tokens: int

    @property
    def by_id(self) -> bool:
        """Whether questions name their answers by id."""
        return any(file.layout == Layout.by_id for file in self.files)

    @cached_property
    def stored_rows(self) -> list[Row]:
        """The rows of the file of answers."""
        return self.answer_table.rows if self.answer_table else []

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
    def wordings(self) -> list[Text]:
        """The distinct lines of known wordings of each file that is read with them, with their first place."""
        texts: list[Text] = []
        tables = [file.table.rows for file in self.files if file.layout == Layout.pairs]
        for rows in [*tables, self.stored_rows]:
            place_of: dict[str, str] = {}
            for row in rows:
                for line in wording_lines(row):
                    place_of.setdefault(line, row.place)
            texts += [Text(line, place, line) for line, place in place_of.items()]
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
        """The questions of all splits; stored questions of data by id belong to train, as in training."""
        asked: list[Asked] = []
        for file in self.files:
            asked += file.asked()
        if self.by_id and any(file.split == "train" for file in self.files):
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
    files: list[QuestionFile] = []
    for split, (file, pools_path) in _files_of_splits(path, named).items():
        table = read_named_table(file, columns)
        layout = reader.find_layout(table)
        pools_table = None
        if pools_path is not None and layout == Layout.by_id:
            pools_table = read_columns(pools_path, "qid", "candidate_ids")
        files.append(QuestionFile(split, layout, table, pools_table))
    if not files:
        raise reader.missing_split(path, *reader.SPLITS)
    return Data(files, _answer_table(files, answers, columns), max_tokens)


def _answer_table(files: list[QuestionFile], answers: Path | None, columns: tuple[str, str] | None) -> Table | None:
    """The answers of data by id, or the FAQ of pairs, if any; InputError if judged candidates are to have one."""
    by_id = [question_file.table.path for question_file in files if question_file.layout == Layout.by_id]
    if by_id:
        answers_path = answers or reader.find_answers(by_id[0])  # all splits share the answers beside the first one
        return read_columns(answers_path, "aid", "answer")
    if answers is None:
        return None
    for question_file in files:
        if question_file.layout == Layout.judged:
            raise judged_for_each_question(str(question_file.table.path), "Leave out --answers.")
    return reader.read_faq_of_pairs(answers, columns)


def _files_of_splits(path: Path, named: dict[str, Path | None]) -> dict[str, tuple[Path, Path | None]]:
    """Split -> its file of questions, and that of their pools, if it has any."""
    files: dict[str, tuple[Path, Path | None]] = {}
    for split in reader.SPLITS:
        own_file = None
        if path.is_dir():
            own_file = reader.find_split(path, split)
        elif split == "train":
            own_file = path
        file = named.get(split) or own_file
        if file is None:
            continue
        pools_path = None
        if path.is_dir() and file == own_file:  # the folder's pools are those of its own questions
            pools_path = reader.find_pools(path, split)
        files[split] = (file, pools_path)
    return files


def right_ids(row: Row) -> list[str]:
    """The ids of a question's right answers; none if it is marked as unanswerable."""
    if reader.is_unanswerable(row):
        return []
    return row.get("answer_ids").split()
