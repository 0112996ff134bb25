"""FAQ entries: an answer, its stored question, and the text that a user's question is matched with."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ap_ranker.data.html_cells import as_cell, shown_text
from ap_ranker.data.placeholders import is_no_wording
from ap_ranker.data.rows import WORDING_COLUMNS, Columns, LeftOut, Row, stripped
from ap_ranker.data.tables import COLUMNS_OPTION, Table, read_named_table
from ap_ranker.errors import InputError, check_known, one_line
from ap_ranker.files import csv_text, write_text_atomically
from ap_ranker.text.question_keys import question_key
from ap_ranker.text.reading import normalized

logger = logging.getLogger(__name__)


class Match(StrEnum):
    """The text of an entry that a user's question is matched with."""

    both = "both"
    answer = "answer"
    question = "question"

    @classmethod
    def _missing_(cls, value: object) -> None:
        check_known("match", value, cls)


# Measured on the example FAQ, see "Which text is matched" in the README.
DEFAULT_MATCH = Match.both


@dataclass(frozen=True)
class Entry:
    """One FAQ entry, or a passage of a document, which has no question; `other` are the file's other columns.

    `title` is the title path of a passage, such as `Handbook > Returns`: part of every text that is matched.
    """

    question: str
    answer: str
    other: dict[str, str]
    place: str
    wordings: tuple[str, ...] = ()
    title: str = ""

    @classmethod
    def of(cls, row: Row) -> Entry:
        """The entry of a row, which must have an answer."""
        other: dict[str, str] = {}
        for name, text in row.fields.items():
            if name not in ("question", "answer") and not WORDING_COLUMNS.fullmatch(name):
                other[name] = text
        return cls(
            shown_text(row.get("question")),
            shown_text(row.need("answer")),
            other=other,
            place=row.place,
            wordings=wordings_of(row),
        )

    @property
    def questions(self) -> tuple[str, ...]:
        """Its stored question and the further wordings, each once."""
        return tuple(filter(None, dict.fromkeys((self.question, *self.wordings))))

    def text(self, match: Match) -> str:
        """The text to match a question with; the answer alone if the entry has no stored question, after any title."""
        question = "" if match == Match.answer else self.question
        answer = "" if match == Match.question and question else self.answer
        return "\n".join(filter(None, (self.title, question, answer)))


def wordings_of(row: Row) -> tuple[str, ...]:
    """The further wordings of a row's question, each once, without such as `-` and `N/A`, which nobody asks."""
    wordings: dict[str, None] = {}
    for line in wording_lines(row):
        wording = shown_text(line)
        if not is_no_wording(wording):
            wordings[wording] = None
    return tuple(wordings)


def wording_lines(row: Row) -> Iterator[str]:
    """The lines of a row's columns of wordings, as they are written."""
    for name, text in row.fields.items():
        if WORDING_COLUMNS.fullmatch(name):
            yield from filter(None, map(stripped, text.splitlines()))


def have_questions(entries: Sequence[Entry]) -> bool:
    """Whether most entries have a stored question, as those of a FAQ have and passages of documents have not."""
    return 2 * sum(bool(entry.question) for entry in entries) >= len(entries)


def read_faq(path: Path, columns: tuple[str, str] | None = None) -> list[Entry]:
    """Read the entries of a table with a column `answer` and, usually, `question`.

    Columns `wording`, `wordings`, `wording 2` ... hold further wordings of the question, one per line. `columns` are
    the names of its columns of questions and answers; by default they are recognized. Rows without an answer are left
    out, and a warning names them. InputError if the file cannot be read, has no such column or no answer at all.
    """
    entries, left_out = read_finished(path, columns)
    log_left_out(path, left_out)
    return entries


def read_finished(path: Path, columns: Columns = None) -> tuple[list[Entry], list[LeftOut]]:
    """The entries of a FAQ, as `read_faq`, and the rows that are left out, since they have no answer."""
    return finished(read_faq_table(path, columns))


def read_faq_table(path: Path, columns: Columns = None) -> Table:
    """The table of a FAQ, with the rows that have no answer; errors as `read_faq`."""
    table = read_named_table(path, columns)
    if "answer" not in table.columns:
        advice = "Write the answers into one."
        if len(table.columns) > 1:
            advice = f"Name yours: {COLUMNS_OPTION}."
        raise InputError(f"{path}: expected a column 'answer' (and 'question'), found {table.header}. {advice}")
    if not any(map(_is_finished, table.rows)):
        Entry.of(table.rows[0])  # says what is missing
    return table


def finished(table: Table) -> tuple[list[Entry], list[LeftOut]]:
    """The entries of a table's rows, and the rows that have no answer yet."""
    entries: list[Entry] = []
    left_out: list[LeftOut] = []
    for row in table.rows:
        if _is_finished(row):
            entries.append(Entry.of(row))
        else:
            text = one_line(repr(_first_text(row)), 60)
            left_out.append(LeftOut(row.place, f"it has no answer ({text})."))
    return entries, left_out


def _is_finished(row: Row) -> bool:
    return bool(row.get("answer"))


def _first_text(row: Row) -> str:
    """What tells which row it is: its question, or else its first text; empty if it has none."""
    for column in ("question", *row.fields):
        text = row.get(column)
        if text:
            return text
    return ""


MOST_GONE = 20
SHARE_GONE = 0.1
FEW_GONE = 2
"""From so many entries on, or above such a share of them, a new version of a file has lost entries. One or two that go
are an edit."""

SHORT = 10
SHORT_SHARE = 0.5
"""A file with fewer entries has no tenth to lose: of it, more than half must go, and it must have become shorter. Who
writes a short file anew sees all of it."""


def gone_entries(before: Sequence[Entry], after: Sequence[Entry]) -> list[Entry]:
    """The entries of a file of which a new version has neither the question nor the answer, if these are too many."""
    questions: set[str] = set()
    for entry in after:
        questions.update(map(question_key, entry.questions))
    questions.discard("")
    answers = {normalized(entry.answer) for entry in after}
    gone = []
    for entry in before:
        if question_key(entry.question) not in questions and normalized(entry.answer) not in answers:
            gone.append(entry)
    if len(gone) >= MOST_GONE:
        return gone
    is_short = len(before) < SHORT
    if is_short and len(after) >= len(before):
        return []
    share = SHORT_SHARE if is_short else SHARE_GONE
    if len(gone) > max(FEW_GONE, share * len(before)):
        return gone
    return []


def why_kept(gone: Sequence[Entry], before: Sequence[Entry]) -> str:
    """Why the version of a file before is kept, and what its owner can do."""
    first = ", ".join(one_line(repr(entry.question or entry.answer), 60) for entry in gone[:3])
    return (
        f"{len(gone):,} of {len(before):,} entries are gone from it, such as {first}. The search keeps what it had "
        "read. Was that an accident? Save the file as it was. Was it meant? Restart the server."
    )


SHOWN = 10
"""Maximum number of rows or files left out that are named while a command goes on; `ap-ranker check` names all."""


def log_left_out(path: Path, left_out: Sequence[LeftOut]) -> None:
    """Log what was left out of a file or folder."""
    for left in left_out[:SHOWN]:
        logger.warning("%s", left)
    more = len(left_out) - SHOWN
    if more > 0:
        logger.warning("%s more left out. List them: ap-ranker check %s", f"{more:,}", path)


def lines_of_wordings(wordings: Iterable[str]) -> list[str]:
    """Wordings as the lines of a cell, in which no other sign ends a line."""
    return [as_cell(" ".join(wording.split())) for wording in wordings]


def write_entries(entries: Sequence[Entry], path: Path) -> None:
    """Write the entries of a FAQ as a CSV file: their other columns, question, answer and wordings, one per line."""
    other_columns: dict[str, None] = {}
    for entry in entries:
        other_columns.update(dict.fromkeys(entry.other))
    rows = []
    for entry in entries:
        row = [entry.other.get(name, "") for name in other_columns]
        row.append(as_cell(entry.question))
        row.append(as_cell(entry.answer))
        row.append("\n".join(lines_of_wordings(entry.wordings)))
        rows.append(row)
    write_text_atomically(path, csv_text([*other_columns, "question", "answer", "wordings"], rows))
