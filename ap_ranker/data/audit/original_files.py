"""The files of a data set as they were written, before the reader merges or refuses anything."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

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
    read_label,
)
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import Table
from ap_ranker.errors import InputError
from ap_ranker.text.keys import normalized


@dataclass(frozen=True)
class Source:
    """A file of questions."""

    split: str
    layout: Layout
    table: Table
    pools: Table | None = None


@dataclass(frozen=True)
class Text:
    """A question or an answer; `matched` is the text that training reads: an answer with its stored question."""

    text: str
    place: str
    matched: str


@dataclass
class Asked:
    """A question as one entry or one group of judged candidates asks it.

    Attributes:
        split: `train`, `dev` or `test`.
        text: the question.
        place: its first row.
        right: the right answers: their ids or, if they have none, their normalized texts.
        wrong: the answers judged wrong.
        layout: of its file.
    """

    split: str
    text: str
    place: str
    layout: Layout
    right: set[str] = field(default_factory=set)
    wrong: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Data:
    """All files of a data set; `stored` is the file of answers of data by id."""

    sources: list[Source]
    stored: Table | None = None

    @cached_property
    def questions(self) -> list[Text]:
        """The distinct question texts of each file, stored questions included, with their first place."""
        tables = [source.table for source in self.sources]
        if self.stored and "question" in self.stored.columns:
            tables.append(self.stored)
        return [text for table in tables for text in _texts(table, "question")]

    @property
    def answer_tables(self) -> list[Table]:
        """The tables that hold answers."""
        tables = [source.table for source in self.sources if source.layout != Layout.by_id]
        return [*tables, self.stored] if self.stored else tables

    @cached_property
    def answers(self) -> list[Text]:
        """The distinct answer texts of each file, with their first place."""
        return [text for table in self.answer_tables for text in _texts(table, "answer", self.stored)]

    @cached_property
    def asked(self) -> list[Asked]:
        """The questions of all splits; stored questions belong to train, as in training."""
        asked = [question for source in self.sources for question in _asked(source)]
        if self.stored and any(source.split == "train" for source in self.sources):
            asked += [
                Asked("train", row.get("question"), row.place, Layout.by_id, {row.get("aid")})
                for row in self.stored.rows
                if row.get("question")
            ]
        return asked


def read_data(
    path: Path,
    *,
    dev: Path | None,
    test: Path | None,
    answers: Path | None,
    columns: tuple[str, str] | None = None,
) -> Data:
    """Read the files; a single file holds training questions.

    Raises:
        InputError: a file cannot be read at all, or has columns of no layout.
    """
    files: dict[str, Path | None] = {"train": path, "dev": dev, "test": test}
    if path.is_dir():
        files = {split: files[split] or find_split(path, split) for split in ("dev", "test")}
        files = {"train": find_split(path, "train"), **files}
        if not any(files.values()):
            names = ", ".join(f"{name}.*" for names in SPLITS.values() for name in names)
            present = ", ".join(sorted(file.name for file in path.iterdir())) or "nothing"
            raise InputError(f"{path}: expected a file of questions ({names}), found {present}.")
    sources = []
    for split, file in files.items():
        if file is not None:
            table = read_named_table(file, columns)
            layout = find_layout(table)
            own = path.is_dir() and file == find_split(path, split)
            pools = find_pools(path, split) if own and layout == Layout.by_id else None
            sources.append(Source(split, layout, table, read_named_table(pools, guess=False) if pools else None))
    by_id = next((source.table.path for source in sources if source.layout == Layout.by_id), None)
    stored = read_named_table(answers or find_answers(by_id), guess=False) if by_id else None
    if stored:
        stored.require("aid", "answer")
    for source in sources:
        if source.pools:
            source.pools.require("qid", "candidate_ids")
    return Data(sources, stored)


def right_ids(row: Row) -> list[str]:
    """The ids of a question's right answers; none if it is marked as unanswerable."""
    return [] if row.get("answerable").lower() in UNANSWERABLE else row.get("answer_ids").split()


def judgements(table: Table) -> list[tuple[Row, int, int]]:
    """Each row of judged candidates, its label and the best label; rows with an unknown label are left out."""
    classes = label_classes(table)
    labelled = []
    for row in table.rows:
        with suppress(InputError):  # reported as `bad-label`
            labelled.append((row, read_label(row, classes), len(classes) - 1))
    return labelled


def _texts(table: Table, column: str, stored: Table | None = None) -> list[Text]:
    texts: dict[str, Text] = {}
    for row in table.rows:
        text = row.get(column)
        if text and text not in texts:
            matched = Entry.of(row).text(DEFAULT_MATCH) if table is stored else text
            texts[text] = Text(text, row.place, matched)
    return list(texts.values())


def _asked(source: Source) -> list[Asked]:
    if source.layout != Layout.judged:
        by_id = source.layout == Layout.by_id
        return [
            Asked(
                source.split,
                row.get("question"),
                row.place,
                source.layout,
                set(right_ids(row)) if by_id else {normalized(row.get("answer"))},
            )
            for row in source.table.rows
            if row.get("question") and (by_id or row.get("answer"))
        ]
    by_question: dict[str, Asked] = {}
    for row, label, best in judgements(source.table):
        if row.get("question") and row.get("answer"):
            key = row.get("qid") or row.get("question")
            asked = by_question.setdefault(key, Asked(source.split, row.get("question"), row.place, source.layout))
            (asked.right if label == best else asked.wrong).add(normalized(row.get("answer")))
    return list(by_question.values())
