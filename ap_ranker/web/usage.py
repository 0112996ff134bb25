"""What the users of a website asked in a period, and what came of it: counted in the database, in bounded work.

A day is one of UTC, from midnight to midnight, for every server and every reader. The owner's page, its CSV file and
`ap-ranker report` show what is counted here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import date, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Subquery,
    and_,
    case,
    func,
    literal_column,
    or_,
    select,
)

from ap_ranker.errors import InputError
from ap_ranker.files import csv_text
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web.database import Database, changes, in_utc, judgements, now, questions
from ap_ranker.web.question_log import clean_question
from ap_ranker.web.visitors import DAY

WEEK, MOST_DAYS = 7, 366
"""Number of days of a period without a first or a last one, and of the longest period."""

SHOWN, MOST_ROWS = 10, 10_000
"""Maximum number of questions in a list, half as many of those that changed, and in a table of all of them."""

CHANGED = 2
"""Minimum difference between two periods that is told: once more or less often is chance."""

EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Period:
    """Days of UTC, the first and the last one included."""

    first: date
    last: date

    @classmethod
    def of(cls, first: date | None = None, last: date | None = None) -> Period:
        """A period that ends today unless it has a last day, and has `WEEK` days unless it has a first one.

        InputError if it ends before it begins, begins before 1970, or has more than `MOST_DAYS` days.
        """
        last = last or in_utc(now()).date()
        first = first or max(EPOCH, last - timedelta(WEEK - 1))
        found = f"found {first} to {last}"
        if not EPOCH <= first <= last:
            raise InputError(f"Expected a first day from 1970 on that is not after the last one, {found}.")
        if last - first >= timedelta(MOST_DAYS):
            raise InputError(f"Expected at most {MOST_DAYS} days, {found}. Choose fewer.")
        return cls(first, last)

    @property
    def before(self) -> Period:
        """As many days just before."""
        end = self.first - timedelta(1)
        return Period(end - (self.last - self.first), end)

    def has(self, time: ColumnElement[int]) -> ColumnElement[bool]:
        """The condition that a time of the tables is within."""
        return time.between((self.first - EPOCH).days * DAY, (self.last - EPOCH).days * DAY + DAY - 1)


@dataclass(frozen=True)
class Counts:
    """How many questions were asked, with what outcome, and what was said of answers."""

    questions: int
    outcomes: dict[str, int]  # of each `Outcome`
    helped: int  # number of judgements that an answer helped
    judged: int  # number of judgements

    @property
    def shares(self) -> dict[str, float | None]:
        """The share of questions with each outcome, and of judged answers that `helped`; `None` of nothing."""
        shares = {kind: count / self.questions if self.questions else None for kind, count in self.outcomes.items()}
        return shares | {"helped": self.helped / self.judged if self.judged else None}


@dataclass(frozen=True)
class AskedQuestion:
    """A question, word for word, in a period and `before`: how often it was asked, and what came of it."""

    question: str
    asked: int
    before: int
    answer: int
    maybe: int
    none: int
    helped: int  # number of judgements that an answer helped
    judged: int  # number of judgements


LISTS: dict[str, tuple[int, Callable[[Any], Any], int]] = {
    "top": (SHOWN, lambda row: row.asked, 1),
    "unanswered": (SHOWN, lambda row: row.none, 1),
    "risen": (SHOWN // 2, lambda row: row.asked - row.before, CHANGED),
    "fallen": (SHOWN // 2, lambda row: row.before - row.asked, CHANGED),
}
"""List -> its maximum length; by what it is ordered, of an `AskedQuestion` and of columns alike; the minimum of that."""


@dataclass(frozen=True)
class Usage:
    """What was asked in a period beside the one before, and who changed what; no list has more than `SHOWN` items."""

    period: Period
    current: Counts
    before: Counts
    days: dict[str, dict[str, int]]  # day -> outcome -> number of questions
    top: list[AskedQuestion]  # those asked most often
    unanswered: list[AskedQuestion]  # those that most often got nothing
    risen: list[AskedQuestion]  # asked more often than before, by at least `CHANGED`
    fallen: list[AskedQuestion]  # and less often
    changes: list[tuple[str, str, int]]  # owner, action, how often

    @property
    def counted(self) -> dict[str, Counts]:
        """What was counted in each of the two periods."""
        return {"current": self.current, "before": self.before}


def usage_of(database: Database, period: Period) -> Usage:
    """Count what was asked in a period, and what was asked before."""
    day: Any = questions.c.time // literal_column(str(DAY), Integer)  # the same text wherever a statement has it
    by_day = select(day, questions.c.outcome, func.count()).group_by(day, questions.c.outcome)
    by_owner = (
        select(changes.c.owner, changes.c.action, func.count())
        .where(period.has(changes.c.time))
        .group_by(changes.c.owner, changes.c.action)
        .order_by(func.count().desc(), changes.c.owner, changes.c.action)
        .limit(SHOWN)
    )
    length = (period.last - period.first).days + 1
    days = {str(period.first + timedelta(number)): dict.fromkeys(map(str, Outcome), 0) for number in range(length)}
    with database.reading() as connection:
        for number, outcome, count in connection.execute(by_day.where(_asked_in(period))):
            days[str(EPOCH + timedelta(number))][outcome] = count
        return Usage(
            period=period,
            current=_counts(connection, period),
            before=_counts(connection, period.before),
            days=days,
            changes=[(clean_question(owner), action, count) for owner, action, count in connection.execute(by_owner)],
            **_lists(connection, period),
        )


def usage_table(database: Database, period: Period) -> str:
    """The `MOST_ROWS` questions asked most often in a period as a CSV file, which no spreadsheet takes for formulas."""
    asked = _groups(period)
    query = _with_votes(asked, period).where(asked.c.asked > 0).order_by(*_order(asked, "top")).limit(MOST_ROWS)
    with database.reading() as connection:
        rows = [_row(*row) for row in connection.execute(query)]
    return csv_text([field.name for field in fields(AskedQuestion)], [list(vars(row).values()) for row in rows])


def _asked_in(period: Period) -> ColumnElement[bool]:
    """The condition that a question was asked then; an outcome of a later version of ap-ranker is not known here."""
    return and_(period.has(questions.c.time), questions.c.outcome.in_([*map(str, Outcome)]))


def _counts(connection: Connection, period: Period) -> Counts:
    by_outcome = select(questions.c.outcome, func.count()).where(_asked_in(period)).group_by(questions.c.outcome)
    by_vote = (
        select(judgements.c.helped, func.count()).where(period.has(judgements.c.time)).group_by(judgements.c.helped)
    )
    outcomes, votes = (dict(connection.execute(query).tuples().all()) for query in (by_outcome, by_vote))
    return Counts(
        questions=sum(outcomes.values()),
        outcomes={str(kind): outcomes.get(kind, 0) for kind in Outcome},
        helped=votes.get(True, 0),
        judged=sum(votes.values()),
    )


def _lists(connection: Connection, period: Period) -> dict[str, list[AskedQuestion]]:
    """The lists of `Usage`, from one pass over the log."""
    asked = _groups(period)
    places = [func.row_number().over(order_by=_order(asked, name)).label(f"in_{name}") for name in LISTS]
    numbered = select(asked, *places).subquery()
    found = [numbered.c[place.name] for place in places]
    query = _with_votes(numbered, period).add_columns(*found).where(or_(*(place <= SHOWN for place in found)))
    rows = [(_row(*row[: -len(found)]), row[-len(found) :]) for row in connection.execute(query)]
    lists = {}
    for number, (name, (most, count, least)) in enumerate(LISTS.items()):
        in_order = [row for row, place in sorted(rows, key=lambda each: each[1][number]) if place[number] <= most]
        lists[name] = [row for row in in_order if count(row) >= least]
    return lists


def _groups(period: Period) -> Subquery:
    """The questions of a period and of the one before, each once, and how often each was asked."""

    def times(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
        return func.sum(case((and_(*conditions), 1), else_=0))

    current, before = period.has(questions.c.time), period.before.has(questions.c.time)
    return (
        select(
            questions.c.question_key,
            func.max(questions.c.question).label("question"),
            func.max(questions.c.id).label("latest"),
            times(current).label("asked"),
            times(before).label("before"),
            *(times(current, questions.c.outcome == str(kind)).label(kind) for kind in Outcome),
        )
        .where(or_(_asked_in(period), _asked_in(period.before)))
        .group_by(questions.c.question_key)
        .subquery()
    )


def _order(asked: Subquery, name: str) -> list[ColumnElement[int]]:
    """The order of a list; of equal questions, the one that was asked last comes first."""
    _, count, _ = LISTS[name]
    return [count(asked.c).desc(), asked.c.latest.desc()]


def _with_votes(asked: Subquery, period: Period) -> Select[Any]:
    """The columns of an `AskedQuestion` of these questions, with what was said of answers to each."""
    key, helped = judgements.c.question_key, func.sum(case((judgements.c.helped, 1), else_=0))
    said = select(key, helped.label("helped"), func.count().label("judged")).where(period.has(judgements.c.time))
    votes = said.group_by(key).subquery()
    columns = [asked.c.get(field.name, func.coalesce(votes.c.get(field.name), 0)) for field in fields(AskedQuestion)]
    return select(*columns).outerjoin_from(asked, votes, asked.c.question_key == votes.c.question_key)


def _row(question: str, *counts: int) -> AskedQuestion:
    return AskedQuestion(clean_question(question), *counts)
