"""What the users of a website asked in a period, and what came of it: counted in the database, in bounded work.

The owner's page, its CSV file and `ap-ranker owner report` show it. A day is one of UTC, for every server and reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Integer, Select, and_, case, func, literal_column, or_, select

from ap_ranker.errors import InputError
from ap_ranker.files import csv_text
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web.database import Database, changes, in_utc, judgements, now, questions
from ap_ranker.web.judgements import IS_LOOKING
from ap_ranker.web.question_log import clean_question
from ap_ranker.web.visitors import DAY

WEEK = 7
"""Number of days of a period without a first or a last one."""

WEEKS = 12
"""Number of weeks that `weeks_of` counts: a season, and few enough for a small plot."""

MOST_DAYS = 366
"""Number of days of the longest period."""

MOST_ROWS = 10_000
"""Maximum number of questions in a table of all of them."""

SENTENCES = 10
"""Maximum number of visitors' sentences in a report."""

OUTCOMES = [str(kind) for kind in Outcome]
COLUMNS = ("question", "asked", "before", *OUTCOMES, "helped", "judged")
"""Of a question, word for word: how often it was asked in a period and the one `before`; in the period alone, how often
with each outcome, how many judgements of its answers there were, and how many of these said that one helped."""


class ListRule(NamedTuple):
    """How a list of questions is made."""

    ordered_by: Callable[[Any], ColumnElement[int]]  # takes the columns of a question
    least: int  # minimum of that: once more or less often is chance
    most: int  # maximum number of questions


def _asked(columns: Any) -> ColumnElement[int]:
    return columns.asked


def _unanswered(columns: Any) -> ColumnElement[int]:
    return columns.none


def _rise(columns: Any) -> ColumnElement[int]:
    return columns.asked - columns.before


def _fall(columns: Any) -> ColumnElement[int]:
    return columns.before - columns.asked


LISTS = {
    "top": ListRule(_asked, least=1, most=10),
    "unanswered": ListRule(_unanswered, least=1, most=10),
    "risen": ListRule(_rise, least=2, most=5),
    "fallen": ListRule(_fall, least=2, most=5),
}
"""The lists of questions, by their name."""

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
        begin = (self.first - EPOCH).days * DAY
        end = (self.last - EPOCH).days * DAY + DAY - 1
        return time.between(begin, end)


def usage_of(database: Database, period: Period) -> dict[str, Any]:
    """Count what was asked in a period, and in the one before.

    Returns:
        The days of both as `period` and `period_before`; of both as `current` and `before` the number of `questions`,
        of those with each outcome, of judgements (`judged`) and of those that an answer `helped`, with their `shares`,
        `None` of nothing; `days`, day -> outcome -> number of questions; each of `LISTS`, questions with `COLUMNS`;
        `changes`, the ten most frequent ones as owner, action and how often; `words`, the latest `SENTENCES` that
        visitors wrote when an answer did not help, each a question and what they were looking for.
    """
    usage: dict[str, Any] = {"period": asdict(period), "period_before": asdict(period.before)}
    with database.reading() as connection:
        usage["current"] = _counts(connection, period)
        usage["before"] = _counts(connection, period.before)
        for name in LISTS:
            usage[name] = _rows(connection, _list(name, period))
        usage["days"] = _days(connection, period)
        usage["changes"] = _frequent_changes(connection, period)
        usage["words"] = _latest_words(connection, period)
    return usage


def usage_table(database: Database, period: Period, delimiter: str = ",") -> str:
    """The `MOST_ROWS` questions asked most often in a period as a CSV file, which no spreadsheet takes for formulas."""
    with database.reading() as connection:
        rows = _rows(connection, _list("top", period).limit(MOST_ROWS))
    return csv_text(COLUMNS, [list(row.values()) for row in rows], delimiter=delimiter)


def _asked_in(period: Period) -> ColumnElement[bool]:
    """The condition that a question was asked then; an outcome of a later version of ap-ranker is not known here."""
    return and_(period.has(questions.c.time), questions.c.outcome.in_(OUTCOMES))


def _days(connection: Connection, period: Period) -> dict[str, dict[str, int]]:
    """Day of a period -> outcome -> number of questions."""
    days = {}
    for number in range((period.last - period.first).days + 1):
        days[str(period.first + timedelta(number))] = dict.fromkeys(OUTCOMES, 0)
    day: Any = questions.c.time // literal_column(str(DAY), Integer)  # the same text wherever a statement has it
    by_day = select(day, questions.c.outcome, func.count()).group_by(day, questions.c.outcome)
    for number, outcome, count in connection.execute(by_day.where(_asked_in(period))):
        days[str(EPOCH + timedelta(number))][outcome] = count
    return days


def _frequent_changes(connection: Connection, period: Period) -> list[tuple[str, str, int]]:
    """The ten most frequent changes of a period: owner, action and how often."""
    columns = (changes.c.owner, changes.c.action)
    query = (
        select(*columns, func.count())
        .where(period.has(changes.c.time))
        .group_by(*columns)
        .order_by(func.count().desc(), *columns)
        .limit(10)
    )
    return [(clean_question(owner), action, count) for owner, action, count in connection.execute(query)]


def _latest_words(connection: Connection, period: Period) -> list[tuple[str, str]]:
    """What visitors were looking for when an answer did not help them: question and sentence, the latest first."""
    latest = (
        select(judgements.c.question, judgements.c.comment)
        .where(period.has(judgements.c.time), *IS_LOOKING)
        .order_by(judgements.c.time.desc(), judgements.c.id.desc())
        .limit(SENTENCES)
    )
    return [(clean_question(question), clean_question(words)) for question, words in connection.execute(latest)]


def _counts(connection: Connection, period: Period) -> dict[str, Any]:
    by_outcome = select(questions.c.outcome, func.count()).where(_asked_in(period)).group_by(questions.c.outcome)
    helped = judgements.c.helped
    by_vote = select(helped, func.count()).where(period.has(judgements.c.time)).group_by(helped)
    outcome_rows = connection.execute(by_outcome).tuples().all()
    vote_rows = connection.execute(by_vote).tuples().all()
    outcomes: dict[str, int] = dict(outcome_rows)
    votes: dict[bool, int] = dict(vote_rows)
    n_questions = sum(outcomes.values())
    n_judged = sum(votes.values())
    counts: dict[str, Any] = {"questions": n_questions, "judged": n_judged}
    shares = {}
    for outcome in OUTCOMES:
        counts[outcome] = outcomes.get(outcome, 0)
        shares[outcome] = _share(counts[outcome], n_questions)
    counts["helped"] = votes.get(True, 0)
    shares["helped"] = _share(counts["helped"], n_judged)
    counts["shares"] = shares
    return counts


def weeks_of(database: Database) -> list[dict[str, Any]]:
    """The `WEEKS` weeks that end today, the oldest first.

    Of each: its `first` and `last` day; how many `questions` were asked, and how many of these were `answered`; how
    many judgements there were of what such a question got (`judged`), and how many of these that it `helped`. If
    questions are not logged, nobody knows what got an answer, and all judgements count.
    """
    weeks = []
    end = Period.of().last
    with database.reading() as connection:
        is_logged = connection.scalar(select(questions.c.id).limit(1)) is not None
        for number in reversed(range(WEEKS)):
            last_day = end - timedelta(WEEK * number)
            weeks.append(_week(connection, Period.of(last=last_day), is_logged=is_logged))
    return weeks


def _week(connection: Connection, week: Period, *, is_logged: bool) -> dict[str, Any]:
    counts = _counts(connection, week)
    votes = select(func.count(), func.sum(case((judgements.c.helped, 1), else_=0)))
    votes = votes.where(week.has(judgements.c.time))
    if is_logged:
        same_question = questions.c.question_key == judgements.c.question_key
        has_answer = questions.c.outcome == Outcome.ANSWER.value
        votes = votes.where(select(questions.c.id).where(same_question, has_answer).exists())
    judged, helped = connection.execute(votes).one()
    return {
        "first": week.first,
        "last": week.last,
        "questions": counts["questions"],
        "answered": counts[Outcome.ANSWER.value],
        "judged": judged,
        "helped": helped or 0,
    }


def _share(count: int, total: int) -> float | None:
    return count / total if total else None


def _list(name: str, period: Period) -> Select[Any]:
    """What finds one of `LISTS`; of questions that are equal there, the one that was asked last comes first."""

    def times(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
        return func.sum(case((and_(*conditions), 1), else_=0))

    current = period.has(questions.c.time)
    before = period.before.has(questions.c.time)
    by_outcome = [times(current, questions.c.outcome == outcome).label(outcome) for outcome in OUTCOMES]
    counts = (
        select(
            questions.c.question_key,
            func.max(questions.c.question).label("question"),
            func.max(questions.c.id).label("latest"),
            times(current).label("asked"),
            times(before).label("before"),
            *by_outcome,
        )
        .where(or_(_asked_in(period), _asked_in(period.before)))
        .group_by(questions.c.question_key)
        .subquery()
    )
    key = judgements.c.question_key
    helped = times(judgements.c.helped).label("helped")
    judged = func.count().label("judged")
    votes = select(key, helped, judged).where(period.has(judgements.c.time)).group_by(key).subquery()
    columns = []
    for column in COLUMNS:
        is_of_votes = column in votes.c
        columns.append(func.coalesce(votes.c[column], 0).label(column) if is_of_votes else counts.c[column])
    rule = LISTS[name]
    rank = rule.ordered_by(counts.c)
    is_same_question = counts.c.question_key == votes.c.question_key
    return (
        select(*columns)
        .outerjoin_from(counts, votes, is_same_question)
        .where(rank >= rule.least)
        .order_by(rank.desc(), counts.c.latest.desc())
        .limit(rule.most)
    )


def _rows(connection: Connection, query: Select[Any]) -> list[dict[str, Any]]:
    rows = []
    for row in connection.execute(query).mappings():
        rows.append({**row, "question": clean_question(row["question"])})
    return rows
