"""What the users of a website asked in a period, and what came of it: counted in the database, in bounded work.

A day is one of UTC, from midnight to midnight, for every server and every reader. The owner's page, its CSV file and
`ap-ranker report` show what is counted here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, Select, and_, case, func, literal_column, or_, select

from ap_ranker.errors import InputError
from ap_ranker.files import csv_text
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web.database import Database, changes, in_utc, judgements, now, questions
from ap_ranker.web.question_log import clean_question
from ap_ranker.web.visitors import DAY

WEEK, MOST_DAYS = 7, 366
"""Number of days of a period without a first or a last one, and of the longest period."""

SHOWN, MOST_ROWS = 10, 10_000
"""Maximum number of questions in each list, and in a table of all of them."""

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
    different: int  # number of those that are not the same word for word
    outcomes: dict[str, int]  # of each `Outcome`
    helped: int
    did_not_help: int

    @property
    def shares(self) -> dict[str, float | None]:
        """The share of questions with each outcome, and of judged answers that `helped`; `None` of nothing."""
        judged = self.helped + self.did_not_help
        shares = {kind: count / self.questions if self.questions else None for kind, count in self.outcomes.items()}
        return shares | {"helped": self.helped / judged if judged else None}


@dataclass(frozen=True)
class AskedQuestion:
    """A question, word for word, in a period and `before`: how often it was asked, and what came of it."""

    question: str
    asked: int
    before: int
    answer: int
    maybe: int
    none: int
    helped: int
    did_not_help: int


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
    lists = {name: query.limit(SHOWN) for name, query in _lists(period).items()}
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
            **{name: _rows(connection, query) for name, query in lists.items()},
        )


def usage_table(database: Database, period: Period) -> str:
    """The `MOST_ROWS` questions asked most often in a period as a CSV file, which no spreadsheet takes for formulas."""
    with database.reading() as connection:
        rows = _rows(connection, _lists(period)["top"].limit(MOST_ROWS))
    return csv_text([field.name for field in fields(AskedQuestion)], [list(vars(row).values()) for row in rows])


def _asked_in(period: Period) -> ColumnElement[bool]:
    """The condition that a question was asked then; an outcome of a later version of ap-ranker is not known here."""
    return and_(period.has(questions.c.time), questions.c.outcome.in_([*map(str, Outcome)]))


def _counts(connection: Connection, period: Period) -> Counts:
    different = select(func.count(questions.c.question_key.distinct())).where(_asked_in(period))
    by_outcome = select(questions.c.outcome, func.count()).where(_asked_in(period)).group_by(questions.c.outcome)
    by_vote = (
        select(judgements.c.helped, func.count()).where(period.has(judgements.c.time)).group_by(judgements.c.helped)
    )
    outcomes, votes = (dict(connection.execute(query).tuples().all()) for query in (by_outcome, by_vote))
    return Counts(
        questions=sum(outcomes.values()),
        different=connection.scalar(different) or 0,
        outcomes={str(kind): outcomes.get(kind, 0) for kind in Outcome},
        helped=votes.get(True, 0),
        did_not_help=votes.get(False, 0),
    )


def _lists(period: Period) -> dict[str, Select[Any]]:
    """The lists of `Usage` -> what finds all their rows, in order; of equal ones, what was asked last comes first."""

    def times(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
        return func.sum(case((and_(*conditions), 1), else_=0))

    current, before = _asked_in(period), _asked_in(period.before)
    asked = (
        select(
            questions.c.question_key,
            func.max(questions.c.question).label("question"),
            func.max(questions.c.id).label("latest"),
            times(current).label("asked"),
            times(before).label("before"),
            *(times(current, questions.c.outcome == str(kind)).label(kind) for kind in Outcome),
        )
        .where(or_(current, before))
        .group_by(questions.c.question_key)
        .subquery()
    )
    said = (
        select(
            judgements.c.question_key,
            times(judgements.c.helped).label("helped"),
            times(~judgements.c.helped).label("did_not_help"),
        )
        .where(period.has(judgements.c.time))
        .group_by(judgements.c.question_key)
        .subquery()
    )
    votes = {"helped", "did_not_help"}
    columns = [
        func.coalesce(said.c[name], 0).label(name) if name in votes else asked.c[name]
        for name in (field.name for field in fields(AskedQuestion))
    ]
    rows = select(*columns).outerjoin_from(asked, said, asked.c.question_key == said.c.question_key)
    rise: ColumnElement[int] = asked.c.asked - asked.c.before

    def most(count: ColumnElement[int], least: int) -> Select[Any]:
        return rows.where(count >= least).order_by(count.desc(), asked.c.latest.desc())

    return {
        "top": most(asked.c.asked, 1),
        "unanswered": most(asked.c[Outcome.NONE], 1),
        "risen": most(rise, CHANGED),
        "fallen": most(-rise, CHANGED),
    }


def _rows(connection: Connection, query: Select[Any]) -> list[AskedQuestion]:
    return [AskedQuestion(clean_question(question), *counts) for question, *counts in connection.execute(query)]
