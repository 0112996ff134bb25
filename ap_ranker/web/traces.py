"""What visitors leave in a database: written into a file for training, deleted on request, deleted in time."""

from __future__ import annotations

import ipaddress
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
from ap_ranker.web.visitors import DAY, Visitors

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


def delete_traces(
    database: Database,
    *,
    visit: str | None = None,
    address: str | None = None,
    identity: str | None = None,
    sentence: str | None = None,
    question_log: bool = True,
) -> Counter[str]:
    """Delete what a visitor left, or a sentence whoever said it; nothing of it is left in the database's files.

    Args:
        database: of the website.
        visit: the judgements of a visit, and their questions if nobody else has judged these. Of the owner's changes,
            only wordings that were accepted from visitors lose such a question.
        address: likewise of an address's network.
        identity: likewise of a person whom a web server in front names.
        sentence: wherever it stands as a question, a wording or a comment, also in the owner's changes; case, white
            space and punctuation do not count.
        question_log: whether questions go from their log, too.

    Returns:
        What -> how many were deleted; of comments and changes, how many lost the sentence.

    Raises:
        InputError: not exactly one of the four is given, or the database cannot be written.
    """
    given = {"visit": visit, "address": address, "identity": identity, "sentence": sentence}
    if len([value for value in given.values() if value]) != 1:
        raise InputError(f"Expected one of {', '.join(f'--{name}' for name in given)}, found none or several.")
    theirs = judgements.c.visit == storable(visit or "")
    if address or identity:
        theirs = judgements.c.network == _network(Visitors(database), address or "", identity or "")
    with database.writing(*PARTS, "changes") as connection:
        if sentence:
            keys = of_owner = _keys(sentence)
            judged = 0
        else:
            others = set(connection.scalars(select(judgements.c.question_key).where(not_(theirs))))
            said = connection.execute(select(judgements.c.question, judgements.c.question_key).where(theirs)).all()
            keys = {key for text, own_key in said if own_key not in others for key in _keys(text)}
            of_owner = keys.intersection(connection.scalars(select(wordings.c.question_key)))
            judged = connection.execute(delete(judgements).where(theirs)).rowcount
        deleted = _delete(connection, keys, of_owner, question_log=question_log)
    database.compact()
    return deleted + Counter(judgements=judged)


def _network(visitors: Visitors, address: str, identity: str) -> str:
    try:
        checked = str(ipaddress.ip_address(address)) if address else ""
    except ValueError as error:
        raise InputError(f"Expected --address to be an IP address, found {address!r}.") from error
    return visitors.network(checked, identity.encode("utf-8", "surrogateescape").decode("latin-1"))  # as of a header


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
        left = [one for one in _wordings(change["wordings"]) if key_of_question(one) not in owners]
        kept["wordings"] = json.dumps(left, ensure_ascii=False)
        if any(change[name] != value for name, value in kept.items()):
            connection.execute(update(changes).where(changes.c.number == change["number"]).values(**kept))
            deleted["changes"] += 1
    return deleted


def _wordings(text: str) -> list[str]:
    """Those that a change has; none if nobody can read them, so that such a text goes with the sentence it may hold."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def delete_older(database: Database, days: int) -> None:
    """Delete what visitors said, what was asked, and what the owner decided about it, from before so many days."""
    with database.writing(*PARTS) as connection:
        for table in PARTS.values():
            connection.execute(delete(table).where(table.c.time < now() - days * DAY))
        connection.execute(delete(quotas).where(quotas.c.day < now() // DAY))


def delete_daily(database: Database, days: int, closed: threading.Event) -> None:
    """Delete what is older than so many days, at once and then daily, until `closed`; several servers may do so."""
    while True:
        try:
            delete_older(database, days)
        except InputError as error:
            logger.warning("%s What is older than %s days is deleted tomorrow.", error, days)
        if closed.wait(DAY):
            return
