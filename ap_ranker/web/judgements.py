"""Visitors' judgements of answers: evidence, not truth. None changes a score.

The owner reads them: with the gaps of the FAQ, in the report on usage, and as proposed wordings. The page opens with
the questions that helped many networks (`most_helpful`). `ap-ranker train --feedback` learns from a file that the owner
has exported.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, or_, select, update

from ap_ranker.text.question_keys import question_key
from ap_ranker.text.reading import normalized
from ap_ranker.web.database import Database, decisions, in_utc, judgements, now, storable
from ap_ranker.web.visitors import Visitors

MOST = 100_000
"""Maximum number of judgements that are kept; beyond it, the oldest ones go."""

MOST_OF_NETWORK = 20
"""Number of questions for which the latest judgement of one network counts, so that a few networks cannot choose what
the page opens with. Its older judgements are kept, for the owner to see."""

EVERY_ANSWER = ""
"""The `answer_key` of a decision about a question whatever the answer: it is none for this FAQ."""

COLUMNS = ("question", "answer", "label", "stored_question", "time", "comment")
"""The columns of the file that is exported."""

LEAST_NETWORKS = 5
"""Number of networks that an answer must have helped before the page may open with its question: one person has few."""


MOST_WORDS = 5
"""Maximum number of visitors' sentences that are read of one question and answer, for lists of these."""

IS_LOOKING = (judgements.c.comment != "", ~judgements.c.helped)
"""The conditions that a visitor wrote what they were looking for, as the page asks where an answer did not help."""

IS_OF_DECISION = and_(
    judgements.c.question_key == decisions.c.question_key, judgements.c.answer_key == decisions.c.answer_key
)
"""The condition that a decision of the owner is about a judgement."""

_BALANCE = func.sum(case((judgements.c.helped, 1), else_=-1))
"""How many more judgements say that an answer helped than that it did not."""


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
        self.database = database
        self.visitors = Visitors(database)

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
        key = _key(question, answer, visit=visit or network)
        # What a later judgement changes of the row; what else is in it stays.
        judged: dict[str, Any] = {"time": now(), "network": network, "helped": helped, "counts": True}
        row = key | {
            "question": storable(question),
            "answer": storable(answer),
            "stored_question": storable(stored_question),
            "comment": "",
        }
        with self.database.writing("judgements") as connection:
            if not self.visitors.takes(connection, network, kind="judgement"):
                raise QuotaError
            earlier_row = select(*[judgements.c[column] for column in row]).filter_by(**key)
            earlier = connection.execute(earlier_row).mappings().first()
            if earlier is not None:
                row = dict(earlier)
                # It gets a new id: they are in the order of time, by which the latest count and the oldest go.
                connection.execute(delete(judgements).filter_by(**key))
            earlier_comment = row["comment"]
            if comment and self.visitors.takes(connection, network, kind="comment"):
                judged["comment"] = storable(comment)
            self._count_no_longer(connection, network, condition=judgements.c.question_key == key["question_key"])
            self.database.upsert(connection, judgements, row=row | judged, keys=list(key), **judged)
            latest = select(judgements.c.id).where(*_is_counting(network)).order_by(judgements.c.id.desc())
            first_too_many = latest.offset(MOST_OF_NETWORK).limit(1).scalar_subquery()
            self._count_no_longer(connection, network, condition=judgements.c.id <= first_too_many)
            newest = select(func.max(judgements.c.id)).scalar_subquery()
            n_too_old = connection.execute(delete(judgements).where(judgements.c.id <= newest - MOST)).rowcount
            is_replaced = earlier_comment != "" and judged.get("comment", earlier_comment) != earlier_comment
            if n_too_old or is_replaced:
                self.database.note_deletion(connection)

    def _count_no_longer(self, connection: Connection, network: str, condition: ColumnElement[bool]) -> None:
        """Let judgements of a network count no longer."""
        connection.execute(update(judgements).values(counts=False).where(*_is_counting(network), condition))

    def take_back(self, *, question: str, answer: str, network: str, visit: str) -> None:
        """Delete a visit's judgement of an answer; QuotaError as `keep`."""
        key = _key(question, answer, visit=visit or network)
        with self.database.writing("judgements") as connection:
            if not self.visitors.takes(connection, network, kind="judgement"):
                raise QuotaError
            if connection.execute(delete(judgements).filter_by(**key)).rowcount:
                self.database.note_deletion(connection)

    def most_helpful(self, most: int) -> list[str]:
        """The stored questions of the answers that helped most networks, at least `LEAST_NETWORKS`, by what counts."""
        n_networks = func.count(judgements.c.network.distinct())
        stored_question = judgements.c.stored_question
        query = (
            select(stored_question)
            .where(judgements.c.helped, judgements.c.counts, stored_question != "")
            .group_by(stored_question)
            .having(n_networks >= LEAST_NETWORKS)
            .order_by(n_networks.desc(), stored_question)
            .limit(most)
        )
        with self.database.reading() as connection:
            return list(connection.scalars(query))

    def votes(self) -> list[Votes]:
        """The questions and answers that were judged, those of most networks first, then the latest."""
        return self._votes([], most=None)

    def undecided(self, most: int, *, helped: bool) -> list[Votes]:
        """As `votes`, of those that the owner has neither accepted nor rejected, to questions that are not dismissed.

        They are those whose answer `helped` more often than not, or those of which that cannot be said.
        """
        is_decided = select(decisions.c.time).where(IS_OF_DECISION).exists()
        conditions = [~is_decided, ~is_dismissed(judgements.c.question_key)]
        return self._votes(conditions, most, having=_BALANCE > 0 if helped else _BALANCE <= 0)

    def unhelpful(self, most: int | None = None) -> list[Votes]:
        """The judgements of answers that did not help, to questions for which that was said more often than not.

        Those that the owner has decided about since, and dismissed questions, are left out.
        """
        open_ = select(judgements.c.question_key).group_by(judgements.c.question_key).having(_BALANCE < 0)
        is_open = judgements.c.question_key.in_(open_)
        is_dealt_with = or_(_is_decided_since(), is_dismissed(judgements.c.question_key))
        return self._votes([is_open, ~judgements.c.helped, ~is_dealt_with], most)

    def _votes(
        self, conditions: Sequence[ColumnElement[bool]], most: int | None, *, having: ColumnElement[bool] | None = None
    ) -> list[Votes]:
        helped = func.sum(case((judgements.c.helped, 1), else_=0))
        networks = func.count(judgements.c.network.distinct()).label("networks")
        latest = func.max(judgements.c.time).label("time")
        keys = [judgements.c.question_key, judgements.c.answer_key]
        columns = [
            func.max(judgements.c.question).label("question"),
            func.max(judgements.c.stored_question).label("stored_question"),
            func.max(judgements.c.answer).label("answer"),
            helped.label("helped"),
            (func.count() - helped).label("did_not_help"),
            networks,
            latest,
        ]
        query = (
            select(*columns, *keys)
            .where(*conditions)
            .group_by(*keys)
            .order_by(networks.desc(), latest.desc(), func.max(judgements.c.id).desc())
            .limit(most)
        )
        if having is not None:
            query = query.having(having)
        with self.database.reading() as connection:
            return [Votes(**row) for row in connection.execute(query).mappings()]

    def words(self, question_keys: Collection[str]) -> dict[tuple[str, str], list[str]]:
        """What visitors wrote that they were looking for, where an answer did not help them.

        Returns the key of one of these questions and that of the answer -> the last `MOST_WORDS` sentences, the latest
        first. The questions are no more than a list shows.
        """
        keys = [judgements.c.question_key, judgements.c.answer_key]
        number = func.row_number().over(partition_by=keys, order_by=judgements.c.id.desc()).label("number")
        is_of_questions = judgements.c.question_key.in_(question_keys)
        numbered = select(*keys, judgements.c.comment, number).where(is_of_questions, *IS_LOOKING).subquery()
        latest = select(numbered).where(numbered.c.number <= MOST_WORDS).order_by(numbered.c.number)
        words: dict[tuple[str, str], list[str]] = defaultdict(list)
        with self.database.reading() as connection:
            for question_key, answer_key, sentence, _ in connection.execute(latest):
                words[question_key, answer_key].append(sentence)
        return words

    def records(self) -> Iterator[dict[str, Any]]:
        """The judgements, oldest first, with the columns that `ap-ranker train --feedback` reads."""
        query = select(judgements).order_by(judgements.c.id)
        with self.database.reading() as connection:
            for row in connection.execute(query).mappings():
                time = in_utc(row["time"]).isoformat()
                record = {**row, "label": int(row["helped"]), "time": time}
                yield {name: record[name] for name in COLUMNS}


def unhelpful_answers(
    connection: Connection, question_keys: Collection[str], *, undecided: bool = False
) -> dict[str, set[str]]:
    """Key of each of these questions -> the keys of the answers to it that helped no more often than not.

    If `undecided`, only by judgements that the owner has not decided about since.
    """
    keys = [judgements.c.question_key, judgements.c.answer_key]
    query = select(*keys).where(keys[0].in_(question_keys)).group_by(*keys).having(_BALANCE <= 0)
    if undecided:
        query = query.where(~_is_decided_since())
    unhelpful: dict[str, set[str]] = {key: set() for key in question_keys}
    for question, answer in connection.execute(query):
        unhelpful[question].add(answer)
    return unhelpful


def is_dismissed(question_key: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that the owner has said of the question with this key that it is none for the FAQ."""
    same_question = decisions.c.question_key == question_key
    return select(decisions.c.time).where(same_question, decisions.c.answer_key == EVERY_ANSWER).exists()


def _is_decided_since() -> ColumnElement[bool]:
    """The condition that the owner has decided about a judged answer after this judgement."""
    is_later = decisions.c.time >= judgements.c.time
    return select(decisions.c.time).where(IS_OF_DECISION, is_later).exists()


def _is_counting(network: str) -> tuple[ColumnElement[bool], ...]:
    """The conditions that a judgement is one of a network, and counts."""
    return judgements.c.network == network, judgements.c.counts


def _key(question: str, answer: str, visit: str) -> dict[str, Any]:
    return {"visit": visit, "question_key": key_of_question(question), "answer_key": key_of_answer(answer)}
