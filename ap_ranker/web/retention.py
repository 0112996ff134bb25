"""Deletes in time what visitors left, and sees that the files of the database hold nothing of what was deleted."""

from __future__ import annotations

import logging
import threading
import time

from sqlalchemy import ColumnElement, Connection, Table, delete, exists, or_, select, update

from ap_ranker.errors import InputError
from ap_ranker.web.database import Database, changes, decisions, judgements, now, questions, quotas, sessions
from ap_ranker.web.visitors import DAY

logger = logging.getLogger(__name__)

PARTS = {"judgements": judgements, "questions": questions, "decisions": decisions}
"""Part of the database -> its table, whose rows are about a visitor's sentence."""

HOUR = 3600

LOOK_SECONDS = 60.0
"""Between two looks at what is too old by the clock as it is then, and at what has to be erased."""

ERASE_SECONDS = 3600.0
"""Minimum time between two erasures, but for those of what was just deleted for its age: each writes all files anew."""


def delete_older(database: Database, days: int) -> int:
    """Delete what visitors left before so many days: what they said and asked, and what the owner decided about it.

    An undone change of the owner goes with its undoing: of what it had accepted, nothing is in the FAQ. What was used
    of other days' quotas, and sessions that have ended, go at any age. A row of the future, by a wrong clock, is of now
    instead: else it would stay for longer. With 0 days, all but quotas and sessions stay at any age. Returned is how
    many rows of visitors were deleted.
    """
    limit = now() - days * DAY if days else 0
    old: dict[Table, ColumnElement[bool]] = {table: table.c.time < limit for table in PARTS.values()}
    undone = select(changes.c.undone).where(changes.c.undone != "", changes.c.time < limit).scalar_subquery()
    old[changes] = or_(changes.c.id.in_(undone), changes.c.undone.in_(undone))
    ended = {quotas: quotas.c.day < now() // DAY, sessions: sessions.c.ends <= now()}
    of_the_future = {table: table.c.time > now() + HOUR for table in PARTS.values()}
    with database.reading() as connection:  # a transaction that changes nothing would still tell readers of a change
        conditions = [*old.values(), *ended.values(), *of_the_future.values()]
        if not any(_holds_anywhere(connection, condition) for condition in conditions):
            return 0
        has_old_changes = _holds_anywhere(connection, old[changes])
    parts = [*PARTS, "changes"] if has_old_changes else [*PARTS]
    with database.writing(*parts) as connection:
        for table, condition in of_the_future.items():
            connection.execute(update(table).where(condition).values(time=now()))
        n_deleted = 0
        for table, condition in old.items():
            n_deleted += connection.execute(delete(table).where(condition)).rowcount
        for table, condition in ended.items():
            connection.execute(delete(table).where(condition))
        if n_deleted:
            database.note_deletion(connection)
    return n_deleted


def _holds_anywhere(connection: Connection, condition: ColumnElement[bool]) -> bool:
    """Whether a condition holds for any row of its table."""
    return bool(connection.scalar(select(exists().where(condition))))


class Retention:
    """Keeps a database as its owner wants it: without what is older than `days` (0: at any age), and without traces.

    Several servers of one database may do so at once.
    """

    def __init__(self, database: Database, days: int) -> None:
        self._database = database
        self._days = days
        self._erased_at: float | None = None
        self._warned = ""

    def run(self, closed: threading.Event) -> None:
        """Look at once, and then each `LOOK_SECONDS`, until `closed`: a clock that is set, either way, is followed."""
        while True:
            try:
                self.look()
                self._warned = ""
            except InputError as error:
                self._warn(str(error))
            except Exception:  # a defect of ours: what is too old must still go the next time
                logger.exception("What is too old was not deleted.")
            if closed.wait(LOOK_SECONDS):
                return

    def look(self) -> None:
        """Delete what is too old, and erase what was deleted by anybody."""
        deleted = delete_older(self._database, self._days)
        if self._database.is_erased:
            return
        is_early = self._erased_at is not None and time.monotonic() - self._erased_at < ERASE_SECONDS
        if deleted or not is_early:
            self._database.erase()
            self._erased_at = time.monotonic()

    def _warn(self, message: str) -> None:
        if message != self._warned:
            self._warned = message
            logger.warning("%s It is tried again each minute; this warning is not repeated meanwhile.", message)
