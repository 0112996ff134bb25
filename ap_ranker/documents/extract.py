"""Makes a FAQ of the questions that documents ask themselves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ap_ranker.data.faq import Entry, read_faq
from ap_ranker.data.rows import LeftOut
from ap_ranker.documents import is_faq, read_documents
from ap_ranker.documents.html import letters
from ap_ranker.documents.markup_questions import DEFINITION, DETAILS, JSON_LD, MICRODATA, TABLE, MarkupQuestion
from ap_ranker.documents.sections import HEADING
from ap_ranker.errors import InputError
from ap_ranker.progress import Progress, untold
from ap_ranker.safe_open import require_file
from ap_ranker.text.question_keys import question_key

KINDS = {
    HEADING: "headings that ask",
    DETAILS: "details with a summary",
    DEFINITION: "terms of definition lists",
    TABLE: "rows of tables with questions and answers",
    MICRODATA: "questions of schema.org (microdata)",
    JSON_LD: "questions of schema.org (JSON-LD)",
}
"""Kind -> what it is called to users."""


@dataclass(frozen=True)
class Extracted:
    """The questions of a folder."""

    entries: list[tuple[MarkupQuestion, str]]  # each question with its answer once, and its source: `file#anchor`
    kinds: Counter[str]  # the number of entries of each kind, as called in `KINDS`
    merged: int  # number of entries left out because another one says the same
    left_out: list[LeftOut]
    without: int  # number of documents that ask nothing

    @property
    def faq(self) -> list[Entry]:
        """The same as entries of a FAQ, for a table that a person can edit."""
        faq: list[Entry] = []
        for question, place in self.entries:
            other = {"source": place}
            faq.append(Entry(question.question, question.answer, other=other, place=place, wordings=question.wordings))
        return faq


def extract(path: Path, on_progress: Progress = untold) -> Extracted:
    """Find the questions that documents ask themselves; tables stay as they are.

    These are headings that ask, `details`, definition lists, tables in them, and the questions of schema.org's
    `FAQPage`. A question found twice counts once if one answer contains the other, the longer one; otherwise both stay.
    If nothing is found, or it is a table, InputError is raised. `on_progress` is as for `read_documents`.
    """
    if is_faq(path):
        require_file(path)
        read_faq(path)  # what serve would refuse, too, is said here
        raise InputError(f"{path}: expected documents, found a table. To search it: ap-ranker serve {path}")
    reading = read_documents(path, on_progress=on_progress)
    entries: list[MarkupQuestion] = []
    places: list[str] = []
    for name, file in reading.by_file.items():
        for entry in file.questions:
            entries.append(entry)
            place = f"{name}#{entry.anchor}" if entry.anchor else name
            places.append(place)
    rows = _without_copies(entries)
    if not rows:
        expected = "headings that ask a question, details, definition lists, tables or a FAQPage of schema.org"
        instead = f"Their passages can be searched as they are: ap-ranker serve {path}"
        raise InputError(f"{path}: expected {expected}, found none in {reading.files:,} files. {instead}")
    n_without = 0
    for file in reading.by_file.values():
        if file.entries and not file.questions:
            n_without += 1
    return Extracted(
        [(entries[row], places[row]) for row in rows],
        Counter(entries[row].kind for row in rows),
        merged=len(entries) - len(rows),
        left_out=reading.left_out,
        without=n_without,
    )


def _without_copies(entries: Sequence[MarkupQuestion]) -> list[int]:
    """The positions of those that no other one with the same question contains."""
    # Key of a question -> position -> letters of the answer.
    answers_of_questions: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for position, entry in enumerate(entries):
        answer = letters(entry.answer.casefold())
        answers = answers_of_questions[question_key(entry.question)]
        if any(answer in other_answer for other_answer in answers.values()):
            continue
        for earlier in [earlier for earlier, other_answer in answers.items() if other_answer in answer]:
            del answers[earlier]
        answers[position] = answer
    positions: list[int] = []
    for answers in answers_of_questions.values():
        positions += answers
    return sorted(positions)
