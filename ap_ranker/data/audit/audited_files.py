"""The files of a data set as they were written, before the reader merges or refuses anything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from ap_ranker.data.audit.repairs import repaired
from ap_ranker.data.columns import read_named_table
from ap_ranker.data.faq import DEFAULT_MATCH, Entry
from ap_ranker.data.reader import (
    SPLITS,
    UNANSWERABLE,
    Layout,
    find_answers,
    find_layout,
    find_pools,
    find_split,
    label_classes,
    missing_split,
    read_label,
)
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import Table
from ap_ranker.errors import InputError
from ap_ranker.text.keys import normalized
from ap_ranker.text.near import near_pairs

T = TypeVar("T")


def firsts(items: Iterable[T], key: Callable[[T], str]) -> dict[str, T]:
    """Each key that is not empty -> the first item that has it."""
    found: dict[str, T] = {}
    for item in items:
        if name := key(item):
            found.setdefault(name, item)
    return found


def repeats(items: Iterable[T], key: Callable[[T], str]) -> Iterator[tuple[T, T]]:
    """Each item whose key an earlier one has: the first of those, and the item; empty keys are none."""
    found: dict[str, T] = {}
    for item in items:
        if (name := key(item)) and (first := found.setdefault(name, item)) is not item:
            yield first, item


def near_earlier(items: Sequence[T], text: Callable[[T], str]) -> Iterator[tuple[T, T]]:
    """Each item whose text is near that of an earlier one, once: the first of those, and the item."""
    earlier_of: dict[int, int] = {}
    for earlier, later in near_pairs([text(item) for item in items]).tolist():
        earlier_of.setdefault(later, earlier)
    return ((items[earlier], items[later]) for later, earlier in earlier_of.items())


@dataclass(frozen=True)
class Text:
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
    def judgements(self) -> list[tuple[Row, int]]:
        """The rows of judged candidates with their labels; those with an unknown label are left out."""
        classes, labelled = label_classes(self.table), []
        for row in self.table.rows if self.layout == Layout.judged else ():
            with suppress(InputError):  # reported as `bad-label`
                labelled.append((row, read_label(row, classes)))
        return labelled

    @property
    def best(self) -> int:
        """The label of right candidates."""
        return len(label_classes(self.table)) - 1

    @cached_property
    def near_candidates(self) -> list[tuple[Row, Row, bool]]:
        """Judged candidates of one question that are nearly equal, and whether they are judged alike."""
        candidates: defaultdict[str, dict[str, tuple[Row, int]]] = defaultdict(dict)
        for row, label in self.judgements:
            if row.get("question") and row.get("answer"):
                candidates[normalized(row.get("question"))].setdefault(normalized(row.get("answer")), (row, label))
        texts = list(dict.fromkeys(text for rows in candidates.values() for text in rows))
        near: defaultdict[str, set[str]] = defaultdict(set)
        for i, j in near_pairs(texts):
            near[texts[i]].add(texts[j])
        return [
            (row, rows[other][0], label == rows[other][1])
            for rows in candidates.values()
            for text, (row, label) in rows.items()
            for other in sorted(near[text] & rows.keys())
        ]

    def asked(self) -> Iterator[Asked]:
        """Its questions."""
        by_question: dict[str, Asked] = {}
        for row, label in self.judgements:
            if (question := row.get("question")) and row.get("answer"):
                new = Asked(self.split, question, row.place, self.layout)
                asked = by_question.setdefault(row.get("qid") or question, new)
                (asked.right if label == self.best else asked.wrong).add(normalized(row.get("answer")))
        yield from by_question.values()
        by_id = self.layout == Layout.by_id
        for row in self.table.rows if self.layout != Layout.judged else ():
            if (question := row.get("question")) and (by_id or row.get("answer")):
                right = set(right_ids(row)) if by_id else {normalized(row.get("answer"))}
                yield Asked(self.split, question, row.place, self.layout, right)


@dataclass(frozen=True)
class Data:
    """All files of a data set; `stored` is the file of answers of data by id; texts above `max_tokens` are cut."""

    files: list[QuestionFile]
    stored: Table | None
    max_tokens: int

    @cached_property
    def questions(self) -> list[Text]:
        """The distinct question texts of each file, stored questions included, with their first place."""
        tables = [file.table for file in self.files] + ([self.stored] if self.stored else [])
        return [text for table in tables for text in self._texts(table, "question")]

    @cached_property
    def known(self) -> set[str]:
        """The ids of the stored answers."""
        return {row.get("aid") for row in self.stored.rows} if self.stored else set()

    @property
    def answer_tables(self) -> list[Table]:
        """The tables that hold answers."""
        tables = [file.table for file in self.files if file.layout != Layout.by_id]
        return [*tables, self.stored] if self.stored else tables

    @cached_property
    def answers(self) -> list[Text]:
        """The distinct answer texts of each file, with their first place."""
        return [text for table in self.answer_tables for text in self._texts(table, "answer")]

    def _texts(self, table: Table, column: str) -> Iterator[Text]:
        for text, row in firsts(table.rows, lambda row: row.get(column)).items():
            with_question = table is self.stored and column == "answer"
            yield Text(text, row.place, Entry.of(row).text(DEFAULT_MATCH) if with_question else text)

    @property
    def texts(self) -> list[Text]:
        """Questions and answers."""
        return [*self.questions, *self.answers]

    @cached_property
    def repairable(self) -> list[tuple[Text, list[str]]]:
        """The texts with faults that `repaired` repairs, and the kinds of these."""
        return [(text, kinds) for text in self.texts if (kinds := repaired(text.text)[1])]

    @cached_property
    def asked(self) -> list[Asked]:
        """The questions of all splits; stored questions belong to train, as in training."""
        asked = [question for file in self.files for question in file.asked()]
        if self.stored and any(file.split == "train" for file in self.files):
            asked += [
                Asked("train", row.get("question"), row.place, Layout.by_id, {row.get("aid")})
                for row in self.stored.rows
                if row.get("question")
            ]
        return asked

    @cached_property
    def near_questions(self) -> list[tuple[Asked, Asked]]:
        """Different questions of a split that are nearly equal."""
        pairs: list[tuple[Asked, Asked]] = []
        for split in SPLITS:
            distinct = firsts((one for one in self.asked if one.split == split), lambda one: normalized(one.text))
            pairs += near_earlier(list(distinct.values()), lambda one: one.text)
        return pairs


def read_data(
    path: Path,
    *,
    dev: Path | None,
    test: Path | None,
    answers: Path | None,
    columns: tuple[str, str] | None,
    max_tokens: int,
) -> Data:
    """Read the files; a single file holds training questions.

    Raises:
        InputError: a file cannot be read at all, or has columns of no layout.
    """
    own = {split: find_split(path, split) for split in SPLITS} if path.is_dir() else {"train": path}
    named = {"dev": dev, "test": test}
    files = []
    for split in SPLITS:
        file = named.get(split) or own.get(split)
        if file is not None:
            table = read_named_table(file, columns)
            layout = find_layout(table)
            pools = find_pools(path, split) if path.is_dir() and file == own[split] and layout == Layout.by_id else None
            files.append(QuestionFile(split, layout, table, _read(pools, "qid", "candidate_ids")))
    if not files:
        raise missing_split(path, *SPLITS)
    by_id = next((file.table.path for file in files if file.layout == Layout.by_id), None)
    stored = _read(answers or find_answers(by_id), "aid", "answer") if by_id else None
    return Data(files, stored, max_tokens)


def _read(path: Path | None, *columns: str) -> Table | None:
    if path is None:
        return None
    table = read_named_table(path, guess=False)
    table.require(*columns)
    return table


def right_ids(row: Row) -> list[str]:
    """The ids of a question's right answers; none if it is marked as unanswerable."""
    return [] if row.get("answerable").lower() in UNANSWERABLE else row.get("answer_ids").split()
