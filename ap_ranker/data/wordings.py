"""Known wordings: texts of users that are known to ask for an answer. Adding one needs no training."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from ap_ranker.data.dataset import Answer, Dataset
from ap_ranker.data.faq import DEFAULT_MATCH, Entry, Match, log_left_out
from ap_ranker.data.html_cells import shown_text
from ap_ranker.data.reader import UNANSWERABLE, Layout, find_layout, find_split, read_dataset
from ap_ranker.data.rows import LeftOut
from ap_ranker.data.tables import Table, read_columns
from ap_ranker.errors import InputError
from ap_ranker.files import file_version
from ap_ranker.kept_results import Latest
from ap_ranker.text.reading import normalized
from ap_ranker.watched_file import Watched

MOST_ANSWERS = 100_000
"""Maximum number of answers whose wordings are kept at hand: every search asks for the same ones."""


@dataclass(frozen=True, eq=False)  # those of a file that was read again are others: to compare all would take long
class Wordings:
    """The known wordings of files: by the id of their answer, and by its normalized text."""

    by_id: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_text: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _wordings_of: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict, repr=False)

    def of(self, *answer: str) -> tuple[str, ...]:
        """The wordings of an answer, given its id and the forms of its text, with and without the stored question."""
        wordings = self._wordings_of.get(answer)
        if wordings is None:
            answer_id, *texts = answer
            distinct = dict.fromkeys(self.by_id.get(answer_id, ()))
            if self.by_text:
                for text in texts:
                    of_text = self.by_text.get(normalized(text), ())
                    distinct.update(dict.fromkeys(of_text))
            wordings = tuple(distinct)
            if len(self._wordings_of) < MOST_ANSWERS:
                self._wordings_of[answer] = wordings
        return wordings

    def __len__(self) -> int:
        return sum(map(len, (*self.by_id.values(), *self.by_text.values())))


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
        return Wordings(by_text=_wordings_of_pairs(table))
    return Wordings(by_id=_wordings_by_id(table))


def _wordings_of_pairs(table: Table) -> Mapping[str, Sequence[str]]:
    """The questions and wordings of a table of pairs, by the normalized text of their answer.

    Rows without one of both are left out, and a warning names them.
    """
    left_out: list[LeftOut] = []
    pairs: list[tuple[str, str]] = []
    for row in table.rows:
        if not (row.get("question") and row.get("answer")):
            left_out.append(LeftOut(row.place, "it has no question or no answer."))
            continue
        question = shown_text(row.need("question"))
        answer = row.need("answer")
        for wording in dict.fromkeys((question, *Entry.of(row).wordings)):
            for form in {answer, shown_text(answer)}:
                pairs.append((normalized(form), wording))
    log_left_out(table.path, left_out)
    return _grouped(pairs)


def _wordings_by_id(table: Table) -> Mapping[str, Sequence[str]]:
    """The questions of a table, by the ids of their answers."""
    pairs: list[tuple[str, str]] = []
    for row in table.rows:
        question = shown_text(row.need("question"))
        if row.get("answerable").lower() not in UNANSWERABLE:
            for answer_id in row.need("answer_ids").split():
                pairs.append((answer_id, question))
    return _grouped(pairs)


def _grouped(keyed: Iterable[tuple[str, str]]) -> Mapping[str, Sequence[str]]:
    """Pairs of a key and a text as key -> its texts, each once."""
    grouped: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for key, text in keyed:
        grouped[key][text] = None
    return {key: tuple(texts) for key, texts in grouped.items()}


def _merged(parts: Iterable[Mapping[str, Sequence[str]]]) -> Mapping[str, Sequence[str]]:
    """The texts of all parts by their keys, each once."""
    keyed: list[tuple[str, str]] = []
    for part in parts:
        for key, texts in part.items():
            for text in texts:
                keyed.append((key, text))
    return _grouped(keyed)


def _of_all(files: Sequence[Wordings]) -> Wordings:
    """The wordings of several files together."""
    by_id = _merged([file.by_id for file in files])
    by_text = _merged([file.by_text for file in files])
    return Wordings(by_id, by_text)


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

    def now(self, paths: Sequence[str]) -> Wordings:
        """The wordings of these files as they are now; the same object until one changes."""
        for path in paths:
            if path not in self._files:
                self._files[path] = Watched(path, _read_now)
        files = [self._files[path].now() for path in paths]
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


def wordings_of(entries: Sequence[Entry], texts: Sequence[str], files: Sequence[Wordings]) -> list[tuple[str, ...]]:
    """The known wordings of each entry, its stored question first: its own and those of files, which name its text."""
    wordings: list[tuple[str, ...]] = []
    for entry, text in zip(entries, texts, strict=True):
        distinct = dict.fromkeys(entry.questions)
        answer_id = entry.other.get("aid", "")
        for file in files:
            of_file = file.of(answer_id, text, entry.answer)
            distinct.update(dict.fromkeys(of_file))
        wordings.append(tuple(distinct))
    return wordings


def with_wordings_of(dataset: Dataset, path: str | Path) -> Dataset:
    """Give the answers of a data set a file's known wordings, as `read_wordings`; InputError if it is `judged`."""
    dataset.require_shared_answers("Leave out --wordings.")
    wordings = read_wordings(path)

    def of_file(answer: Answer) -> Iterable[str]:
        return wordings.of(answer.id, *answer.parts)

    return _with(dataset, of_file)


def with_wordings(dataset: Dataset, training: Dataset) -> Dataset:
    """Give the answers of a data set the training questions that they answer as known wordings, unless `judged`."""
    if dataset.judged or training.judged:
        return dataset
    answers = training.answers
    pairs: list[tuple[str, str]] = []
    for question in training.questions:
        for row in question.positives:
            pairs.append((normalized(answers[row].text), question.text))
    wordings = Wordings(by_text=_grouped(pairs))

    def of_training(answer: Answer) -> Iterable[str]:
        return wordings.of("", answer.text)

    return _with(dataset, of_training)


def _with(dataset: Dataset, wordings: Callable[[Answer], Iterable[str]]) -> Dataset:
    """The data with these further wordings of its answers."""
    answers: list[Answer] = []
    for answer in dataset.answers:
        all_wordings = dict.fromkeys((*answer.wordings, *wordings(answer)))
        answers.append(replace(answer, wordings=tuple(all_wordings)))
    return replace(dataset, answers=answers)


class WordingRows:
    """Finds the rows of the documents that wordings ask for, without reading the documents again."""

    def __init__(self, read: Iterable[tuple[int, Sequence[str], tuple[str, str, str]]]) -> None:
        """Of each row: its own wordings, and what files may call it: its id, its content, its answer."""
        self._own: list[tuple[int, str]] = []
        # Hashes of the names: the texts of a million documents in a dictionary would take gigabytes.
        hashes = array("q")
        rows = array("q")
        for row, own_wordings, (answer_id, content, answer) in read:
            for text in own_wordings:
                self._own.append((row, text))
            names = {("id", answer_id), ("text", normalized(content)), ("text", normalized(answer))}
            for name in names:
                hashes.append(hash(name))
                rows.append(row)
        self._hashes = np.array(hashes, np.int64)
        self._rows = np.array(rows, np.int64)

    def pairs(self, files: Wordings) -> Iterator[tuple[int, str]]:
        """Each document's row with each of its wordings: those of its meta and those that files have for it."""
        yield from self._own
        named: defaultdict[int, list[str]] = defaultdict(list)
        for kind, texts_of_names in (("id", files.by_id), ("text", files.by_text)):
            for name, texts in texts_of_names.items():
                named[hash((kind, name))] += texts
        is_named = np.isin(self._hashes, np.array(list(named), np.int64))
        for row, name in zip(self._rows[is_named].tolist(), self._hashes[is_named].tolist(), strict=True):
            for text in named[name]:
                yield row, text
