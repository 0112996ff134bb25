"""Known wordings: texts of users that are known to ask for an answer. Adding one needs no training."""

from __future__ import annotations

import logging
import threading
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np

from ap_ranker.data.dataset import Answer, Dataset
from ap_ranker.data.faq import DEFAULT_MATCH, Entry, Match, log_left_out
from ap_ranker.data.html_cells import shown_text
from ap_ranker.data.reader import Layout, find_layout, find_split, is_unanswerable, read_dataset
from ap_ranker.data.rows import LeftOut
from ap_ranker.data.tables import Table, read_columns
from ap_ranker.errors import InputError, one_line
from ap_ranker.files import file_version
from ap_ranker.kept_results import Latest
from ap_ranker.text.reading import normalized
from ap_ranker.watched_file import Watched

logger = logging.getLogger(__name__)

MOST_ANSWERS = 100_000
"""Maximum number of answers whose wordings are kept at hand: every search asks for the same ones."""

Name = tuple[str, str]
"""What names an entry where wordings are kept: `ID` and its id, or `TEXT` and a form of its text, normalized."""

ID = "id"
TEXT = "text"


def names_of(answer_id: str, *texts: str) -> tuple[Name, ...]:
    """The names of an entry: its id, and each form of its text, such as with and without the stored question."""
    names = [(ID, answer_id)]
    names += [(TEXT, normalized(text)) for text in texts]
    return tuple(name for name in dict.fromkeys(names) if name[1])


@dataclass(frozen=True, eq=False)  # those of a file that was read again are others: to compare all would take long
class Wordings:
    """The known wordings of entries, by the names of these, wherever both come from."""

    by_name: Mapping[Name, Sequence[str]] = field(default_factory=dict)
    _wordings_of: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[Name, str]]) -> Wordings:
        """Of pairs of a name and a wording, each once."""
        grouped: defaultdict[Name, dict[str, None]] = defaultdict(dict)
        for name, text in pairs:
            grouped[name][text] = None
        return cls({name: tuple(texts) for name, texts in grouped.items()})

    def of(self, *entry: str) -> tuple[str, ...]:
        """The wordings of an entry, each once, given its id and the forms of its text (`names_of`)."""
        wordings = self._wordings_of.get(entry)
        if wordings is None:
            distinct: dict[str, None] = {}
            for name in names_of(*entry):
                distinct.update(dict.fromkeys(self.by_name.get(name, ())))
            wordings = tuple(distinct)
            if len(self._wordings_of) < MOST_ANSWERS:
                self._wordings_of[entry] = wordings
        return wordings

    def pairs(self) -> Iterator[tuple[Name, str]]:
        """Each wording with the name of its entry."""
        for name, texts in self.by_name.items():
            for text in texts:
                yield name, text

    def texts(self) -> Iterator[str]:
        """All wordings."""
        return chain.from_iterable(self.by_name.values())

    def __len__(self) -> int:
        return sum(map(len, self.by_name.values()))


NO_WORDINGS = Wordings()


def read_wordings(path: str | Path) -> Wordings:
    """Read the wordings of a file: training questions, or further wordings of FAQ entries.

    It has the columns question and answer_ids, or question and answer. One with a column label, such as the feedback of
    `ap-ranker serve`, is refused: strangers may write it, and whatever they write would rank.

    Raises:
        InputError: the file cannot be read, or its columns are others.
    """
    path = Path(path)
    if path.is_file() and not path.stat().st_size:  # none yet
        return Wordings()
    table = read_columns(path)
    layout = find_layout(table)
    if layout != Layout.by_id and any("label" in row.fields for row in table.rows):  # perhaps in later lines only
        raise InputError(
            f"{path}: expected wordings that you know to be right, found judgements (a column label), as visitors' "
            "clicks are. Accept those that are right on the owner's page, or add them to the FAQ's column wordings."
        )
    if layout == Layout.pairs:
        return Wordings.of_pairs(_pairs_by_text(table))
    return Wordings.of_pairs(_pairs_by_id(table))


def _pairs_by_text(table: Table) -> Iterator[tuple[Name, str]]:
    """The questions and wordings of a table of pairs, with the texts of their answers.

    Rows without one of both are left out, and a warning names those that are not marked as unanswerable.
    """
    left_out: list[LeftOut] = []
    for row in table.rows:
        if is_unanswerable(row):
            continue
        if not (row.get("question") and row.get("answer")):
            left_out.append(LeftOut(row.place, "it has no question or no answer."))
            continue
        question = shown_text(row.need("question"))
        answer = row.need("answer")
        names = names_of("", answer, shown_text(answer))
        for wording in (question, *Entry.of(row).wordings):
            for name in names:
                yield name, wording
    log_left_out(table.path, left_out)


def _pairs_by_id(table: Table) -> Iterator[tuple[Name, str]]:
    """The questions of a table, with the ids of their answers."""
    for row in table.rows:
        question = shown_text(row.need("question"))
        if not is_unanswerable(row):
            for answer_id in row.need("answer_ids").split():
                yield (ID, answer_id), question


def _of_all(files: Sequence[Wordings]) -> Wordings:
    """The wordings of several files together."""
    return Wordings.of_pairs(chain.from_iterable(file.pairs() for file in files))


@lru_cache(maxsize=16)
def _read(path: Path, version: tuple[int, ...]) -> Wordings:
    """What all components of a process that follow a file share."""
    return read_wordings(path)


def _read_now(path: Path) -> Wordings:
    return _read(path, file_version(path))


class WordingFiles:
    """The wordings of several files, which are followed, so that a new wording counts at once. Threads may share it.

    InputError if a file cannot be read; later, while a file is being edited, its last readable version counts.
    """

    def __init__(self) -> None:
        self._files: dict[str, Watched[Wordings]] = {}
        self._merged: Latest[Wordings] = Latest()

    def now(self, paths: Iterable[str | Path]) -> Wordings:
        """The wordings of these files as they are now; the same object until one changes."""
        files: list[Wordings] = []
        for path in map(str, paths):
            if path not in self._files:
                self._files[path] = Watched(path, _read_now)
            files.append(self._files[path].now())
        return self._merged.get(files, partial(_of_all, files))


def read_with_wordings(
    source: Dataset | str | Path,
    split: str,
    *,
    wordings: str | Path | None = None,
    answers: Path | None = None,
    match: Match = DEFAULT_MATCH,
    columns: tuple[str, str] | None = None,
) -> Dataset:
    """Read questions to evaluate; their answers have their known wordings, as in a search over them.

    These are those of a file `wordings`, as for `read_wordings`; by default the questions of a folder's `train.*`. The
    other arguments and the errors are those of `read_dataset` and `with_wordings_of`. A `Dataset` is read already.
    """
    if isinstance(source, Dataset):
        if wordings is None:
            return source
        return with_wordings_of(source, wordings)
    dataset = read_dataset(source, split, answers=answers, match=match, columns=columns)
    if wordings is not None:
        return with_wordings_of(dataset, wordings)
    folder = Path(source)
    if dataset.judged or find_split(folder, "train") is None:
        return dataset
    return with_wordings(dataset, read_dataset(folder, "train", answers=answers, match=match, columns=columns))


def wordings_of(
    entries: Sequence[Entry], texts: Sequence[str], wordings: Wordings = NO_WORDINGS
) -> list[tuple[str, ...]]:
    """The wordings of each entry, its stored question first: its own, and those that are known of its id or text."""
    wordings_of_entries: list[tuple[str, ...]] = []
    for entry, text in zip(entries, texts, strict=True):
        further = wordings.of(entry.other.get("aid", ""), text, entry.answer)
        wordings_of_entries.append(tuple(dict.fromkeys((*entry.questions, *further))))
    return wordings_of_entries


def searched_faq(source: str, entries: Sequence[Entry], match: Match, wordings: Wordings = NO_WORDINGS) -> Dataset:
    """Entries as a search ranks them, without any question: each with its known wordings, its stored question first."""
    texts = [entry.text(match) for entry in entries]
    answers: list[Answer] = []
    for row, wordings_of_entry in enumerate(wordings_of(entries, texts, wordings)):
        answers.append(Answer(str(row), texts[row], wordings_of_entry, entries[row].answer))
    return Dataset(source, answers, [], answers_file=source)


def log_wordings_of_no_entry(files: Sequence[Path], entries: Sequence[Entry], match: Match) -> None:
    """Warn of each file that has wordings of entries that are not among these."""
    if not files:
        return
    names: set[Name] = set()
    for entry in entries:
        names.update(names_of(entry.other.get("aid", ""), entry.text(match), entry.answer))
    for file in files:
        reached: dict[str, bool] = {}  # a wording may have several names of its entry
        for name, text in _read_now(file).pairs():
            reached[text] = reached.get(text, False) or name in names
        lost = [text for text, is_reached in reached.items() if not is_reached]
        if lost:
            sentence = (
                f"{len(lost):,} of {len(reached):,} wordings count for nothing, as they are of no entry of this FAQ, "
                f"such as {one_line(repr(lost[0]), 80)}. Write ids as in its column aid, answers word for word."
            )
            logger.warning("%s: %s", file, sentence)


def with_wordings_of(dataset: Dataset, path: str | Path) -> Dataset:
    """Give the answers of a data set a file's known wordings, as `read_wordings`; InputError if it is `judged`."""
    dataset.require_shared_answers("Leave out --wordings.")
    wordings = read_wordings(path)
    return _with(dataset, [wordings.of(answer.id, *answer.parts) for answer in dataset.answers])


def with_wordings(dataset: Dataset, training: Dataset) -> Dataset:
    """Give the answers of a data set the training questions that they answer as known wordings, unless `judged`."""
    if dataset.judged or training.judged:
        return dataset
    pairs: list[tuple[Name, str]] = []
    for question in training.questions:
        for row in question.positives:
            for name in names_of("", training.answers[row].text):
                pairs.append((name, question.text))
    wordings = Wordings.of_pairs(pairs)
    return _with(dataset, [wordings.of("", answer.text) for answer in dataset.answers])


def _with(dataset: Dataset, wordings: Iterable[Iterable[str]]) -> Dataset:
    """The data with these further wordings of each answer."""
    answers: list[Answer] = []
    for answer, further in zip(dataset.answers, wordings, strict=True):
        distinct = dict.fromkeys((*answer.wordings, *further))
        answers.append(replace(answer, wordings=tuple(distinct)))
    return replace(dataset, answers=answers)


class EntryRows(Protocol):
    """Rows of entries, wherever these are."""

    def pairs(self, further: Wordings) -> Iterator[tuple[int, str]]:
        """Each entry's row with each of its wordings: its own, and further ones."""


class NamedRows:
    """Rows of the entries that wordings name, of which nothing else is at hand. Threads may share it."""

    def __init__(self) -> None:
        self.names: list[Name] = []
        """The name of each row, which never changes."""
        self._rows: dict[Name, int] = {}
        self._lock = threading.Lock()

    def pairs(self, further: Wordings) -> Iterator[tuple[int, str]]:
        """As of `EntryRows`, of which these have no wordings of their own."""
        with self._lock:
            for name in further.by_name:
                if name not in self._rows:
                    self._rows[name] = len(self.names)
                    self.names.append(name)
        for name, text in further.pairs():
            yield self._rows[name], text


class DocumentRows:
    """The rows of documents, which wordings find by the names of these, without reading the documents again."""

    def __init__(self, documents: Iterable[tuple[int, Sequence[str], tuple[Name, ...]]]) -> None:
        """Of each document: its row, its own wordings, and its names."""
        self._own: list[tuple[int, str]] = []
        # Hashes of the names: the texts of a million documents in a dictionary would take gigabytes.
        hashes = array("q")
        rows = array("q")
        for row, wordings_of_document, names in documents:
            for text in wordings_of_document:
                self._own.append((row, text))
            for name in names:
                hashes.append(hash(name))
                rows.append(row)
        self._hashes = np.array(hashes, np.int64)
        self._rows = np.array(rows, np.int64)

    def pairs(self, further: Wordings) -> Iterator[tuple[int, str]]:
        """As of `EntryRows`."""
        yield from self._own
        named: defaultdict[int, list[str]] = defaultdict(list)
        for name, text in further.pairs():
            named[hash(name)].append(text)
        is_named = np.isin(self._hashes, np.array(list(named), np.int64))
        for row, name in zip(self._rows[is_named].tolist(), self._hashes[is_named].tolist(), strict=True):
            for text in named[name]:
                yield row, text
