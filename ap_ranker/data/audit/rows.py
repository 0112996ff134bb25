"""The files of a data set as they were written, before the reader merges or refuses anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

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
from ap_ranker.data.tables import Row, Table, read_table
from ap_ranker.errors import InputError


@dataclass(frozen=True)
class Source:
    """A file of questions."""

    split: str
    layout: Layout
    table: Table
    pools: Table | None = None


@dataclass(frozen=True)
class Text:
    """A question or an answer; `matched` is what training reads of it, with its stored question."""

    text: str
    place: str
    matched: str


@dataclass
class Asked:
    """A question and what one place of the data says of it: an entry of a FAQ, or a question with its candidates.

    Attributes:
        split: `train`, `dev` or `test`.
        text: the question.
        place: its first row.
        right: the right answers: ids of answers or, where answers have none, what `same` makes of their texts.
        wrong: the answers judged to be wrong.
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
    """All files of a data set; `stored` are the answers that data by id shares."""

    sources: list[Source]
    stored: Table | None = None

    @cached_property
    def questions(self) -> list[Text]:
        """Every different question text of each file, where it stands first; stored questions among them."""
        tables = [source.table for source in self.sources]
        if self.stored and "question" in self.stored.columns:
            tables.append(self.stored)
        return [text for table in tables for text in _texts(table, "question")]

    @cached_property
    def answers(self) -> list[Text]:
        """Every different answer text of each file, where it stands first."""
        tables = [source.table for source in self.sources if source.layout != Layout.by_id]
        if self.stored:
            tables.append(self.stored)
        return [text for table in tables for text in _texts(table, "answer", self.stored)]

    @cached_property
    def asked(self) -> list[Asked]:
        """The questions of all splits; the stored question of an answer is one of train's, as in training."""
        found = [asked for source in self.sources for asked in _asked(source)]
        if self.stored:
            for row in self.stored.rows:
                if row.get("question") and any(source.split == "train" for source in self.sources):
                    found.append(Asked("train", row.get("question"), row.place, Layout.by_id, {row.get("aid")}))
        return found


def same(text: str) -> str:
    """Equal for texts that differ in case and white space only."""
    return " ".join(text.casefold().split())


def read_data(path: Path, *, dev: Path | None, test: Path | None, answers: Path | None) -> Data:
    """Read the files; a single file is one of training questions.

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
            table = read_table(file)
            layout = find_layout(table)
            own = path.is_dir() and file == find_split(path, split)
            pools = find_pools(path, split) if own and layout == Layout.by_id else None
            sources.append(Source(split, layout, table, read_table(pools) if pools else None))
    by_id = next((source.table.path for source in sources if source.layout == Layout.by_id), None)
    stored = read_table(answers or find_answers(by_id)) if by_id else None
    needed = [(stored, ("aid", "answer")), *((source.pools, ("qid", "candidate_ids")) for source in sources)]
    for known, columns in needed:
        if known and (missing := [column for column in columns if column not in known.columns]):
            raise InputError(f"{known.path}: expected a column {missing[0]!r}, found {known.header}.")
    return Data(sources, stored)


def right_ids(row: Row) -> list[str]:
    """The ids of a question's right answers; none if it is marked as one without."""
    return [] if row.get("answerable").lower() in UNANSWERABLE else row.get("answer_ids").split()


def judgements(table: Table) -> list[tuple[Row, int, int]]:
    """Each row of judged candidates with its label and the best there is; rows with an unknown label are left out."""
    classes = label_classes(table)
    found = []
    for row in table.rows:
        try:
            found.append((row, read_label(row, classes), len(classes) - 1))
        except InputError:
            continue  # a fault of its own
    return found


def _texts(table: Table, column: str, stored: Table | None = None) -> list[Text]:
    found: dict[str, Text] = {}
    for row in table.rows:
        text = row.get(column)
        if text and text not in found:
            matched = Entry.of(row).text(DEFAULT_MATCH) if table is stored else text
            found[text] = Text(text, row.place, matched)
    return list(found.values())


def _asked(source: Source) -> list[Asked]:
    rows = source.table.rows
    if source.layout == Layout.by_id:
        return [
            Asked(source.split, row.get("question"), row.place, source.layout, set(right_ids(row)))
            for row in rows
            if row.get("question")
        ]
    if source.layout == Layout.pairs:
        return [
            Asked(source.split, row.get("question"), row.place, source.layout, {same(row.get("answer"))})
            for row in rows
            if row.get("question") and row.get("answer")
        ]
    found: dict[str, Asked] = {}
    for row, label, best in judgements(source.table):
        if row.get("question") and row.get("answer"):
            key = row.get("qid") or row.get("question")
            asked = found.setdefault(key, Asked(source.split, row.get("question"), row.place, source.layout))
            (asked.right if label == best else asked.wrong).add(same(row.get("answer")))
    return list(found.values())
