"""Changes of the owner's page without the page."""

from __future__ import annotations

from ap_ranker.web.changes import Change, insert_change
from ap_ranker.web.database import Database


def append_change(database: Database, change: Change) -> None:
    """Append a change, whatever the entries are."""
    with database.writing("changes") as connection:
        insert_change(connection, change)


NOTHING = ["\x1c", "\x1f\x7f", "\0", "\u200b", "\u2060 \ufeff", "\u3164", "\u2800", "\x85\u2028", "\ufe0f"]
"""Texts in which nothing can be seen."""
