"""Visitors' judgements of answers. They are evidence, not truth: nothing ranks by one, and nobody else sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, delete, func, select, update

from ap_ranker.text.reading import normalized, question_key
from ap_ranker.web.database import LAST_TIME, Database, judgements, now, storable, wordings
from ap_ranker.web.visitors import Visitors

MOST = 100_000
"""Maximum number of judgements that are kept; beyond it, the oldest ones go."""

MOST_OF_NETWORK = 20
"""Number of questions for which the latest judgement of one network counts as evidence: so that a few networks cannot
judge everything that is asked. Its older judgements are kept, for the owner to see."""


class QuotaError(Exception):
    """This network has used its quota of today."""


@dataclass(frozen=True)
class Votes:
    """How visitors judged an answer to a question."""

    question: str
    stored_question: str
    answer: str
    helped: int
    did_not_help: int
    networks: int  # from how many networks the judgements came
    time: int  # of the latest one
    question_key: str
    answer_key: str


def key_of(text: str) -> str:
    """A short hash of a form of a text, as the tables have it."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def key_of_question(question: str) -> str:
    """A hash that is equal for questions that are the same word for word."""
    return key_of(question_key(storable(question)))


def key_of_answer(answer: str) -> str:
    """A hash that is equal for answers that differ only in case and white space."""
    return key_of(normalized(storable(answer)))


class Judgements:
    """The judgements in a database. Threads may share it."""

    def __init__(self, database: Database, visitors: Visitors | None = None) -> None:
        self.database = database
        self.visitors = visitors or Visitors(database)

    def keep(
        self,
        *,
        question: str,
        answer: str,
        stored_question: str,
        helped: bool,
        network: str,
        visit: str = "",
        comment: str = "",
    ) -> None:
        """Keep a visit's judgement of an answer, in place of its earlier one; it is on disk on return.

        Without the random id of a visit, that of its network counts. QuotaError is raised if the network has used its
        quota of today; a comment beyond it is left out.
        """
        question, answer, stored_question, comment = map(storable, (question, answer, stored_question, comment))
        with self.database.writing("judgements") as connection:
            if not self.visitors.takes(connection, network, "judgement"):
                raise QuotaError
            row: dict[str, Any] = {**self._key(question, answer, visit or network)}
            if comment and not self.visitors.takes(connection, network, "comment"):
                comment = ""
            row |= {"time": now(), "network": network, "question": question, "answer": answer, "helped": helped}
            row |= {"stored_question": stored_question, "counts": True}
            changed = {name: row[name] for name in ("time", "network", "helped", "counts")}
            changed |= {"comment": comment} if comment else {}
            counting = [judgements.c.network == network, judgements.c.counts]
            earlier = update(judgements).where(*counting, judgements.c.question_key == row["question_key"])
            connection.execute(earlier.values(counts=False))
            keys = ["visit", "question_key", "answer_key"]
            self.database.upsert(connection, judgements, row | {"comment": comment}, keys, **changed)
            too_many = select(judgements.c.id).where(*counting).order_by(judgements.c.id.desc()).offset(MOST_OF_NETWORK)
            old = judgements.c.id <= too_many.limit(1).scalar_subquery()
            connection.execute(update(judgements).where(*counting, old).values(counts=False))
            newest = select(func.max(judgements.c.id)).scalar_subquery()
            connection.execute(delete(judgements).where(judgements.c.id <= newest - MOST))

    def take_back(self, *, question: str, answer: str, network: str, visit: str) -> None:
        """Delete a visit's judgement of an answer; QuotaError as `keep`."""
        with self.database.writing("judgements") as connection:
            if not self.visitors.takes(connection, network, "judgement"):
                raise QuotaError
            key = self._key(question, answer, visit or network)
            connection.execute(delete(judgements).where(*(judgements.c[name] == key[name] for name in key)))

    def votes(self, most: int | None = None, *, undecided: bool = False) -> list[Votes]:
        """The questions and answers that were judged, those of most networks first, then the latest.

        `undecided` leaves out those that the owner has accepted or rejected.
        """
        same = (wordings.c[name] == judgements.c[name] for name in ("question_key", "answer_key"))
        decided = select(wordings.c.state).where(*same).exists()
        return self._votes([~decided] if undecided else [], most)

    def unhelpful(self, most: int | None = None) -> list[Votes]:
        """The judgements of answers that did not help, to questions for which that was said more often than not."""
        balance = func.sum(case((judgements.c.helped, 1), else_=-1))
        open_ = select(judgements.c.question_key).group_by(judgements.c.question_key).having(balance < 0)
        return self._votes([judgements.c.question_key.in_(open_), ~judgements.c.helped], most)

    def _votes(self, conditions: Sequence[ColumnElement[bool]], most: int | None) -> list[Votes]:
        helped = func.sum(case((judgements.c.helped, 1), else_=0))
        texts = [func.max(judgements.c[name]).label(name) for name in ("question", "stored_question", "answer")]
        networks = func.count(judgements.c.network.distinct()).label("networks")
        counts = [helped.label("helped"), (func.count() - helped).label("did_not_help"), networks]
        latest = func.max(judgements.c.time).label("time")
        keys = [judgements.c.question_key, judgements.c.answer_key]
        query = (
            select(*texts, *counts, latest, *keys)
            .where(*conditions)
            .group_by(*keys)
            .order_by(networks.desc(), latest.desc(), func.max(judgements.c.id).desc())
            .limit(most)
        )
        with self.database.reading() as connection:
            return [Votes(**row) for row in connection.execute(query).mappings()]

    def records(self) -> Iterator[dict[str, Any]]:
        """The judgements, oldest first, with the columns that `ap-ranker train --feedback` reads."""
        with self.database.reading() as connection:
            for row in connection.execute(select(judgements).order_by(judgements.c.id)).mappings():
                yield {
                    "question": row["question"],
                    "answer": row["answer"],
                    "label": int(row["helped"]),
                    "stored_question": row["stored_question"],
                    "time": datetime.fromtimestamp(min(row["time"], LAST_TIME), UTC).isoformat(),
                    "comment": row["comment"],
                }

    @staticmethod
    def _key(question: str, answer: str, visit: str) -> dict[str, str]:
        return {
            "visit": visit,
            "question_key": key_of_question(question),
            "answer_key": key_of_answer(answer),
        }


def delete_older(connection: Connection, seconds: int) -> None:
    """Delete the judgements from before a time, in seconds since 1970."""
    connection.execute(delete(judgements).where(judgements.c.time < seconds))
