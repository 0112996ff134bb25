"""What visitors leave in a database: written into a file for training, deleted on request, deleted in time."""

from __future__ import annotations

import ipaddress
import json
import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from sqlalchemy import Connection, delete, not_, select, update

from ap_ranker.errors import InputError
from ap_ranker.files import check_output, csv_text, write_private_text
from ap_ranker.web.database import Database, changes, judgements, now, questions, quotas, sessions, storable, wordings
from ap_ranker.web.judgements import COLUMNS, Judgements, key_of_question
from ap_ranker.web.question_log import clean_question
from ap_ranker.web.visitors import DAY, Visitors

logger = logging.getLogger(__name__)

PARTS = {"judgements": judgements, "questions": questions, "wordings": wordings}
"""Part of the database -> its table, whose rows hold a visitor's sentence."""


def export_judgements(database: Database, path: Path) -> int:
    """Write all judgements into a file that only its user can read; returns how many.

    InputError if its name does not end in .jsonl or .csv, it is another file, or cannot be written.
    """
    check_output(path, ".jsonl", ".csv")
    if path.is_file() and path.stat().st_size:
        with path.open(encoding="utf-8", errors="replace") as earlier:
            if COLUMNS[3] not in earlier.readline():
                raise InputError(f"{path}: expected a new file, or an earlier export, found another. Name a new one.")
    records = list(Judgements(database).records())
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    if path.suffix.lower() == ".csv":
        text = csv_text(COLUMNS, [list(record.values()) for record in records])
    write_private_text(path, text)
    return len(records)


def delete_traces(
    database: Database,
    *,
    visit: str | None = None,
    address: str | None = None,
    identity: str | None = None,
    sentence: str | None = None,
) -> Counter[str]:
    """Delete what a visitor left, or a sentence whoever said it; nothing of it is left in the database's files.

    Of a `visit`, an `address`'s network, or an `identity` that a web server in front names: the judgements, and their
    questions if nobody else has judged these; the owner's changes lose only wordings that were accepted from visitors.
    Of a `sentence`: wherever it is a question, a wording or a comment, also in the owner's changes; case, white space
    and punctuation do not count.

    Returned is what -> how many were deleted; of comments and changes, how many lost the sentence. InputError if not
    exactly one of the four is given, or the database cannot be written.
    """
    given = {"visit": visit, "address": address, "identity": identity, "sentence": sentence}
    if len([value for value in given.values() if value]) != 1:
        raise InputError(f"Expected one of {', '.join(f'--{name}' for name in given)}, found none or several.")
    theirs = judgements.c.visit == storable(visit or "")
    if address or identity:
        theirs = judgements.c.network == _network(Visitors(database), address or "", identity or "")
    deleted: Counter[str] = Counter()
    with database.writing(*PARTS, "changes") as connection:
        keys = of_owner = _keys(sentence or "")
        if not sentence:
            others = set(connection.scalars(select(judgements.c.question_key).where(not_(theirs))))
            said = connection.execute(select(judgements.c.question, judgements.c.question_key).where(theirs)).all()
            keys = {key for text, own_key in said if own_key not in others for key in _keys(text)}
            of_owner = keys.intersection(connection.scalars(select(wordings.c.question_key)))
            deleted["judgements"] = connection.execute(delete(judgements).where(theirs)).rowcount
        for part, table in PARTS.items():
            for key in keys:
                deleted[part] += connection.execute(delete(table).where(table.c.question_key == key)).rowcount
        commented = select(judgements.c.id, judgements.c.comment).where(judgements.c.comment != "")
        for row, comment in connection.execute(commented).all():
            if key_of_question(comment) in keys:
                connection.execute(update(judgements).where(judgements.c.id == row).values(comment=""))
                deleted["comments"] += 1
        for number, change in _changes_without(connection, of_owner) if of_owner else ():
            connection.execute(update(changes).where(changes.c.number == number).values(**change))
            deleted["changes"] += 1
    database.compact()
    return deleted


def _changes_without(connection: Connection, keys: Collection[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The numbers of the owner's changes that hold one of these sentences, and their columns without."""
    for change in connection.execute(select(changes)).mappings().all():
        kept = {name: "" if key_of_question(change[name]) in keys else change[name] for name in ("of", "question")}
        left = [one for one in _wordings(change["wordings"]) if key_of_question(one) not in keys]
        kept["wordings"] = json.dumps(left, ensure_ascii=False)
        if any(change[name] != value for name, value in kept.items()):
            yield change["number"], kept


def _network(visitors: Visitors, address: str, identity: str) -> str:
    try:
        checked = str(ipaddress.ip_address(address)) if address else ""
    except ValueError as error:
        raise InputError(f"Expected --address to be an IP address, found {address!r}.") from error
    return visitors.network(checked, identity.encode("utf-8", "surrogateescape").decode("latin-1"))  # as of a header


def _keys(sentence: str) -> set[str]:
    """Those of a sentence as it was asked, and as the log of questions has it."""
    return {key_of_question(sentence), key_of_question(clean_question(sentence))}


def delete_older(database: Database, days: int) -> None:
    """Delete what visitors said, what was asked, and what the owner decided about it, from before so many days.

    What was used of other days' quotas, and sessions that have ended, go at any age.
    """
    with database.writing(*PARTS) as connection:
        for table in PARTS.values():
            connection.execute(delete(table).where(table.c.time < now() - days * DAY))
        connection.execute(delete(quotas).where(quotas.c.day < now() // DAY))
        connection.execute(delete(sessions).where(sessions.c.ends <= now()))


def delete_daily(database: Database, days: int, closed: threading.Event) -> None:
    """Delete what is older than so many days, at once and then daily, until `closed`; several servers may do so."""
    while True:
        try:
            delete_older(database, days)
        except InputError as error:
            logger.warning("%s What is older than %s days is deleted tomorrow.", error, days)
        if closed.wait(DAY):
            return


def _wordings(text: str) -> list[str]:
    """Those that a change has; none if nobody can read them, so that such a text goes with the sentence it may hold."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
