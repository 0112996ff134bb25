"""The log of questions, if the owner of a website wants one: what was asked, and what came of it.

Nothing that goes wrong here reaches an answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any
from unicodedata import category

from sqlalchemy import Connection, and_, delete, func, insert, or_, select

from ap_ranker.errors import InputError
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.threads import in_daemon_thread
from ap_ranker.web.database import Database, judgements, now, questions, storable
from ap_ranker.web.judgements import is_dismissed, key_of_question
from ap_ranker.web.visitors import Visitors

if TYPE_CHECKING:
    from haystack import Document

logger = logging.getLogger(__name__)

LONGEST = 500
"""Maximum number of characters of a logged question."""

MOST = 100_000
"""Maximum number of questions that are kept; beyond it, the oldest ones go."""

MOST_WAITING = 1000
"""Maximum number of questions that wait to be written; beyond it, further ones are left out."""

CLOSE_SECONDS = 30.0
"""Maximum number of seconds that a server's end waits for questions to be written: a database may hang for ever."""


JOINERS = "\u200b\u200c\u200d"
"""Characters without a width that spell words, as in Persian, Malayalam, Sinhala, Khmer and in emoji."""


def clean_question(text: str) -> str:
    """A question without control characters and repeated white space, cut after `LONGEST` characters.

    What is invisible goes, such as a soft hyphen within a word, but for the joiners that spell it.
    """
    if not text.isprintable():  # most questions are
        text = "".join(map(_printable, text))
    words = [word.strip(JOINERS) for word in text.split()]
    return " ".join(filter(None, words))[:LONGEST].rstrip()


def _printable(character: str) -> str:
    if character.isprintable() or character in JOINERS:
        return character
    return "" if category(character) == "Cf" else " "


def keys_in_log(connection: Connection) -> dict[str, str]:
    """The key of each judged question that the log has otherwise, cleaned and cut -> its key there."""
    keys: dict[str, str] = {}
    for question, key in connection.execute(select(judgements.c.question, judgements.c.question_key).distinct()):
        logged = clean_question(question)
        if logged != question:
            keys[key] = key_of_question(logged)
    return keys


def asked_questions(database: Database, most: int) -> list[str]:
    """The different questions of the log, those asked most often and latest first."""
    query = (
        select(func.max(questions.c.question))
        .group_by(questions.c.question_key)
        .order_by(func.count().desc(), func.max(questions.c.id).desc())
        .limit(most)
    )
    with database.reading() as connection:
        return list(connection.scalars(query))


def unanswered_questions(database: Database, most: int) -> list[tuple[str, int]]:
    """The questions without an answer, those asked most often and latest first, each with how often it was asked.

    So nobody hides what many ask by asking much else. One that got maybes has an answer once one of them helped; one
    that the owner has dismissed needs none.
    """
    same = judgements.c.question_key == questions.c.question_key
    helped = select(judgements.c.id).where(same, judgements.c.helped).exists()
    maybe = and_(questions.c.outcome == Outcome.MAYBE.value, ~helped)
    query = (
        select(func.max(questions.c.question), func.count())
        .where(or_(questions.c.outcome == Outcome.NONE.value, maybe), ~is_dismissed(questions.c.question_key))
        .group_by(questions.c.question_key)
        .order_by(func.count().desc(), func.max(questions.c.id).desc())
        .limit(most)
    )
    with database.reading() as connection:
        return [(question, count) for question, count in connection.execute(query)]


class QuestionLog:
    """Writes questions and their outcomes into a database, in a thread of its own.

    If they cannot be written, or come faster than they can be, one warning says so, and these questions are left out;
    those of a network beyond its quota of a day are left out, too.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._visitors = Visitors(database)
        self._waiting: list[tuple[dict[str, Any], str]] = []
        self._warned: set[str] = set()
        self._lock = threading.Lock()
        self._is_writing = False
        self._written: Future[None] | None = None  # the latest writing

    def add(self, question: str, network: str, outcome: Outcome, candidates: Sequence[Document]) -> None:
        """Log a question without waiting, with its best candidate, whether it was shown or not; that is the first."""
        if len(self._waiting) >= MOST_WAITING:
            self._warn("Questions come faster than they can be logged; some are left out.")
            return
        text = storable(clean_question(question))
        row = {
            "time": now(),
            "question": text,
            "question_key": key_of_question(text),
            "outcome": outcome,
            "score": candidates[0].score if candidates else None,
            "entry": storable(candidates[0].id) if candidates else "",
        }
        with self._lock:
            self._waiting.append((row, network))
            if not self._is_writing:
                self._is_writing = True
                self._written = in_daemon_thread(self._write)

    def close(self) -> None:
        """Write what is waiting, and end; what the database does not take within `CLOSE_SECONDS` is left out."""
        if self._written is None:
            return
        try:
            self._written.result(CLOSE_SECONDS)
        except TimeoutError:
            self._warn(f"The last questions were not logged within {CLOSE_SECONDS:g} seconds.")

    def _write(self) -> None:
        """Write what waits, all of it together, until nothing is left."""
        while True:
            with self._lock:
                batch = list(self._waiting)
                self._waiting.clear()
                if not batch:
                    self._is_writing = False
                    return
            self._write_batch(batch)

    def _write_batch(self, batch: Sequence[tuple[dict[str, Any], str]]) -> None:
        try:
            with self._database.writing("questions") as connection:
                rows = []
                for row, network in batch:
                    if self._visitors.takes(connection, network, kind="question"):
                        rows.append(row)
                if rows:
                    connection.execute(insert(questions), rows)
                    newest = select(func.max(questions.c.id)).scalar_subquery()
                    too_old = delete(questions).where(questions.c.id <= newest - MOST)
                    if connection.execute(too_old).rowcount:
                        self._database.note_deletion(connection)
        except InputError as error:
            self._warn(f"Questions cannot be logged. {error}")
        except Exception:  # a defect of ours: the thread would keep it to itself
            logger.exception("A question was not logged.")

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            logger.warning("%s Answers are not affected; this warning is not repeated.", sentence)
