"""Changes of the owner's page without the page."""

from __future__ import annotations

from ap_ranker.web.changes import Change, insert_change
from ap_ranker.web.database import Database


def append_change(database: Database, change: Change) -> None:
    """Append a change, whatever the entries are."""
    with database.writing("changes") as connection:
        insert_change(connection, change)
