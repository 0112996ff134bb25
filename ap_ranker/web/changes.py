"""The owner's changes of a FAQ: rows of a database, which are laid over its entries. The FAQ's file stays as it is.

An entry is known by a key of its own text. When somebody changes that text in the FAQ's file, an older change or
deletion of this entry lapses: the file is newer. Added wordings stay with the entry that still has the same question.

An edit says what differs, and nothing of what stays: so an earlier change of the same entry can be undone without it,
and wordings that somebody adds to the file count beside it.
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
from itertools import chain
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter
from sqlalchemy import Connection, delete, insert, select

from ap_ranker.data.faq import Entry
from ap_ranker.data.rows import stripped
from ap_ranker.documents.watched_folder import Overlay
from ap_ranker.errors import InputError
from ap_ranker.text.question_keys import is_among, keys_of_questions
from ap_ranker.text.reading import normalized
from ap_ranker.web.database import Database, changes, now, open_database, storable

logger = logging.getLogger(__name__)


class Action(StrEnum):
    """What a change does."""

    add_entry = "add entry"
    edit_entry = "edit entry"
    change_entry = "change entry"  # of earlier releases: all texts of an entry, also those that stayed as they were
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
    answer: str = ""  # of an edit: empty if it stays, as the question does if it equals `of`
    wordings: tuple[str, ...] = ()  # all of a new or changed entry; those that are added, or removed by their action
    removed: tuple[str, ...] = ()  # those that an edit removes
    undone: str = ""  # the id of the change that is undone

    def __post_init__(self) -> None:
        needs = {Action.undo: ("undone",), Action.add_entry: ("answer",), Action.change_entry: ("entry", "answer")}
        for name in ("id", *needs.get(self.action, ("entry",))):
            if not stripped(getattr(self, name)):
                raise ValueError(f"Expected the {name} of a change, found none.")

    @classmethod
    def make(cls, action: Action, **fields: Any) -> Change:
        """A new change, of now."""
        return cls(id=uuid4().hex[:12], time=now(), action=action, **fields)

    @classmethod
    def edit(
        cls, keyed: KeyedEntry, *, answer: str, question: str = "", wordings: Sequence[str] = (), owner: str = ""
    ) -> Change:
        """What makes these the texts of an entry."""
        before = keyed.entry
        return cls.make(
            Action.edit_entry,
            owner=owner,
            entry=keyed.key,
            of=before.question,
            question=question,
            answer="" if answer == before.answer else answer,
            wordings=tuple(wording for wording in wordings if wording not in before.wordings),
            removed=tuple(wording for wording in before.wordings if wording not in wordings),
        )

    @property
    def changes_texts(self) -> bool:
        """Whether it changes or deletes a question or an answer, not only wordings."""
        if self.action == Action.edit_entry:
            return bool(self.answer) or self.question != self.of
        return self.action not in (Action.add_wordings, Action.remove_wordings)

    def row(self) -> dict[str, Any]:
        """Its row in the table."""
        row: dict[str, Any] = {}
        for name, value in vars(self).items():
            row[name] = storable(value) if isinstance(value, str) else value
        row["wordings"] = written_wordings(self.wordings, row.pop("removed"), self.action)
        return row


def written_wordings(wordings: Iterable[str], removed: Iterable[str], action: str) -> str:
    """The column `wordings` of a change: a list in JSON, of an edit `added` and `removed` ones."""
    added = [storable(wording) for wording in wordings]
    if action != Action.edit_entry:
        return json.dumps(added, ensure_ascii=False)
    return json.dumps({"added": added, "removed": [storable(wording) for wording in removed]}, ensure_ascii=False)


def read_wordings(column: str) -> dict[str, Any]:
    """The fields of a change that its column `wordings` holds, unchecked; ValueError or RecursionError if it cannot."""
    wordings = json.loads(column)
    if isinstance(wordings, dict):
        return {"wordings": wordings.get("added"), "removed": wordings.get("removed")}
    return {"wordings": wordings}


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
            problem = f"{database.place}: expected entries that are left, found that its changes delete all of them"
            raise InputError(f"{problem}. Add one to the FAQ's file; then deletions can be undone on the owner's page.")
        return [keyed.entry for keyed in self.entries]


def owners_changes(place: str) -> Overlay:
    """What lays the changes in the database at a place over the entries of a FAQ; it can be pickled."""
    return Overlay(partial(_revision, place), partial(_laid_over, place))


def _revision(place: str) -> int:
    return open_database(place).revision("changes")


def _laid_over(place: str, entries: list[Entry]) -> list[Entry]:
    database = open_database(place)
    owner_changes = read_changes(database)
    if not owner_changes:
        return entries
    return apply_changes(entries, owner_changes).left(database)


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
    owner_changes = []
    query = select(changes).order_by(changes.c.number)
    for row in connection.execute(query).mappings():
        try:
            owner_changes.append(_CHANGE.validate_python({**row, **read_wordings(row["wordings"])}))
        except (ValueError, RecursionError):
            if row["id"] not in _warned:
                _warned.add(row["id"])
                logger.warning("Row %s of the owner's changes is left out: it is not known here.", row["number"])
    return owner_changes


def clear_changes(database: Database, entries: Sequence[Entry]) -> int:
    """Delete all changes, once the FAQ's own file has them; returns how many.

    InputError if they still change one of these entries, or if one no longer applies, as somebody has changed its entry
    in the file, and the file lacks it: they would be lost. Also if `Database.erase` has to wait.
    """
    with database.writing("changes") as connection:
        owner_changes = changes_in(connection)
        changed = apply_changes(entries, owner_changes)
        texts_now = {_texts(keyed.entry) for keyed in changed.entries}
        texts_in_file = {_texts(entry) for entry in entries}
        if texts_now != texts_in_file:
            expected = f"{database.place}: expected changes that the FAQ's file has, found others"
            raise InputError(f"{expected}. Write them with --output, and put that file in place of the FAQ's.")
        lost = _lost_changes(entries, [change for change in owner_changes if change.id in changed.lapsed])
        if lost:
            names = ", ".join(repr(change.of or change.question or change.answer[:60]) for change in lost[:3])
            raise InputError(
                f"{database.place}: expected changes that the FAQ's file has, found {len(lost):,} that no longer apply "
                f"and that it lacks, of {names}: their entries have changed in the file. Make them there, or undo them "
                "on the owner's page."
            )
        connection.execute(delete(changes))
        database.note_deletion(connection)
    database.erase()
    return len(owner_changes)


def _lost_changes(entries: Sequence[Entry], lapsed: Sequence[Change]) -> list[Change]:
    """Those of the changes that no longer apply, oldest first, of which the FAQ's file does not have what they made."""
    questions = {normalized(entry.question) for entry in entries}
    answers = {normalized(entry.answer) for entry in entries}
    known_keys = keys_of_questions(chain.from_iterable(entry.questions for entry in entries))
    lost: list[Change] = []
    is_settled: set[tuple[str, str]] = set()  # an entry, and what of it a later change has decided
    for change in reversed(lapsed):
        entry = change.entry
        if (entry, "entry") in is_settled:  # it was deleted afterwards
            continue
        if change.action == Action.delete_entry:
            is_settled.add((entry, "entry"))
            is_there = bool(change.of) and normalized(change.of) in questions
            if is_there:
                lost.append(change)
            continue
        made = {"question": (change.question, questions), "answer": (change.answer, answers)}
        is_lost = False
        for name, (text, in_file) in made.items():
            is_made = change.changes_texts and bool(text) and not (name == "question" and text == change.of)
            if is_made and (entry, name) not in is_settled:
                is_settled.add((entry, name))
                is_lost |= normalized(text) not in in_file
        if change.action != Action.remove_wordings:
            for wording in change.wordings:
                keys = keys_of_questions([wording])
                if keys and (entry, wording) not in is_settled:
                    is_lost |= keys.isdisjoint(known_keys)
        removed = change.wordings if change.action == Action.remove_wordings else change.removed
        is_settled.update((entry, wording) for wording in removed)
        if is_lost:
            lost.append(change)
    return lost[::-1]


def _texts(entry: Entry) -> tuple[str, ...]:
    texts = (entry.question, entry.answer, *sorted(entry.wordings))
    return tuple(map(normalized, texts))


class FileEntries:
    """The entries of a FAQ's file, by the key and by the question that changes name them by.

    To compute these takes a second for 50,000 entries: whoever applies changes again and again keeps them.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.keyed = [KeyedEntry(_key(entry), entry) for entry in entries]

    @cached_property
    def by_key(self) -> Mapping[str, Sequence[int]]:
        """Key -> the positions of the entries that have it: the same text may be there twice."""
        return _positions([keyed.key for keyed in self.keyed])

    @cached_property
    def by_question(self) -> Mapping[str, Sequence[int]]:
        """Question, normalized -> the positions of its entries."""
        return _positions([normalized(keyed.entry.question) for keyed in self.keyed])


def _positions(names: Iterable[str]) -> dict[str, list[int]]:
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        positions[name].append(position)
    return dict(positions)


def apply_changes(entries: Iterable[Entry] | FileEntries, owner_changes: Sequence[Change]) -> ChangedEntries:
    """Lay changes, oldest first, over the entries of a FAQ's file."""
    in_file = entries if isinstance(entries, FileEntries) else FileEntries(entries)
    undone = {change.undone for change in owner_changes if change.action == Action.undo}
    lapsed: set[str] = set()
    current = _EditedEntries(in_file)
    for change in owner_changes:
        if change.action == Action.undo or change.id in undone:
            continue
        if change.action == Action.add_entry:
            current.add(change)
        elif not current.change(change):
            lapsed.add(change.id)
    return ChangedEntries(current.entries(), lapsed=lapsed, undone=undone)


class _EditedEntries:
    """The entries of a FAQ's file and those that were added, while changes are laid over them."""

    def __init__(self, in_file: FileEntries) -> None:
        self._in_file = in_file
        self._entries: list[KeyedEntry | None] = [*in_file.keyed]  # `None` where one was deleted
        self._added: dict[str, int] = {}  # the id of a change that adds an entry -> the entry's position
        self._changed_positions: set[int] = set()

    def add(self, change: Change) -> None:
        """Add the entry of a change."""
        self._added[change.id] = len(self._entries)
        place = f"change {change.id}"
        entry = Entry(change.question, change.answer, other={}, place=place, wordings=change.wordings)
        self._entries.append(KeyedEntry(change.id, entry))

    def change(self, change: Change) -> bool:
        """Change or delete the entries that a change names; `False` if none of them is there."""
        is_there = False
        for position in self._positions_named_by(change):
            keyed = self._entries[position]
            if keyed is None:
                continue
            changed = changed_entry(keyed.entry, change)
            self._entries[position] = None if changed is None else replace(keyed, entry=changed)
            self._changed_positions.add(position)
            is_there = True
        return is_there

    def _positions_named_by(self, change: Change) -> Sequence[int]:
        """The positions of the entries with the change's key; wordings also follow the only one with its question."""
        if change.entry in self._added:
            return [self._added[change.entry]]
        positions = self._in_file.by_key.get(change.entry, ())
        if positions or not change.of or change.changes_texts:
            return positions
        positions = self._in_file.by_question.get(normalized(change.of), ())
        return positions if len(positions) == 1 else ()

    def entries(self) -> list[KeyedEntry]:
        """All entries that are left, without an added one that the file has by now (`owner changes --output`)."""
        file_length = len(self._in_file.keyed)
        entries = [keyed for keyed in self._entries[:file_length] if keyed is not None]
        added_entries = [keyed for keyed in self._entries[file_length:] if keyed is not None]
        texts_in_file = self._texts_that_may_equal(added_entries)
        entries += [keyed for keyed in added_entries if _texts(keyed.entry) not in texts_in_file]
        return entries

    def _texts_that_may_equal(self, added_entries: Iterable[KeyedEntry]) -> set[tuple[str, ...]]:
        """The texts of those of the file's entries that may equal an added one: to compare all would take long."""
        positions = {position for position in self._changed_positions if position < len(self._in_file.keyed)}
        for question in {normalized(keyed.entry.question) for keyed in added_entries}:
            positions.update(self._in_file.by_question.get(question, ()))
        texts = set()
        for position in positions:
            keyed = self._entries[position]
            if keyed is not None:
                texts.add(_texts(keyed.entry))
        return texts


def changed_entry(entry: Entry, change: Change) -> Entry | None:
    """The entry after a change; `None` if it is deleted."""
    if change.action == Action.delete_entry:
        return None
    if change.action == Action.change_entry:
        return replace(entry, question=change.question, answer=change.answer, wordings=change.wordings)
    named_wordings = (*change.wordings, *change.removed)
    changed_keys = keys_of_questions(named_wordings)
    wordings: list[str] = []
    for wording in entry.wordings:
        is_named = wording in named_wordings or is_among(wording, changed_keys)  # one without words has no key
        if not is_named:
            wordings.append(wording)
    if change.action != Action.remove_wordings:
        wordings += dict.fromkeys(change.wordings)
    entry = replace(entry, wordings=tuple(wordings))
    if change.action == Action.edit_entry:
        question = entry.question if change.question == change.of else change.question
        entry = replace(entry, question=question, answer=change.answer or entry.answer)
    return entry


def _key(entry: Entry) -> str:
    return _hash(normalized(entry.title), normalized(entry.question), normalized(entry.answer))


def _hash(*texts: str) -> str:
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=8).hexdigest()
