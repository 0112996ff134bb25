"""Visitors' judgements of answers: evidence, not truth. None ranks by itself (`evidence`), and nobody else sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, case, delete, func, select, update

from ap_ranker.text.reading import normalized, question_key
from ap_ranker.web.database import Database, in_utc, judgements, now, storable, wordings
from ap_ranker.web.visitors import Visitors

MOST = 100_000
"""Maximum number of judgements that are kept; beyond it, the oldest ones go."""

MOST_OF_NETWORK = 20
"""Number of questions for which the latest judgement of one network counts as evidence: so that a few networks cannot
judge everything that is asked. Its older judgements are kept, for the owner to see."""


COLUMNS = ("question", "answer", "label", "stored_question", "time", "comment")
"""Of what is exported."""

LEAST_NETWORKS = 5
"""Number of networks that an answer must have helped before the page may open with its question: one person has few."""


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

    def __init__(self, database: Database) -> None:
        self.database, self.visitors = database, Visitors(database)

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
        key = _key(question, answer, visit or network)
        judged = {"time": now(), "network": network, "helped": helped, "counts": True}
        texts = {"question": question, "answer": answer, "stored_question": stored_question}
        row = key | judged | {name: storable(text) for name, text in texts.items()}
        with self.database.writing("judgements") as connection:
            if not self.visitors.takes(connection, network, "judgement"):
                raise QuotaError
            earlier = connection.scalar(select(judgements.c.comment).filter_by(**key))
            if comment and self.visitors.takes(connection, network, "comment"):
                judged["comment"] = storable(comment)
            counting = [judgements.c.network == network, judgements.c.counts]
            no_longer = update(judgements).values(counts=False).where(*counting)
            connection.execute(no_longer.where(judgements.c.question_key == key["question_key"]))
            self.database.upsert(connection, judgements, {"comment": ""} | row | judged, list(key), **judged)
            too_many = select(judgements.c.id).where(*counting).order_by(judgements.c.id.desc()).offset(MOST_OF_NETWORK)
            connection.execute(no_longer.where(judgements.c.id <= too_many.limit(1).scalar_subquery()))
            newest = select(func.max(judgements.c.id)).scalar_subquery()
            too_old = connection.execute(delete(judgements).where(judgements.c.id <= newest - MOST)).rowcount
            is_replaced = bool(earlier) and judged.get("comment", earlier) != earlier
            if too_old or is_replaced:
                self.database.note_deletion(connection)

    def take_back(self, *, question: str, answer: str, network: str, visit: str) -> None:
        """Delete a visit's judgement of an answer; QuotaError as `keep`."""
        key = _key(question, answer, visit or network)
        with self.database.writing("judgements") as connection:
            if not self.visitors.takes(connection, network, "judgement"):
                raise QuotaError
            if connection.execute(delete(judgements).filter_by(**key)).rowcount:
                self.database.note_deletion(connection)

    def most_helpful(self, most: int) -> list[str]:
        """The stored questions of the answers that helped most networks, at least `LEAST_NETWORKS`, by what counts."""
        networks, stored = func.count(judgements.c.network.distinct()), judgements.c.stored_question
        helped = select(stored).where(judgements.c.helped, judgements.c.counts, stored != "").group_by(stored)
        query = helped.having(networks >= LEAST_NETWORKS).order_by(networks.desc(), stored).limit(most)
        with self.database.reading() as connection:
            return [*connection.scalars(query)]

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
                time = in_utc(row["time"]).isoformat()
                said = {**row, "label": int(row["helped"]), "time": time}
                yield {name: said[name] for name in COLUMNS}


def _key(question: str, answer: str, visit: str) -> dict[str, Any]:
    return {"visit": visit, "question_key": key_of_question(question), "answer_key": key_of_answer(answer)}
