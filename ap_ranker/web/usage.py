"""What the users of a website asked in a period, and what came of it: counted in the database, in bounded work.

The owner's page, its CSV file and `ap-ranker report` show it. A day is one of UTC, for every server and every reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
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

MOST_ROWS = 10_000
"""Maximum number of questions in a table of all of them."""

OUTCOMES = [str(kind) for kind in Outcome]
COLUMNS = ("question", "asked", "before", *OUTCOMES, "helped", "judged")
"""Of a question, word for word: how often it was asked in a period and the one `before`; in the period alone, how often
with each outcome, how many judgements of its answers there were, and how many of these said that one helped."""

LISTS: dict[str, tuple[Callable[[Any], ColumnElement[int]], int, int]] = {
    "top": (lambda asked: asked.asked, 1, 10),
    "unanswered": (lambda asked: asked.none, 1, 10),
    "risen": (lambda asked: asked.asked - asked.before, 2, 5),
    "fallen": (lambda asked: asked.before - asked.asked, 2, 5),
}
"""List of questions -> what it is ordered by, the minimum of that (once more or less often is chance), its length."""

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
        if not EPOCH <= first <= last or last - first >= timedelta(MOST_DAYS):
            expected = f"Expected a first day from 1970 on, and a last one up to {MOST_DAYS - 1} days later"
            raise InputError(f"{expected}, found {first} and {last}.")
        return cls(first, last)

    @property
    def before(self) -> Period:
        """As many days just before."""
        end = self.first - timedelta(1)
        return Period(end - (self.last - self.first), end)

    def has(self, time: ColumnElement[int]) -> ColumnElement[bool]:
        """The condition that a time of the tables is within."""
        return time.between((self.first - EPOCH).days * DAY, (self.last - EPOCH).days * DAY + DAY - 1)


def usage_of(database: Database, period: Period) -> dict[str, Any]:
    """Count what was asked in a period, and in the one before.

    Returns:
        The days of both as `period` and `period_before`; of both as `current` and `before` the number of `questions`,
        of those with each outcome, of judgements (`judged`) and of those that an answer `helped`, with their `shares`,
        `None` of nothing; `days`, day -> outcome -> number of questions; each of `LISTS`, questions with `COLUMNS`;
        `changes`, the ten most frequent ones as owner, action and how often.
    """
    day: Any = questions.c.time // literal_column(str(DAY), Integer)  # the same text wherever a statement has it
    by_day = select(day, questions.c.outcome, func.count()).group_by(day, questions.c.outcome)
    of_owner = changes.c.owner, changes.c.action
    by_owner = select(*of_owner, func.count()).where(period.has(changes.c.time)).group_by(*of_owner)
    length = (period.last - period.first).days + 1
    days = {str(period.first + timedelta(number)): dict.fromkeys(OUTCOMES, 0) for number in range(length)}
    periods = {"period": asdict(period), "period_before": asdict(period.before)}
    with database.reading() as connection:
        for number, outcome, count in connection.execute(by_day.where(_asked_in(period))):
            days[str(EPOCH + timedelta(number))][outcome] = count
        made = connection.execute(by_owner.order_by(func.count().desc(), *of_owner).limit(10))
        named = [(clean_question(owner), action, count) for owner, action, count in made]
        counted = {name: _counts(connection, each) for name, each in (("current", period), ("before", period.before))}
        lists = {name: _rows(connection, _list(name, period)) for name in LISTS}
    return periods | counted | lists | {"days": days, "changes": named}


def usage_table(database: Database, period: Period, delimiter: str = ",") -> str:
    """The `MOST_ROWS` questions asked most often in a period as a CSV file, which no spreadsheet takes for formulas."""
    with database.reading() as connection:
        rows = _rows(connection, _list("top", period).limit(MOST_ROWS))
    return csv_text(COLUMNS, [list(row.values()) for row in rows], delimiter)


def _asked_in(period: Period) -> ColumnElement[bool]:
    """The condition that a question was asked then; an outcome of a later version of ap-ranker is not known here."""
    return and_(period.has(questions.c.time), questions.c.outcome.in_(OUTCOMES))


def _counts(connection: Connection, period: Period) -> dict[str, Any]:
    by_outcome = select(questions.c.outcome, func.count()).where(_asked_in(period)).group_by(questions.c.outcome)
    helped = judgements.c.helped
    by_vote = select(helped, func.count()).where(period.has(judgements.c.time)).group_by(helped)
    outcomes: dict[str, int] = dict(connection.execute(by_outcome).tuples().all())
    votes: dict[bool, int] = dict(connection.execute(by_vote).tuples().all())
    counts = {kind: outcomes.get(kind, 0) for kind in OUTCOMES} | {"helped": votes.get(True, 0)}
    totals = {"questions": sum(outcomes.values()), "judged": sum(votes.values())}
    wholes = {name: totals["judged" if name == "helped" else "questions"] for name in counts}
    shares = {name: counts[name] / whole if whole else None for name, whole in wholes.items()}
    return totals | counts | {"shares": shares}


def _list(name: str, period: Period) -> Select[Any]:
    """What finds one of `LISTS`; of questions that are equal there, the one that was asked last comes first."""

    def times(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
        return func.sum(case((and_(*conditions), 1), else_=0))

    current, before = period.has(questions.c.time), period.before.has(questions.c.time)
    asked = (
        select(
            questions.c.question_key,
            func.max(questions.c.question).label("question"),
            func.max(questions.c.id).label("latest"),
            times(current).label("asked"),
            times(before).label("before"),
            *(times(current, questions.c.outcome == kind).label(kind) for kind in OUTCOMES),
        )
        .where(or_(_asked_in(period), _asked_in(period.before)))
        .group_by(questions.c.question_key)
        .subquery()
    )
    key = judgements.c.question_key
    helped, judged = times(judgements.c.helped).label("helped"), func.count().label("judged")
    said = select(key, helped, judged).where(period.has(judgements.c.time)).group_by(key).subquery()
    columns = [func.coalesce(said.c[name], 0).label(name) if name in said.c else asked.c[name] for name in COLUMNS]
    count, least, most = LISTS[name]
    return (
        select(*columns)
        .outerjoin_from(asked, said, asked.c.question_key == said.c.question_key)
        .where(count(asked.c) >= least)
        .order_by(count(asked.c).desc(), asked.c.latest.desc())
        .limit(most)
    )


def _rows(connection: Connection, query: Select[Any]) -> list[dict[str, Any]]:
    return [{**row, "question": clean_question(row["question"])} for row in connection.execute(query).mappings()]
