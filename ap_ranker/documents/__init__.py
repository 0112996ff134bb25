"""Reads what a search is filled with: a FAQ table, a document, or a folder of both."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ap_ranker.child_process import ChildProcess
from ap_ranker.data.faq import SHOWN as SHOWN
from ap_ranker.data.faq import Entry, finished, gone_entries, log_left_out, read_faq, why_kept
from ap_ranker.data.rows import LeftOut, Row
from ap_ranker.data.tables import FORMATS as TABLES
from ap_ranker.data.tables import PAIR, file_format, name_columns, read_table
from ap_ranker.documents.convert import FORMATS, convert_file
from ap_ranker.documents.exports import is_export
from ap_ranker.documents.folder import FileReading, find_files
from ap_ranker.documents.html import Converted, without_marks
from ap_ranker.documents.markup_questions import MarkupQuestion
from ap_ranker.documents.passages import passages_of, split
from ap_ranker.documents.sections import HEADING, marked_up, sections
from ap_ranker.errors import InputError, one_line
from ap_ranker.files import file_version
from ap_ranker.progress import Progress, untold
from ap_ranker.safe_open import save_as, what_is_at

logger = logging.getLogger(__name__)

READABLE = "a table, such as .csv or .xlsx, or a document, such as .md or .pdf"


READING = "reading documents"
"""What `on_progress` is told of."""


@dataclass(frozen=True)
class Reading:
    """What was read of a folder or a file."""

    by_file: Mapping[str, FileReading] = field(default_factory=dict)  # by the names of files
    skipped: list[LeftOut] = field(default_factory=list)  # files and folders of other kinds

    @property
    def entries(self) -> list[Entry]:
        """Passages of documents, and entries and rows of tables."""
        entries: list[Entry] = []
        for file in self.by_file.values():
            entries += file.entries
        return entries

    @property
    def files(self) -> int:
        """Number of files that they come from."""
        return sum(bool(file.entries) for file in self.by_file.values())

    @property
    def left_out(self) -> list[LeftOut]:
        """What could not be read, and why."""
        left_out = list(self.skipped)
        for file in self.by_file.values():
            left_out += file.left_out
        return sorted(left_out, key=lambda left: left.place)


def read_entries(path: Path, columns: tuple[str, str] | None = None, on_progress: Progress = untold) -> list[Entry]:
    """Read the entries to search, and log what was left out; arguments and errors as for `read_documents`."""
    if is_faq(path):
        on_progress(READING, 0, 1)
        entries = read_faq(path, columns)
        on_progress(READING, 1, 1)
        return entries
    reading = read_documents(path, columns, on_progress=on_progress)
    log_reading(path, reading)
    return reading.entries


def log_reading(path: Path, reading: Reading, logged_before: Collection[LeftOut] = ()) -> None:
    """Log what was read of a folder, and what was left out, except what is known."""
    logger.info("%s: %s passages of %s files.", path, f"{len(reading.entries):,}", f"{reading.files:,}")
    log_left_out(path, [left for left in reading.left_out if left not in logged_before])


def is_faq(path: Path) -> bool:
    """Whether it can only be a FAQ: a table, or a name of nothing that can be read."""
    kind = what_is_at(path)
    if kind != "a file":
        return kind != "a folder"
    return file_format(path) in TABLES and not is_export(path)


def read_documents(
    path: Path,
    columns: tuple[str, str] | None = None,
    earlier: Reading | None = None,
    on_progress: Progress = untold,
) -> Reading:
    """Read a document, or a folder of documents and tables with all folders in it.

    Documents are split at headings, then to the length that a model reads. A table with questions and answers gives
    its entries, another one a passage per row. What cannot be read is left out.

    Args:
        path: the file or folder.
        columns: the names of a table's columns of questions and answers; by default they are recognized.
        earlier: a reading before: files that have not changed, or cannot be read any more, keep what was read of them.
        on_progress: called with the number of files that are read, and their total.

    Raises:
        InputError: nothing at all could be read, or no table has `columns`.
    """
    is_folder = what_is_at(path) == "a folder"
    if (path / "model.safetensors").is_file():
        raise InputError(f"{path}: expected {READABLE}, found a checkpoint. Name it with --model.")
    root = path if is_folder else path.parent
    files, skipped = find_files(path) if is_folder else ([path], [])
    earlier_files = earlier.by_file if earlier else {}
    by_file: dict[str, FileReading] = {}
    with ChildProcess() as child:
        for n_read, file in enumerate(files):
            on_progress(READING, n_read, len(files))
            path_in_folder = file.relative_to(root).as_posix()
            name = os.fsencode(path_in_folder).decode(errors="replace")  # the system's names may be no UTF-8
            version = file_version(file)
            before = earlier_files.get(name)
            if before is not None and before.version == version:
                by_file[name] = before
                continue
            try:
                read = replace(_read_file(file, name, columns, child), version=version)
                if before is not None and file_format(file) in TABLES:
                    read = _unless_lost(before, read, name)
                by_file[name] = read
            except (InputError, OSError) as error:
                if not is_folder:
                    raise
                by_file[name] = replace(_unread(before, error, file, name), version=version)
    on_progress(READING, len(files), len(files))
    reading = Reading(by_file, skipped)
    if not reading.files:
        example = ""
        if reading.left_out:
            example = f" ({one_line(reading.left_out[0], 60)})"
        advice = "Put one there, or name another folder."
        raise InputError(f"{path}: expected {READABLE}, found none that can be read{example}. {advice}")
    if columns and not any(file.has_columns for file in by_file.values()):
        named = f"the columns {columns[0]!r} and {columns[1]!r} that --columns names"
        raise InputError(f"{path}: expected a table with {named}, found none.")
    return reading


def _unread(before: FileReading | None, error: InputError | OSError, file: Path, name: str) -> FileReading:
    """What is kept of a file that cannot be read: what it was before, if that had entries, and why it is left out."""
    reason = str(error).removeprefix(str(file)).lstrip(":, ")
    if isinstance(error, OSError):
        reason = f"cannot be read ({error.strerror})."
    if before is not None and before.entries:
        return replace(before, left_out=[LeftOut(name, f"{reason} What it was before still counts.")])
    return FileReading([], left_out=[LeftOut(name, reason)])


def _unless_lost(before: FileReading, read: FileReading, name: str) -> FileReading:
    """What was read of a table; what it was before, if too many entries are gone in one step."""
    gone = gone_entries(before.entries, read.entries)
    if not gone:
        return read
    return replace(before, version=read.version, left_out=[LeftOut(name, why_kept(gone, before.entries))])


def _read_file(file: Path, name: str, columns: tuple[str, str] | None, child: ChildProcess) -> FileReading:
    if file_format(file) in TABLES and not is_export(file):
        return _read_rows(file, name, columns)
    if file.suffix.lower() not in FORMATS:
        raise InputError(
            f"{file}: expected {READABLE}, found another kind of file.{save_as(file) or ' Save it as one of these.'}"
        )
    converted = convert_file(file, child)
    parts = sections(converted)
    markup_questions = marked_up(converted, parts)
    entries = passages_of(converted, parts, markup_questions, name)
    if not entries:
        raise InputError(f"{file}: expected text, found none{converted.advice}.")
    faults = []
    for place, fault in converted.faults:
        faults.append(LeftOut(f"{name}, {place}" if place else name, fault))
    questions: list[MarkupQuestion] = []
    for part in parts:
        if part.question:
            answer = without_marks(part.text)
            questions.append(
                MarkupQuestion(part.question, answer, kind=HEADING, headings=part.above, anchor=part.anchor)
            )
    return FileReading(entries, faults, [*questions, *markup_questions])


TRAINING = ("answer_ids", "candidate_ids", "label")
"""Columns of questions to train with or to measure by, which are not to be found."""


def _read_rows(path: Path, name: str, columns: tuple[str, str] | None) -> FileReading:
    """Read a table of a folder; `name` is its path in the folder, which becomes the source of its entries."""
    raw = read_table(path, columns)
    table = name_columns(raw, guess=False)
    for column in TRAINING:
        if column in table.columns and "question" in table.columns:
            raise InputError(f"{path}: its column {column!r} belongs to training data, not to texts to search.")
    chosen = False
    if columns:
        with suppress(InputError):  # another table of the folder may have them
            table = name_columns(raw, columns)
            chosen = True
    entries: list[Entry] = []
    if not set(PAIR) <= set(table.columns):
        if path.suffix.lower() in (".json", ".yml", ".yaml"):  # such as the settings of a program
            raise InputError(f"{path}: expected articles, or questions with answers, found {table.header}.")
        for row in table.rows:
            entries += split(Converted(_as_lines(row)), name, row.place)
        return FileReading(entries, has_columns=chosen)
    complete, unfinished = finished(table)
    for entry in complete:
        entries.append(replace(entry, other={"file_path": name} | entry.other))
    left_out: list[LeftOut] = []
    for left in unfinished:
        place = name + left.place.removeprefix(str(path))
        left_out.append(replace(left, place=place))
    return FileReading(entries, left_out, has_columns=chosen)


def _as_lines(row: Row) -> str:
    """A row of any table as a text: its columns that hold one, a line each."""
    lines = []
    for column, value in row.fields.items():
        text = value.strip()
        if text:
            lines.append(f"{column}: {text}")
    return "\n".join(lines)
