"""Makes a FAQ of the questions that documents ask themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ap_ranker.documents import is_faq, read_documents
from ap_ranker.documents.folder import LeftOut
from ap_ranker.documents.markup_questions import DEFINITION, DETAILS, JSON_LD, MICRODATA, StatedEntry
from ap_ranker.documents.questions import HEADING
from ap_ranker.errors import InputError
from ap_ranker.files import csv_text, write_text_atomically
from ap_ranker.safe_open import require_file
from ap_ranker.text.keys import question_key

KINDS = {
    HEADING: "headings that ask",
    DETAILS: "details with a summary",
    DEFINITION: "terms of definition lists",
    MICRODATA: "questions of schema.org (microdata)",
    JSON_LD: "questions of schema.org (JSON-LD)",
}
"""Kind -> what it is called to users."""


@dataclass(frozen=True)
class Extracted:
    """The questions of a folder.

    Attributes:
        entries: each question with its answer once, and its source: `file#anchor`.
        kinds: the number of entries of each kind, as called in `KINDS`.
        by_file: the number of entries of each file.
        merged: number of entries left out because another one says the same.
        left_out: what could not be read.
        without: number of documents that ask nothing.
    """

    entries: list[tuple[StatedEntry, str]]
    kinds: Counter[str]
    by_file: Counter[str]
    merged: int
    left_out: list[LeftOut]
    without: int


def extract(path: Path) -> Extracted:
    """Find the questions that documents ask themselves; tables stay as they are.

    These are headings that ask, `details`, definition lists, and the questions of schema.org's `FAQPage`. A question
    found twice counts once if one answer contains the other, the longer one; otherwise both stay.

    Raises:
        InputError: nothing can be read, it is a table, or no question is found.
    """
    if is_faq(path):
        require_file(path)
        raise InputError(f"{path}: expected documents, found a table. To search it: ap-ranker serve {path}")
    reading = read_documents(path)
    found = [
        (entry, f"{name}#{entry.anchor}" if entry.anchor else name, name)
        for name, file in reading.by_file.items()
        for entry in file.questions
    ]
    kept = _without_copies([entry for entry, _, _ in found])
    if not kept:
        raise InputError(
            f"{path}: expected headings that ask a question, details, definition lists or a FAQPage of schema.org, "
            f"found none in {reading.files:,} files. Their passages can be searched as they are: ap-ranker serve {path}"
        )
    rows = [found[i] for i in kept]
    return Extracted(
        [(entry, source) for entry, source, _ in rows],
        Counter(entry.kind for entry, _, _ in rows),
        Counter(name for _, _, name in rows),
        len(found) - len(rows),
        reading.left_out,
        sum(bool(file.entries) and not file.questions for file in reading.by_file.values()),
    )


def _without_copies(entries: Sequence[StatedEntry]) -> list[int]:
    """The positions of those that no other one with the same question contains."""
    kept: dict[str, list[tuple[int, str]]] = {}
    for i, entry in enumerate(entries):
        letters = "".join(filter(str.isalnum, entry.answer.casefold()))
        same = kept.setdefault(question_key(entry.question), [])
        if not any(letters in other for _, other in same):
            same[:] = [each for each in same if each[1] not in letters]
            same.append((i, letters))
    return sorted(i for same in kept.values() for i, _ in same)


def write_faq(extracted: Extracted, output: Path, *, overwrite: bool = False) -> None:
    """Write the questions as a FAQ, a CSV file that a person can edit.

    Its columns are question, answer, source and, if there are further wordings, wordings.

    Raises:
        InputError: there is a file already, and `overwrite` is not set.
        WriteError: the file cannot be written.
    """
    rows = [(entry.question, entry.answer, source, "\n".join(entry.wordings)) for entry, source in extracted.entries]
    write_table(output, ("question", "answer", "source", "wordings"), rows, overwrite=overwrite)


def check_output(output: Path, *, overwrite: bool) -> None:
    """Refuse a file that exists, unless it is to be replaced; and one that is not a CSV file.

    Raises:
        InputError: it is such a file.
    """
    if output.suffix.lower() != ".csv":
        raise InputError(f"{output}: expected a name ending in .csv for --output.")
    if output.exists() and not overwrite:
        raise InputError(
            f"{output}: expected a file that does not exist yet, found one. Choose another --output, or --overwrite "
            "to replace it."
        )


def write_table(
    output: Path, columns: Sequence[str], rows: Iterable[Sequence[str]], *, overwrite: bool = False
) -> None:
    """Write a CSV file, without columns that would be empty; arguments and errors as for `write_faq`."""
    check_output(output, overwrite=overwrite)
    table = list(rows)
    used = [i for i in range(len(columns)) if any(row[i] for row in table)]
    kept, *lines = ([line[i] for i in used] for line in (columns, *table))
    write_text_atomically(output, csv_text(kept, lines))
