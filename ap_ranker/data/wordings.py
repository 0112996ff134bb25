"""Known wordings: texts of users that are known to ask for an answer. Adding one needs no training."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from weakref import WeakValueDictionary

from ap_ranker.data.columns import read_named_table
from ap_ranker.data.dataset import Answer, Dataset
from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.data.reader import UNANSWERABLE, Layout, find_layout, find_split, read_dataset
from ap_ranker.errors import InputError
from ap_ranker.files import file_version
from ap_ranker.text.keys import normalized

logger = logging.getLogger(__name__)

MOST_ANSWERS = 100_000
"""Maximum number of answers whose wordings `WordingFiles` keeps at hand."""


@dataclass(frozen=True)
class Wordings:
    """The known wordings of a file.

    Attributes:
        by_id: id of an answer -> its wordings.
        by_text: normalized text of an answer -> its wordings.
    """

    by_id: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_text: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def of(self, answer_id: str, *texts: str) -> Iterable[str]:
        """The wordings of an answer, given its id and the forms of its text, with and without the stored question."""
        yield from self.by_id.get(answer_id, ())
        if self.by_text:
            for text in dict.fromkeys(map(normalized, texts)):
                yield from self.by_text.get(text, ())

    def __len__(self) -> int:
        return sum(map(len, (*self.by_id.values(), *self.by_text.values())))


def read_wordings(path: str | Path) -> Wordings:
    """Read the wordings of a file: training questions, or further wordings of FAQ entries.

    Args:
        path: a file with the columns question and answer_ids, or question and answer. One with a column label, such as
            the feedback of `ap-ranker serve`, is refused: strangers may write it, and whatever they write would rank.

    Raises:
        InputError: the file cannot be read, or its columns are others.
    """
    path = Path(path)
    by_id: defaultdict[str, dict[str, None]] = defaultdict(dict)
    by_text: defaultdict[str, dict[str, None]] = defaultdict(dict)
    if path.is_file() and not path.stat().st_size:  # none yet
        return Wordings()
    table = read_named_table(path, guess=False)
    layout = find_layout(table)
    if layout != Layout.by_id and any("label" in row.fields for row in table.rows):  # perhaps in later lines only
        raise InputError(
            f"{path}: expected wordings that you know to be right (question, answer; or question, answer_ids), found "
            f"judgements (a column label), as visitors' clicks are. See what they say helped, `ap-ranker wordings "
            f"{path}`, and add what you accept to the FAQ's column wordings, or to a file of your own."
        )
    for row in table.rows:
        question = row.need("question")
        if layout == Layout.pairs:
            by_text[normalized(row.need("answer"))][question] = None
        elif row.get("answerable").lower() not in UNANSWERABLE:
            for answer_id in row.need("answer_ids").split():
                by_id[answer_id][question] = None
    return Wordings(*({key: tuple(texts) for key, texts in known.items()} for known in (by_id, by_text)))


class _WordingFile:
    """One file, which is read again when it has changed; all components of a process that name it share what was read.

    Attributes:
        wordings: what was read last.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.wordings = Wordings()
        self._version: tuple[int, ...] | None = None  # that was read
        self._tried: tuple[int, ...] | None = None
        self._lock = threading.Lock()

    def read(self) -> None:
        """Read it unless this was done already; raises `InputError`."""
        with self._lock:
            if (version := file_version(self._path)) != self._version:
                self._read(version)

    def refresh(self) -> None:
        """Read it if it has changed."""
        with self._lock:
            if (version := file_version(self._path)) == self._tried:
                return
            try:
                self._read(version)
            except InputError as error:
                logger.warning("%s: the wordings read before still count: %s", self._path, error)

    def _read(self, version: tuple[int, ...]) -> None:
        """Read it; its version was taken before, so that a change meanwhile is seen by the next look."""
        self._tried = version
        self.wordings = read_wordings(self._path)
        self._version = version


_shared: WeakValueDictionary[Path, _WordingFile] = WeakValueDictionary()
_sharing = threading.Lock()


def _wording_file(path: Path) -> _WordingFile:
    with _sharing:
        return _shared.setdefault(path.absolute(), _WordingFile(path))


class WordingFiles:
    """The wordings of several files, which are read again when they change, so that a new wording counts at once.

    Threads may share it.

    Attributes:
        current: the wordings of each file; another tuple after every change.

    Raises:
        InputError: a file cannot be read; later, while a file is being edited, its last readable version counts.
    """

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.current: tuple[Wordings, ...] = ()
        self._files: list[_WordingFile] = []
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._lock = threading.Lock()
        for path in map(Path, paths):
            self.add(path)

    def add(self, path: Path) -> None:
        """Follow one more file."""
        file = _wording_file(path)
        file.read()
        with self._lock:
            if file not in self._files:
                self._files.append(file)
            self._update()

    def of(self, answer_id: str, *texts: str) -> tuple[str, ...]:
        """The wordings of an answer in all files, as `Wordings.of`."""
        answer, known = (answer_id, *texts), self._known  # every search asks for the same answers
        wordings = known.get(answer)
        if wordings is None:
            wordings = tuple(dict.fromkeys(text for file in self.current for text in file.of(*answer)))
            if len(known) < MOST_ANSWERS:
                known[answer] = wordings
        return wordings

    def refresh(self) -> None:
        """Read the files that have changed."""
        for file in self._files:
            file.refresh()
        with self._lock:
            self._update()

    def _update(self) -> None:
        current = tuple(file.wordings for file in self._files)
        if current != self.current:
            self.current = current
            self._known = {}  # not `clear`: another thread may be about to add what it found before


def read_with_wordings(
    source: str | Path,
    split: str,
    *,
    wordings: str | Path | None = None,
    answers: Path | None = None,
    pools: Path | None = None,
    match: Match = DEFAULT_MATCH,
    columns: tuple[str, str] | None = None,
) -> Dataset:
    """Read questions to evaluate; their answers have their known wordings, as in a search over them.

    Args:
        source: as for `read_dataset`; of a folder, the questions of `train.*` are known wordings.
        split: as for `read_dataset`, like the arguments after the next.
        wordings: a file of wordings, as for `read_wordings`, in place of these.
        answers: the file of answers.
        pools: the candidate pools.
        match: the text to match, for answers with a stored question.
        columns: the names of the columns of questions and answers, as for `read_dataset`.

    Raises:
        InputError: a file cannot be read, or as `with_wordings_of`.
    """
    dataset = read_dataset(source, split, answers=answers, pools=pools, match=match, columns=columns)
    if wordings is not None:
        return with_wordings_of(dataset, wordings)
    folder = Path(source)
    if dataset.judged or not folder.is_dir() or find_split(folder, "train") is None:
        return dataset
    return with_wordings(dataset, read_dataset(folder, "train", answers=answers, match=match, columns=columns))


def with_wordings_of(dataset: Dataset, path: str | Path) -> Dataset:
    """Give the answers of a data set the known wordings of a file, as for `read_wordings`.

    Raises:
        InputError: the file cannot be read, or the data set is `judged`.
    """
    if dataset.judged:
        raise InputError(
            f"{path}: expected known wordings of answers that all questions share, but each of {dataset.name} was "
            "judged for one question. Leave out --wordings."
        )
    known = read_wordings(path)
    return _with(dataset, lambda answer: known.of(answer.id, *answer.parts))


def with_wordings(dataset: Dataset, training: Dataset) -> Dataset:
    """Give the answers of a data set the training questions that they answer as known wordings.

    The data of `judged` candidates stays as it is: its answers belong to one question each.
    """
    if dataset.judged or training.judged:
        return dataset
    known: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for question in training.questions:
        for row in question.positives:
            known[normalized(training.answers[row].text)][question.text] = None
    return _with(dataset, lambda answer: known.get(normalized(answer.text), ()))


def _with(dataset: Dataset, wordings: Callable[[Answer], Iterable[str]]) -> Dataset:
    answers = [
        replace(answer, wordings=tuple(dict.fromkeys((*answer.wordings, *wordings(answer)))))
        for answer in dataset.answers
    ]
    return replace(dataset, answers=answers)
