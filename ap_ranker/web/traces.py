"""What visitors leave in a database: written into a file for training, deleted on request."""

from __future__ import annotations

import ipaddress
import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Table, delete, not_, select, update

from ap_ranker.data.html_cells import as_cell
from ap_ranker.errors import InputError
from ap_ranker.files import check_output, csv_text, write_text_atomically
from ap_ranker.text.question_keys import question_key
from ap_ranker.text.question_parts import question_parts
from ap_ranker.web.changes import read_wordings, written_wordings
from ap_ranker.web.database import Database, changes, decisions, judgements, storable
from ap_ranker.web.judgements import COLUMNS, Judgements, key_of_question
from ap_ranker.web.question_log import clean_question, keys_in_log
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
    if path.suffix.lower() == ".csv":
        text = csv_text(COLUMNS, [list(record.values()) for record in records])
    else:
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
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
    and punctuation do not count. Of one that asks several questions, each of them too, as the log has them, but not in
    the owner's changes.

    Returned is what -> how many were deleted; of comments and changes, how many lost the sentence. InputError if not
    exactly one of the four is given, the database cannot be written, or (what is deleted stays so) `Database.erase`
    has to wait.
    """
    if [bool(visit), bool(address), bool(identity), bool(sentence)].count(True) != 1:
        options = "--visit, --address, --identity, --sentence"
        raise InputError(f"Expected one of {options}, found none or several.")
    theirs = judgements.c.visit == storable(visit or "")
    if address or identity:
        theirs = judgements.c.network == _network(Visitors(database), address or "", identity=identity or "")
    deleted: Counter[str] = Counter()
    with database.writing(*PARTS, "changes") as connection:
        if sentence:
            keys_of_changes = _keys(sentence)
            keys = keys_of_changes.union(*map(_keys, question_parts(sentence).texts))
            keys |= _judged_as(connection, keys)
            texts = _exact(sentence)
        else:
            keys = _keys_of_nobody_else(connection, theirs)
            accepted = select(decisions.c.question_key).where(decisions.c.change != "")
            keys_of_changes = keys.intersection(connection.scalars(accepted))
            texts = None
            deleted["judgements"] = connection.execute(delete(judgements).where(theirs)).rowcount
        for part, table in PARTS.items():
            deleted[part] += _delete_from(table, connection, keys=keys, texts=texts)
        n_comments = _delete_comments(connection, keys=keys, texts=texts)
        if n_comments:
            deleted["comments"] = n_comments
        if keys_of_changes and texts is None:
            n_changes = _delete_from_changes(connection, keys_of_changes)
            if n_changes:
                deleted["changes"] = n_changes
        if deleted.total():
            database.note_deletion(connection)
    database.erase()  # also what an earlier deletion could not
    return deleted


def delete_sentence(database: Database, sentence: str) -> Counter[str]:
    """Delete a visitor's sentence wherever visitors left it; what the owner has made of it stays as it is.

    Returned is as of `delete_traces`. The files hold it until `Database.erase`.
    """
    keys = _keys(sentence)
    texts = _exact(sentence)
    is_not_accepted = decisions.c.change == ""  # what undoes a change looks for what this had accepted
    deleted: Counter[str] = Counter()
    with database.writing(*PARTS) as connection:
        keys |= _judged_as(connection, keys)
        for part, table in PARTS.items():
            conditions = [is_not_accepted] if table is decisions else []
            deleted[part] += _delete_from(table, connection, *conditions, keys=keys, texts=texts)
        n_comments = _delete_comments(connection, keys=keys, texts=texts)
        if n_comments:
            deleted["comments"] = n_comments
        if deleted.total():
            database.note_deletion(connection)
    return deleted


def _keys_of_nobody_else(connection: Connection, theirs: ColumnElement[bool]) -> set[str]:
    """The keys of the questions whose judgements are all theirs."""
    keys_of_others = set(connection.scalars(select(judgements.c.question_key).where(not_(theirs))))
    keys: set[str] = set()
    query = select(judgements.c.question, judgements.c.question_key).where(theirs)
    for question, key in connection.execute(query).all():
        if key not in keys_of_others:
            keys |= _keys(question)
    return keys


def _delete_from(
    table: Table,
    connection: Connection,
    *conditions: ColumnElement[bool],
    keys: Collection[str],
    texts: Collection[str] | None,
) -> int:
    """Delete the rows whose question has one of these keys, and is one of `texts` unless that is `None`."""
    deletion = delete(table).where(*conditions)
    if texts is not None:
        deletion = deletion.where(table.c.question.in_(texts))
    n_deleted = 0
    for key in keys:
        n_deleted += connection.execute(deletion.where(table.c.question_key == key)).rowcount
    return n_deleted


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
    """The texts that a sentence without words, such as one of emojis, is stored as; `None` of any other sentence.

    The keys of all sentences without words are equal, so these are known by their texts.
    """
    if question_key(storable(sentence)):
        return None
    return {storable(sentence), storable(clean_question(sentence))}


def _delete_from_changes(connection: Connection, keys: Collection[str]) -> int:
    """Delete the sentences with these keys from the owner's changes; returns how many changes had one."""
    n_changed = 0
    for change in connection.execute(select(changes)).mappings().all():
        remaining = _columns_without(change, keys)
        if any(change[column] != text for column, text in remaining.items()):
            connection.execute(update(changes).where(changes.c.number == change["number"]).values(**remaining))
            n_changed += 1
    return n_changed


def _columns_without(change: RowMapping, keys: Collection[str]) -> dict[str, str]:
    """The columns of a change that visitors' sentences get into, without the sentences with these keys."""
    columns = {}
    for name in ("of", "question"):
        text = change[name]
        columns[name] = "" if key_of_question(text) in keys else text
    left: dict[str, list[str]] = {}
    for name, wordings in _wordings(change["wordings"]).items():
        left[name] = [wording for wording in wordings if key_of_question(wording) not in keys]
    columns["wordings"] = written_wordings(left["wordings"], left["removed"], change["action"])
    return columns


def _network(visitors: Visitors, address: str, identity: str) -> str:
    try:
        checked = str(ipaddress.ip_address(address)) if address else ""
    except ValueError as error:
        raise InputError(f"Expected --address to be an IP address, found {address!r}.") from error
    identity_of_header = identity.encode("utf-8", "surrogateescape").decode("latin-1")
    return visitors.network(checked, identity_of_header)


def _keys(sentence: str) -> set[str]:
    """The keys of a sentence as it was asked, and as the log of questions has it."""
    return {key_of_question(sentence), key_of_question(clean_question(sentence))}


def _judged_as(connection: Connection, keys: Collection[str]) -> set[str]:
    """The keys of judgements of the questions that the log has under these keys."""
    return {key for key, key_in_log in keys_in_log(connection).items() if key_in_log in keys}


def _wordings(column: str) -> dict[str, list[str]]:
    """The `wordings` and `removed` ones of a change; none if nobody can read them.

    Such a text goes with the sentence that it may hold.
    """
    try:
        read = read_wordings(column)
    except (ValueError, RecursionError):
        read = {}
    wordings: dict[str, list[str]] = {}
    for name in ("wordings", "removed"):
        values = read.get(name)
        wordings[name] = [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
    return wordings
