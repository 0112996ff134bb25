"""The owner's changes of a FAQ: rows of a database, which are laid over its entries. The FAQ's file stays as it is.

An entry is known by a key of its own text. When somebody changes that text in the FAQ's file, an older change or
deletion of this entry lapses: the file is newer. Added wordings stay with the entry that still has the same question.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter
from sqlalchemy import Connection, delete, insert, select

from ap_ranker.data.faq import Entry
from ap_ranker.data.rows import stripped
from ap_ranker.documents.watched_folder import Overlay
from ap_ranker.errors import InputError
from ap_ranker.text.reading import normalized, question_key
from ap_ranker.web.database import Database, changes, now, open_database, storable

logger = logging.getLogger(__name__)


class Action(StrEnum):
    """What a change does."""

    add_entry = "add entry"
    change_entry = "change entry"
    delete_entry = "delete entry"
    add_wordings = "add wordings"
    remove_wordings = "remove wordings"
    undo = "undo"


@dataclass(frozen=True)
class Change:
    """One change; ValueError if what its action needs is missing."""

    id: str
    time: int  # in seconds since 1970
    action: Action
    owner: str = ""  # the name given at login
    entry: str = ""  # of the entry that it changes; an added entry has the id of its change
    of: str = ""  # the question of that entry, before the change
    question: str = ""  # the new one
    answer: str = ""
    wordings: tuple[str, ...] = ()  # all of a new or changed entry; or those that are added or removed
    undone: str = ""  # the id of the change that is undone

    def __post_init__(self) -> None:
        needs = {Action.undo: ("undone",), Action.add_entry: ("answer",), Action.change_entry: ("entry", "answer")}
        for name in ("id", *needs.get(self.action, ("entry",))):
            if not stripped(getattr(self, name)):
                raise ValueError(f"Expected the {name} of a change, found none.")

    @classmethod
    def make(cls, action: Action, **fields: Any) -> Change:
        """A new change, of now."""
        return cls(uuid4().hex[:12], now(), action, **fields)

    def row(self) -> dict[str, Any]:
        """Its row in the table."""
        texts = {name: storable(value) for name, value in vars(self).items() if isinstance(value, str)}
        return vars(self) | texts | {"wordings": json.dumps(list(map(storable, self.wordings)), ensure_ascii=False)}


_CHANGE = TypeAdapter(Change)
_warned: set[str] = set()
"""The ids of rows that are no changes."""


@dataclass(frozen=True)
class KeyedEntry:
    """An entry as it is now, with the key that changes name it by."""

    key: str  # of its text in the FAQ's file, or the id of the change that has added it
    entry: Entry

    @property
    def version(self) -> str:
        """What differs after every change of its texts."""
        return _hash(self.entry.question, self.entry.answer, *self.entry.wordings)


@dataclass(frozen=True)
class ChangedEntries:
    """The entries of a FAQ with all changes, and the ids of changes that apply to nothing any more or were undone."""

    entries: list[KeyedEntry]
    lapsed: set[str]
    undone: set[str]

    def left(self, database: Database) -> list[Entry]:
        """The entries themselves; InputError, which names the changes' database, if they delete all."""
        if not self.entries:
            found = f"{database.place}: expected entries that are left, found that its changes delete all of them"
            raise InputError(f"{found}. Add one to the FAQ's file; then deletions can be undone on the owner's page.")
        return [keyed.entry for keyed in self.entries]


def owners_changes(place: str) -> Overlay:
    """What lays the changes in the database at a place over the entries of a FAQ; it can be pickled."""
    return Overlay(partial(_revision, place), partial(_laid_over, place))


def _revision(place: str) -> int:
    return open_database(place).revision("changes")


def _laid_over(place: str, entries: list[Entry]) -> list[Entry]:
    database = open_database(place)
    known = read_changes(database)
    return apply_changes(entries, known).left(database) if known else entries


def insert_change(connection: Connection, change: Change) -> None:
    """Append a change in a transaction that writes `changes`."""
    connection.execute(insert(changes).values(**change.row()))


def read_changes(database: Database) -> list[Change]:
    """The changes in a database, oldest first."""
    with database.reading() as connection:
        return changes_in(connection)


def changes_in(connection: Connection) -> list[Change]:
    """The changes as a transaction sees them, oldest first.

    A row that is no change, such as one of a later version of ap-ranker, is left out; a warning says so once.
    """
    found = []
    for row in connection.execute(select(changes).order_by(changes.c.number)).mappings():
        try:
            found.append(_CHANGE.validate_python({**row, "wordings": json.loads(row["wordings"])}))
        except (ValueError, RecursionError):
            if row["id"] not in _warned:
                _warned.add(row["id"])
                logger.warning("Row %s of the owner's changes is left out: it is not known here.", row["number"])
    return found


def clear_changes(database: Database, entries: Sequence[Entry]) -> int:
    """Delete all changes, which the entries of the FAQ's own file have by now; returns how many.

    If they change anything, InputError is raised, so that none is lost; also if `Database.erase` has to wait.
    """
    with database.writing("changes") as connection:
        known = changes_in(connection)
        laid_over = (keyed.entry for keyed in apply_changes(entries, known).entries)
        if {_texts(entry) for entry in laid_over} != {_texts(entry) for entry in entries}:
            expected = f"{database.place}: expected changes that the FAQ's file has, found others"
            raise InputError(f"{expected}. Write them with --output, and put that file in place of the FAQ's.")
        connection.execute(delete(changes))
        database.note_deletion(connection)
    database.erase()
    return len(known)


def _texts(entry: Entry) -> tuple[str, ...]:
    return tuple(map(normalized, (entry.question, entry.answer, *sorted(entry.wordings))))


class FileEntries:
    """The entries of a FAQ's file, by what changes name them by.

    To lay them out takes a second for 50,000 entries: whoever applies changes again and again keeps them.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.keyed = [KeyedEntry(_key(entry), entry) for entry in entries]

    @cached_property
    def by_key(self) -> Mapping[str, Sequence[int]]:
        """Key -> the positions of the entries that have it: the same text may be there twice."""
        return _positions(keyed.key for keyed in self.keyed)

    @cached_property
    def by_question(self) -> Mapping[str, Sequence[int]]:
        """Question, normalized -> the positions of its entries."""
        return _positions(normalized(keyed.entry.question) for keyed in self.keyed)


def _positions(names: Iterable[str]) -> dict[str, list[int]]:
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        positions[name].append(position)
    return dict(positions)


def apply_changes(entries: Iterable[Entry] | FileEntries, made: Sequence[Change]) -> ChangedEntries:
    """Lay changes, oldest first, over the entries of a FAQ's file."""
    in_file = entries if isinstance(entries, FileEntries) else FileEntries(entries)
    current: list[KeyedEntry | None] = [*in_file.keyed]
    added: dict[str, int] = {}  # the id of a change that adds an entry -> the entry's position
    touched: set[int] = set()  # the positions of entries of the file that are others now
    undone = {change.undone for change in made if change.action == Action.undo}
    lapsed: set[str] = set()
    for change in (one for one in made if one.action != Action.undo and one.id not in undone):
        if change.action == Action.add_entry:
            added[change.id] = len(current)
            entry = Entry(change.question, change.answer, {}, f"change {change.id}", change.wordings)
            current.append(KeyedEntry(change.id, entry))
            continue
        named = [added[change.entry]] if change.entry in added else in_file.by_key.get(change.entry, ())
        if not named and change.of and change.action in (Action.add_wordings, Action.remove_wordings):
            same = in_file.by_question.get(normalized(change.of), ())
            named = same if len(same) == 1 else ()
        there = [(position, before) for position in named if (before := current[position])]
        for position, before in there:
            changed = _changed(before.entry, change)
            current[position] = None if changed is None else replace(before, entry=changed)
            touched.add(position)
        if not there:
            lapsed.add(change.id)
    # What was added may be in the file by now, as `ap-ranker changes --output` writes it.
    in_file_now, new = current[: len(in_file.keyed)], [one for one in current[len(in_file.keyed) :] if one is not None]
    questions = {normalized(keyed.entry.question) for keyed in new}
    alike = {position for question in questions for position in in_file.by_question.get(question, ())}
    alike |= {position for position in touched if position < len(in_file_now)}
    known = {_texts(keyed.entry) for position in alike if (keyed := in_file_now[position]) is not None}
    kept = [keyed for keyed in in_file_now if keyed is not None]
    return ChangedEntries([*kept, *(one for one in new if _texts(one.entry) not in known)], lapsed, undone)


def _changed(entry: Entry, change: Change) -> Entry | None:
    """The entry after a change; `None` if it is deleted."""
    if change.action == Action.delete_entry:
        return None
    if change.action == Action.change_entry:
        return replace(entry, question=change.question, answer=change.answer, wordings=change.wordings)
    named = {question_key(wording) for wording in change.wordings}
    others = [wording for wording in entry.wordings if question_key(wording) not in named]
    if change.action == Action.add_wordings:
        others += dict.fromkeys(change.wordings)
    return replace(entry, wordings=tuple(others))


def _key(entry: Entry) -> str:
    return _hash(*map(normalized, (entry.title, entry.question, entry.answer)))


def _hash(*texts: str) -> str:
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=8).hexdigest()
