"""What the owner of a FAQ sees and changes: gaps, feedback, entries, and the history of changes."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from ap_ranker.data.faq import Match
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.files import file_version
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.text.reading import normalized, question_key
from ap_ranker.web.changes import (
    Action,
    Change,
    ChangedEntries,
    FileEntries,
    KeyedEntry,
    apply_changes,
    changes_in,
    insert_change,
    read_changes,
)
from ap_ranker.web.database import Database, judgements, now, storable, wordings
from ap_ranker.web.gaps import BackgroundGroups, GapFinder, find_unanswered, open_questions, pause
from ap_ranker.web.grouping import Gap
from ap_ranker.web.judgements import Judgements, Votes, key_of_answer
from ap_ranker.web.question_log import clean_question
from ap_ranker.web.traces import delete_sentence
from haystack_integrations.common.ap_ranker.entries import to_document

logger = logging.getLogger(__name__)

GONE = "This sentence is not there any more. Load the page again."

SHOWN = 50
"""Maximum number of groups, judgements and changes that are shown at once."""

ENTRIES = 12
"""Number of entries on a page of them."""


class ConflictError(Exception):
    """A request does not fit things as they are now."""


@dataclass(frozen=True, eq=False)
class _Facts:
    """What is computed of an entry once, when it is first needed, however often others change."""

    keyed: KeyedEntry
    match: Match

    @cached_property
    def id(self) -> str:
        """Of its document."""
        return to_document(self.keyed.entry, self.match).id

    @cached_property
    def answer_key(self) -> str:
        """The hash of the text that is matched."""
        return key_of_answer(self.keyed.entry.text(self.match))

    @cached_property
    def question_keys(self) -> frozenset[str]:
        """Those of all that it knows."""
        return frozenset(map(question_key, self.keyed.entry.questions))

    @cached_property
    def words(self) -> str:
        """All its texts, normalized."""
        return normalized(" ".join((self.keyed.entry.text(Match.both), *self.keyed.entry.wordings)))


@dataclass(frozen=True, eq=False)
class _Found:
    """The entries as they are now, by what judgements and groups of questions know of them: each when it is needed."""

    facts: list[_Facts]

    @cached_property
    def by_id(self) -> dict[str, KeyedEntry]:
        """The id of the document -> the entry."""
        return {one.id: one.keyed for one in self.facts}

    @cached_property
    def by_answer(self) -> dict[str, KeyedEntry]:
        """The hash of the text that is matched -> the entry."""
        return {one.answer_key: one.keyed for one in self.facts}

    @cached_property
    def by_question(self) -> dict[str, KeyedEntry]:
        """Each question that one entry alone has -> the entry."""
        counts = Counter(one.keyed.entry.question for one in self.facts)
        asked = ((one.keyed.entry.question, one.keyed) for one in self.facts)
        return {question: keyed for question, keyed in asked if question and counts[question] == 1}

    @cached_property
    def known(self) -> set[str]:
        """The keys of all that entries know."""
        return _known(self.facts)


class OwnerService:
    """What the owner's page shows and changes; without `documents`, not what is searched. Threads may share it."""

    def __init__(
        self,
        search: DeclaredPipeline,
        documents: WatchedFolder | None,
        match: Match,
        database: Database,
        *,
        logged: bool = False,  # whether questions are
        keep_days: int = 0,  # until what visitors left is deleted; 0: it stays
        wordings: Sequence[Path] = (),
    ) -> None:
        self.database = database
        self._search, self._documents, self._match = search, documents, match
        self._about = {"logged": logged, "keep_days": keep_days, "editable": documents is not None}
        self._wordings = wordings
        self._judgements = Judgements(database)
        self._lock = threading.Lock()
        self._found_at: tuple[object, int] = (None, -1)
        self._found = _Found([])
        self._facts: dict[int, _Facts] = {}  # by the identity of an entry, which they keep
        self._in_file: tuple[object, FileEntries] = (None, FileEntries(()))
        self._finder = GapFinder(search, pause)
        self._groups = BackgroundGroups()

    def server(self) -> dict[str, Any]:
        """What the page says of the server: also whether the database's files hold nothing of what was deleted, and
        what was left out of the files that are searched, and why."""
        left_out = [] if self._documents is None else list(map(str, self._documents.left_out))
        return self._about | {
            "erased": self.database.is_erased,
            "left_out": left_out[:SHOWN],
            "more_left_out": max(0, len(left_out) - SHOWN),
        }

    def gaps(self) -> dict[str, Any]:
        """The groups of unanswered questions so far, each with its nearest entry, and whether more come (`grouping`).

        Of each question: how often it was `asked`, whether it is `ticked`, and the question of the entry that it is
        `more_like` than the nearest entry of its group.
        """
        found = self._current()
        groups, is_grouping = self._gaps(found)
        if is_grouping:  # they are those of before, and what was deleted since is shown to nobody
            there = {one.text for one in find_unanswered(self.database)}
            kept = (tuple(one for one in gap.questions if one.text in there) for gap in groups)
            groups = [Gap(questions) for questions in kept if questions]
        shown = []
        for gap in groups:
            first = gap.first
            nearest = found.by_id.get(first.entry) or found.by_question.get(first.nearest)  # the search may be behind
            asked = []
            for one in gap.questions:
                more_like = one.nearest if gap.is_elsewhere(one) else ""
                asked.append({"text": one.text, "asked": one.asked, "ticked": gap.takes(one), "more_like": more_like})
            of_first = {"nearest": first.nearest, "score": first.score, "nearest_entry": nearest and _shown(nearest)}
            shown.append({"questions": asked, "asked": gap.asked, "is_near": gap.is_near} | of_first)
        return {"grouping": is_grouping, "gaps": shown}

    def feedback_rows(self) -> list[dict[str, Any]]:
        """Visitors' sentences that the owner has not decided about, and the entries that were judged for them.

        Those of most networks come first. `key` is that of the entry; empty if it is not there any more, or if it or
        another one knows the sentence.
        """
        found = self._current()
        return [self._judged(votes, found) for votes in self._judgements.votes(SHOWN, undecided=True)]

    def comments(self) -> list[dict[str, Any]]:
        """The sentences that visitors wrote beside an answer, the latest first, with what they were asked about."""
        found = self._current()
        latest = select(judgements).where(judgements.c.comment != "").order_by(judgements.c.id.desc()).limit(SHOWN)
        with self.database.reading() as connection:
            rows = connection.execute(latest).mappings().all()
        shown = []
        for row in rows:
            keyed = _judged_entry(row["answer_key"], row["stored_question"], found)
            shown.append(
                {
                    "id": row["id"],
                    "time": row["time"],
                    "comment": clean_question(row["comment"]),
                    "question": clean_question(row["question"]),
                    "helped": row["helped"],
                    "entry": keyed.entry.question or keyed.entry.title if keyed else row["stored_question"],
                }
            )
        return shown

    def delete_comment(self, number: int) -> dict[str, Any]:
        """Delete a visitor's sentence beside an answer, by the `id` of `comments`, as `delete_question`."""
        return self._delete(judgements.c.comment, judgements.c.id == number)

    def delete_question(self, key: str) -> dict[str, Any]:
        """Delete a visitor's sentence, by the `question_key` of `feedback_rows`, wherever visitors have left it.

        Returns whether the database's files hold it no longer; if not, the server tries again (`retention`).
        ConflictError is raised if it is not there any more.
        """
        return self._delete(judgements.c.question, judgements.c.question_key == key)

    def _delete(self, column: ColumnElement[str], this: ColumnElement[bool]) -> dict[str, Any]:
        with self.database.reading() as connection:
            sentence = connection.scalar(select(column).where(this, column != "").limit(1))
        if sentence is None:
            raise ConflictError(GONE)
        delete_sentence(self.database, sentence)
        try:
            self.database.erase()
        except InputError as error:
            logger.warning("%s", error)
        return {"erased": self.database.is_erased}

    def _judged(self, votes: Votes, found: _Found) -> dict[str, Any]:
        keyed = _judged_entry(votes.answer_key, votes.stored_question, found)
        sentence = clean_question(votes.question)
        known = _is_known(sentence, found.known)
        names = ("question_key", "answer_key", "helped", "did_not_help", "networks")
        return {name: getattr(votes, name) for name in names} | {
            "question": sentence,
            "entry": keyed.entry.question or keyed.entry.title if keyed else votes.stored_question,
            "key": "" if keyed is None or known else keyed.key,
        }

    def entries(self, text: str, skip: int = 0) -> dict[str, Any]:
        """How many entries contain all words of a text, and the page of them with the one after `skip`, or the last."""
        wanted = normalized(text).split()
        found = [one.keyed for one in self._current().facts if all(word in one.words for word in wanted)]
        first = min(skip, max(0, len(found) - 1)) // ENTRIES * ENTRIES
        return {"count": len(found), "first": first, "entries": list(map(_shown, found[first : first + ENTRIES]))}

    def history(self) -> list[dict[str, Any]]:
        """The changes, the latest first; `undone` and `lapsed` say which of them do not count."""
        known = [] if self._documents is None else read_changes(self.database)
        changed = self._changed(known)
        states = {"is_undone": changed.undone, "is_lapsed": changed.lapsed}
        made = [change for change in known if change.action != Action.undo][: -SHOWN - 1 : -1]
        return [asdict(one) | {name: one.id in ids for name, ids in states.items()} for one in made]

    def change(self, action: Action, version: str = "", **fields: Any) -> Change:
        """Keep a change, whose `fields` are given; the search follows within seconds.

        If the entry is not there any more, or not in the `version` that the owner has seen, ConflictError is raised.
        """
        self._require_documents()
        with self.database.writing("changes") as connection:  # of all servers, one at a time looks and writes
            known = changes_in(connection)
            entries = self._changed(known).entries
            if action == Action.add_entry:
                new = fields.get("question", ""), fields["answer"]
                if new in {(one.entry.question, one.entry.answer) for one in entries}:  # perhaps the reply was lost
                    raise ConflictError("The FAQ has this entry already. Load the page again.")
            else:
                keyed = _named(fields["entry"], entries)
                if action in (Action.change_entry, Action.delete_entry) and version != keyed.version:
                    raise ConflictError("This entry has been changed since. Load the page again.")
                fields["of"] = keyed.entry.question
            return self._keep(connection, known, Change.make(action, **fields))

    def _keep(self, connection: Connection, known: Sequence[Change], change: Change) -> Change:
        """Append a change to the `known` ones; ConflictError if no entry would be left, with which no server starts."""
        if not self._changed([*known, change]).entries:
            raise ConflictError("The last entry cannot be deleted.")
        insert_change(connection, change)
        return change

    def undo(self, change: str, owner: str = "") -> Change:
        """Undo a change by one more; ConflictError if it is not there, or undone already.

        A visitor's sentence that it accepted is again one to decide about.
        """
        self._require_documents()
        with self.database.writing("changes", "wordings") as connection:
            known = changes_in(connection)
            if change not in {one.id for one in known if one.action != Action.undo}:
                raise ConflictError("There is no such change.")
            if change in {one.undone for one in known}:
                raise ConflictError("This change is undone already.")
            made = self._keep(connection, known, Change.make(Action.undo, undone=change, owner=owner))
            if connection.execute(delete(wordings).where(wordings.c.change == change)).rowcount:
                self.database.note_deletion(connection)
        return made

    def decide(
        self, state: str, owner: str = "", *, question_key: str, answer_key: str, wording: str, entry: str = ""
    ) -> dict[str, str]:
        """Keep that a visitor's sentence is `accepted`, as a wording of an entry, or `rejected`.

        ConflictError is raised if it is decided already, an entry knows it, the judgement is gone, or the entry is.
        """
        keys = {"question_key": question_key, "answer_key": answer_key}
        decided = {"question": storable(wording), "state": state, "origin": "click", "owner": owner, "time": now()}
        row: dict[str, Any] = keys | decided
        accepted = state == "accepted"
        if accepted:
            self._require_documents()
        with self.database.writing(*(["changes"] if accepted else []), "wordings") as connection:
            known, judged = (
                connection.scalar(select(table.c.stored_question).filter_by(**keys).limit(1))
                for table in (wordings, judgements)
            )
            if known is not None:
                raise ConflictError("This sentence is decided already. Load the page again.")
            if judged is None:
                raise ConflictError(GONE)
            row["stored_question"] = judged
            if accepted:
                entries = self._changed(changes_in(connection)).entries
                of = _named(entry, entries).entry.question
                if _is_known(wording, _known(self._facts_of(entries))):
                    raise ConflictError("An entry knows this sentence already. Load the page again.")
                change = Change.make(Action.add_wordings, owner=owner, entry=entry, of=of, wordings=(wording,))
                insert_change(connection, change)
                row |= {"change": change.id, "stored_question": storable(of)}
            connection.execute(insert(wordings).values(**row))
        return {"state": state}

    def _require_documents(self) -> None:
        if self._documents is None:
            raise ConflictError("This search reads a store that its own program fills; change the entries there.")

    def _changed(self, known: Sequence[Change]) -> ChangedEntries:
        return apply_changes(self._file_entries(), known)

    def _file_entries(self) -> FileEntries:
        """The entries of the file as it was last read; threads that see a new one at once may each lay it out."""
        of, laid_out = self._in_file
        if self._documents is not None and of is not self._documents.unchanged:
            unchanged = self._documents.unchanged
            laid_out = FileEntries(unchanged)
            self._in_file = unchanged, laid_out
        return laid_out

    def _current(self) -> _Found:
        """The entries as they are now, laid out anew if the documents or the changes are others."""
        with self._lock:
            in_file = self._file_entries()
            revision = self.database.revision("changes")
            if self._found_at[0] is not in_file or self._found_at[1] != revision:
                known = [] if self._documents is None else read_changes(self.database)
                self._found = _Found(self._facts_of(apply_changes(in_file, known).entries))
                self._facts = {id(one.keyed): one for one in self._found.facts}
                self._found_at = in_file, revision
            return self._found

    def _facts_of(self, entries: Iterable[KeyedEntry]) -> list[_Facts]:
        known = self._facts  # another thread may put another dictionary in its place
        return [known.get(id(keyed)) or _Facts(keyed, self._match) for keyed in entries]

    def _gaps(self, found: _Found) -> tuple[list[Gap], bool]:
        """The first groups found so far, and whether more come; they are found again if anything has changed."""
        searched = [file_version(file) for file in self._wordings], found
        asked = [self.database.revision(part) for part in ("questions", "judgements")]

        def work() -> Iterator[list[Gap]]:
            entries = None if self._documents is None else [one.keyed.entry for one in found.facts]
            remaining, known = open_questions(find_unanswered(self.database), entries, self._match, self._wordings)
            yield from self._finder.find(remaining, known, SHOWN, searched)

        return self._groups.latest((searched, asked), work)


def _judged_entry(answer_key: str, stored_question: str, found: _Found) -> KeyedEntry | None:
    """The entry that a judgement is about, if it is still there."""
    return found.by_answer.get(answer_key) or found.by_question.get(stored_question)


def _named(key: str, entries: Iterable[KeyedEntry]) -> KeyedEntry:
    keyed = next((keyed for keyed in entries if keyed.key == key), None)
    if keyed is None:
        raise ConflictError("This entry is not in the FAQ any more. Load the page again.")
    return keyed


def _known(facts: Iterable[_Facts]) -> set[str]:
    """The keys of all questions that entries know, and that of a sentence without words."""
    return {""}.union(*(one.question_keys for one in facts))


def _is_known(sentence: str, keys: set[str]) -> bool:
    return question_key(sentence) in keys


def _shown(keyed: KeyedEntry) -> dict[str, Any]:
    texts = {name: getattr(keyed.entry, name) for name in ("title", "question", "answer", "wordings")}
    return {"key": keyed.key, "version": keyed.version, **texts}
