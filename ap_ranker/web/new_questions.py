"""The questions that were asked for the first time lately, those first whose answers were probably wrong most often."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import case, func, select

from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web.database import Database, questions
from ap_ranker.web.judgements import is_dismissed
from ap_ranker.web.question_log import clean_question


@dataclass(frozen=True)
class NewQuestion:
    """A question, however often it was asked, and what came of it the last time."""

    text: str
    asked: int
    outcome: str
    score: float | None  # of the best entry, on average; a probability if the checkpoint is calibrated
    entry: str  # the id of that entry the last time, shown or not; empty without one
    doubt: float  # `asked` times the mean of 1 - score: about how often the first entry was wrong


def new_questions(database: Database, since: int, most: int) -> list[NewQuestion]:
    """The questions that the log has from a time on, and not from before; most doubt first, then the latest.

    The same word for word is one question; what the owner has dismissed is none. A score counts as certain from 1 on,
    and as nothing below 0.
    """
    score = questions.c.score
    certainty = case((score >= 1, 1.0), (score > 0, score), else_=0.0)
    doubt = func.sum(1.0 - certainty)
    latest = func.max(questions.c.id)
    groups = (
        select(
            latest.label("id"),
            func.count().label("asked"),
            func.avg(score).label("score"),
            doubt.label("doubt"),
        )
        .where(questions.c.outcome.in_([str(outcome) for outcome in Outcome]), ~is_dismissed(questions.c.question_key))
        .group_by(questions.c.question_key)
        .having(func.min(questions.c.time) >= since)
        .order_by(doubt.desc(), latest.desc())
        .limit(most)
        .subquery()
    )
    query = (
        select(questions.c.question, questions.c.outcome, questions.c.entry, groups)
        .join(groups, groups.c.id == questions.c.id)
        .order_by(groups.c.doubt.desc(), groups.c.id.desc())
    )
    new = []
    with database.reading() as connection:
        for row in connection.execute(query).mappings():
            new.append(
                NewQuestion(
                    clean_question(row["question"]),
                    row["asked"],
                    outcome=row["outcome"],
                    score=row["score"],
                    entry=row["entry"],
                    doubt=float(row["doubt"]),
                )
            )
    return new
