"""Takes a database of the schema's version 2 on to version 3: an accepted wording is in the owner's changes alone."""

from __future__ import annotations

from sqlalchemy import Connection, text

_CLAIM = text("UPDATE ap_ranker_facts SET value = '3' WHERE name = 'version' AND value = '2'")
"""The first statement: its lock on the row lets one of several servers do the rest, and SQLite begin a transaction."""

# There, `ap_ranker_wordings` repeated of each accepted sentence what the change that accepted it says: its text, who
# accepted it, and of which entry. What it alone knew stays: which judgement was decided, when, and by which change. Of
# a rejected sentence there is no change, so that its text and who rejected it stay, too. Its `stored_question` is that
# of the judgement, and `origin` was always the same.
_TAKE_ON = [
    text(
        "INSERT INTO ap_ranker_decisions (question_key, answer_key, time, change, owner, question) "
        "SELECT question_key, answer_key, time, change, CASE change WHEN '' THEN owner ELSE '' END, "
        "CASE change WHEN '' THEN question ELSE '' END FROM ap_ranker_wordings"
    ),
    text("DROP TABLE ap_ranker_wordings"),
    text("DELETE FROM ap_ranker_revisions WHERE name = 'wordings'"),
]


def take_on(connection: Connection) -> bool:
    """Take the database of a transaction on, in which today's tables are there; `False` if it is not of version 2."""
    if not connection.execute(_CLAIM).rowcount:
        return False
    for statement in _TAKE_ON:
        connection.execute(statement)
    return True
