"""What visitors leave in a database: written into a file for training, deleted on request."""

from __future__ import annotations

import ipaddress
import json
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, not_, select, update

from ap_ranker.data.html_cells import as_cell
from ap_ranker.errors import InputError
from ap_ranker.files import check_output, csv_text, write_text_atomically
from ap_ranker.text.reading import question_key
from ap_ranker.web.database import Database, changes, judgements, storable, wordings
from ap_ranker.web.judgements import COLUMNS, Judgements, key_of_question
from ap_ranker.web.question_log import clean_question
from ap_ranker.web.retention import PARTS
from ap_ranker.web.visitors import Visitors


def export_judgements(database: Database, path: Path) -> int:
    """Write all judgements into a file that only its user can read; returns how many.

    InputError if its name does not end in .jsonl or .csv, it is another file, or cannot be written.
    """
    check_output(path, ".jsonl", ".csv")
    if path.is_file() and path.stat().st_size:
        with path.open(encoding="utf-8", errors="replace") as earlier:
            if COLUMNS[3] not in earlier.readline():
                raise InputError(f"{path}: expected a new file, or an earlier export, found another. Name a new one.")
    records = [_as_cells(record) for record in Judgements(database).records()]
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    if path.suffix.lower() == ".csv":
        text = csv_text(COLUMNS, [list(record.values()) for record in records])
    write_text_atomically(path, text, private=True)
    return len(records)


def _as_cells(record: dict[str, Any]) -> dict[str, Any]:
    """A judgement whose texts are read as they were shown, also where they look like HTML."""
    texts = {name: as_cell(record[name]) for name in ("question", "answer", "stored_question")}
    return record | texts


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
    exactly one of the four is given, the database cannot be written, or (what is deleted stays so) `Database.erase`
    has to wait.
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
        texts = _exact(sentence) if sentence else None
        for part, table in PARTS.items():
            deleted[part] += _delete_from(table, connection, keys=keys, texts=texts)
        if comments := _delete_comments(connection, keys=keys, texts=texts):
            deleted["comments"] = comments
        for number, change in _changes_without(connection, of_owner) if of_owner and texts is None else ():
            connection.execute(update(changes).where(changes.c.number == number).values(**change))
            deleted["changes"] += 1
        if deleted.total():
            database.note_deletion(connection)
    database.erase()  # also what an earlier deletion could not
    return deleted


def delete_sentence(database: Database, sentence: str) -> Counter[str]:
    """Delete a visitor's sentence wherever visitors left it; what the owner has made of it stays as it is.

    Returned is as of `delete_traces`. The files hold it until `Database.erase`.
    """
    keys, texts = _keys(sentence), _exact(sentence)
    deleted: Counter[str] = Counter()
    with database.writing(*PARTS) as connection:
        for part, table in PARTS.items():
            accepted = wordings.c.state == "accepted"  # its undoing looks for it
            where = [~accepted] if table is wordings else []
            deleted[part] += _delete_from(table, connection, *where, keys=keys, texts=texts)
        if comments := _delete_comments(connection, keys=keys, texts=texts):
            deleted["comments"] = comments
        if deleted.total():
            database.note_deletion(connection)
    return deleted


def _delete_from(
    table: Table,
    connection: Connection,
    *where: ColumnElement[bool],
    keys: Collection[str],
    texts: Collection[str] | None,
) -> int:
    """Delete the rows whose question has one of these keys, and is one of `texts` unless that is `None`."""
    conditions = [*where] if texts is None else [*where, table.c.question.in_(texts)]
    return sum(
        connection.execute(delete(table).where(table.c.question_key == key, *conditions)).rowcount for key in keys
    )


def _delete_comments(connection: Connection, *, keys: Collection[str], texts: Collection[str] | None) -> int:
    """Empty the comments with one of these keys; returns how many."""
    deleted = 0
    commented = select(judgements.c.id, judgements.c.comment).where(judgements.c.comment != "")
    for row, comment in connection.execute(commented).all():
        if key_of_question(comment) in keys and (texts is None or comment in texts):
            connection.execute(update(judgements).where(judgements.c.id == row).values(comment=""))
            deleted += 1
    return deleted


def _exact(sentence: str) -> set[str] | None:
    """A sentence without words, such as one of emojis, as it may be stored; others are known by their words: `None`.

    The keys of all sentences without words are equal.
    """
    return None if question_key(storable(sentence)) else {storable(sentence), storable(clean_question(sentence))}


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


def _wordings(text: str) -> list[str]:
    """Those that a change has; none if nobody can read them, so that such a text goes with the sentence it may hold."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
