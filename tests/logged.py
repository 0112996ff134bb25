"""What the log of questions holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, select

from ap_ranker.web.database import Database, questions


def read_question_log(database: Database) -> Sequence[Row[Any]]:
    """The logged questions, oldest first."""
    with database.reading() as connection:
        return connection.execute(select(questions).order_by(questions.c.id)).all()
