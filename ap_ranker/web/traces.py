"""What visitors leave in a database: written into a file for training, deleted on request, deleted in time."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from sqlalchemy import Connection, delete, not_, select, update

from ap_ranker.errors import InputError
from ap_ranker.files import csv_text, write_text_atomically
from ap_ranker.web.database import Database, changes, judgements, now, questions, quotas, storable, wordings
from ap_ranker.web.judgements import Judgements, key_of_question
from ap_ranker.web.question_log import clean_question
from ap_ranker.web.visitors import DAY

logger = logging.getLogger(__name__)

PARTS = {"judgements": judgements, "questions": questions, "wordings": wordings}
"""Part of the database -> its table, whose rows hold a visitor's sentence."""


def export_judgements(database: Database, path: Path) -> int:
    """Write all judgements into a file that ends in .jsonl or .csv, which only its user can read; returns how many.

    Raises:
        InputError: another ending, or the file cannot be written.
    """
    if path.suffix not in (".jsonl", ".csv"):
        raise InputError(f"Expected a file that ends in .jsonl or .csv, found {str(path)!r}.")
    records = list(Judgements(database).records())
    if path.suffix == ".jsonl":
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    else:
        columns = list(records[0]) if records else ["question", "answer", "label"]
        text = csv_text(columns, [list(record.values()) for record in records])
    umask = os.umask(0o077)
    try:
        write_text_atomically(path, text)
    finally:
        os.umask(umask)
    return len(records)


def delete_sentence(database: Database, sentence: str, *, question_log: bool = True) -> Counter[str]:
    """Delete a sentence wherever it stands as a question, a wording or a comment, also in the owner's changes.

    Args:
        database: nothing of it is left in its files.
        sentence: case, white space and punctuation do not count.
        question_log: delete it from the log of questions, too.

    Returns:
        What -> how many rows were deleted or, of comments and changes, lost the sentence.

    Raises:
        InputError: the database cannot be written.
    """
    keys = _keys(sentence)
    with database.writing(*PARTS, "changes") as connection:
        deleted = _delete(connection, keys, keys, question_log=question_log)
    database.compact()
    return deleted


def delete_visitor(
    database: Database, *, visit: str = "", network: str = "", question_log: bool = True
) -> Counter[str]:
    """Delete the judgements of a visit or of a network, and what they said that nobody else has judged.

    Of the owner's changes, only wordings lose a sentence, those that were accepted from visitors. The rest is as for
    `delete_sentence`.
    """
    theirs = judgements.c.visit == storable(visit) if visit else judgements.c.network == network
    with database.writing(*PARTS, "changes") as connection:
        others = set(connection.scalars(select(judgements.c.question_key).where(not_(theirs))))
        said = connection.execute(select(judgements.c.question, judgements.c.question_key).where(theirs)).all()
        keys = {key for text, own_key in said if own_key not in others for key in _keys(text)}
        accepted = keys.intersection(connection.scalars(select(wordings.c.question_key)))
        judged = connection.execute(delete(judgements).where(theirs)).rowcount
        deleted = Counter(judgements=judged) + _delete(connection, keys, accepted, question_log=question_log)
    database.compact()
    return deleted


def _keys(sentence: str) -> set[str]:
    """Those of a sentence as it was asked, and as the log of questions has it."""
    return {key_of_question(sentence), key_of_question(clean_question(sentence))}


def _delete(
    connection: Connection, keys: Collection[str], owners: Collection[str], *, question_log: bool
) -> Counter[str]:
    """Delete sentences by their keys, from the owner's changes some of them."""
    deleted: Counter[str] = Counter()
    for part, table in PARTS.items():
        for key in keys if question_log or table is not questions else ():
            deleted[part] += connection.execute(delete(table).where(table.c.question_key == key)).rowcount
    said = select(judgements.c.id, judgements.c.comment).where(judgements.c.comment != "")
    for row, comment in connection.execute(said).all():
        if key_of_question(comment) in keys:
            connection.execute(update(judgements).where(judgements.c.id == row).values(comment=""))
            deleted["comments"] += 1
    for change in connection.execute(select(changes)).mappings().all() if owners else ():
        kept = {name: "" if key_of_question(change[name]) in owners else change[name] for name in ("of", "question")}
        left = [one for one in json.loads(change["wordings"]) if key_of_question(one) not in owners]
        kept["wordings"] = json.dumps(left, ensure_ascii=False)
        if any(change[name] != value for name, value in kept.items()):
            connection.execute(update(changes).where(changes.c.number == change["number"]).values(**kept))
            deleted["changes"] += 1
    return deleted


def delete_older(database: Database, days: int) -> None:
    """Delete what visitors said, what was asked, and what the owner decided about it, from before so many days."""
    with database.writing(*PARTS) as connection:
        for table in PARTS.values():
            connection.execute(delete(table).where(table.c.time < now() - days * DAY))
        connection.execute(delete(quotas).where(quotas.c.day < now() // DAY))


class Retention:
    """Deletes what is older than some days, at once and then daily, in a thread of its own; servers may all do it."""

    def __init__(self, database: Database, days: int) -> None:
        self._database, self._days = database, days
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="retention", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End after what is being deleted."""
        self._closed.set()
        self._thread.join()

    def _work(self) -> None:
        ended = False
        while not ended:
            try:
                delete_older(self._database, self._days)
            except InputError as error:
                logger.warning(
                    "What is older than %s days was not deleted; tried again tomorrow. %s", self._days, error
                )
            ended = self._closed.wait(DAY)
