"""The owner's changes of a FAQ: lines of a file beside it, which are laid over its entries. The FAQ's file stays.

An entry is known by a key of its own text. When somebody changes that text in the FAQ's file, an older change or
deletion of this entry lapses: the file is newer. Added wordings stay with the entry that still has the same question.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from ap_ranker.data.faq import Entry
from ap_ranker.documents.watched_folder import Overlay
from ap_ranker.errors import InputError
from ap_ranker.files import writing
from ap_ranker.text.reading import normalized, question_key
from ap_ranker.web.appended import line_of, locked_file, parsed_line, whole_lines, write_whole


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
    """One line of a file of changes."""

    id: str
    time: str  # in UTC, as ISO 8601
    action: Action
    entry: str = ""  # the key of the entry that it changes; an added entry has the id of its change
    of: str = ""  # the question of that entry, before the change
    question: str = ""  # the new one
    answer: str = ""
    wordings: tuple[str, ...] = ()  # all of a new or changed entry; or those that are added or removed
    undone: str = ""  # the id of the change that is undone

    @classmethod
    def make(cls, action: Action, **fields: Any) -> Change:
        """A new change, of now."""
        return cls(uuid4().hex[:12], datetime.now(UTC).isoformat(timespec="seconds"), action, **fields)


_LINE = TypeAdapter(Change)


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


def owners_changes(path: Path) -> Overlay:
    """What lays the changes of a file over the entries of a FAQ."""
    return Overlay(path, partial(_laid_over, path))


def _laid_over(path: Path, entries: list[Entry]) -> list[Entry]:
    known = read_changes(path)
    changed = [keyed.entry for keyed in apply_changes(entries, known).entries] if known else entries
    if not changed:
        raise InputError(f"{path}: expected entries that are left, found that its changes delete all of them.")
    return changed


def append_change(path: Path, change: Change) -> None:
    """Append a change to a file; it is on disk on return."""
    record = {name: value for name, value in asdict(change).items() if value}
    with writing(path), locked_file(path) as file:
        whole_lines(file, path, 0)  # moves a line aside that a crash left incomplete
        write_whole(file, line_of(record))


def read_changes(path: Path) -> list[Change]:
    """Read a file of changes, oldest first; none if there is no such file. A last line that is incomplete is none."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path}: expected a file of changes that can be read ({error.strerror}).") from error
    lines = content.split(b"\n")
    changes: list[Change] = []
    for number, line in enumerate(lines, start=1):
        record = parsed_line(line)
        if change := _change(record or {}):
            changes.append(change)
        elif line.strip() and (number < len(lines) or record is not None):
            expected = "expected a change as `ap-ranker serve --owner-key` writes it, found something else"
            raise InputError(f"{path}, line {number}: {expected}. Delete it, or name another file with --changes.")
    return changes


def apply_changes(entries: Iterable[Entry], changes: Sequence[Change]) -> ChangedEntries:
    """Lay changes, oldest first, over the entries of a FAQ's file."""
    current = {number: KeyedEntry(_key(entry), entry) for number, entry in enumerate(entries)}
    by_key: defaultdict[str, list[int]] = defaultdict(list)
    by_question: defaultdict[str, list[int]] = defaultdict(list)
    for number, keyed in current.items() if changes else ():
        by_key[keyed.key].append(number)
        if keyed.entry.question:
            by_question[normalized(keyed.entry.question)].append(number)
    next_number = len(current)
    undone = {change.undone for change in changes if change.action == Action.undo}
    lapsed: set[str] = set()
    for change in changes:
        if change.action == Action.undo or change.id in undone:
            continue
        if change.action == Action.add_entry:
            current[next_number] = KeyedEntry(change.id, _entry_of(change))
            by_key[change.id].append(next_number)
            next_number += 1
            continue
        numbers = by_key.get(change.entry, ())
        if not numbers and change.action in (Action.add_wordings, Action.remove_wordings):
            same = by_question.get(normalized(change.of), ())
            numbers = same if len(same) == 1 else ()
        numbers = [number for number in numbers if number in current]
        if not numbers:
            lapsed.add(change.id)
        for number in numbers:
            changed = _changed(current[number].entry, change)
            if changed is None:
                del current[number]
            else:
                current[number] = replace(current[number], entry=changed)
    return ChangedEntries(list(current.values()), lapsed, undone)


def _entry_of(change: Change) -> Entry:
    return Entry(change.question, change.answer, {}, f"change {change.id}", change.wordings)


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


def _change(record: dict[str, Any]) -> Change | None:
    """The change that a line states; `None` if it is none."""
    try:
        change = _LINE.validate_python(record)
    except ValidationError:
        return None
    needs = {Action.undo: ("undone",), Action.add_entry: ("answer",), Action.change_entry: ("entry", "answer")}
    needed = ("id", *needs.get(change.action, ("entry",)))
    return change if all(getattr(change, name) for name in needed) else None


def _key(entry: Entry) -> str:
    return _hash(*map(normalized, (entry.title, entry.question, entry.answer)))


def _hash(*texts: str) -> str:
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=8).hexdigest()
