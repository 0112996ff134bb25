"""What the owner of a FAQ sees and changes: gaps, feedback, entries, and the history of changes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from ap_ranker.data.faq import Match
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.files import file_version
from ap_ranker.kept_results import Latest
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
from ap_ranker.web.database import Database, decisions, judgements, now, storable
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
        """The id of its document."""
        return to_document(self.keyed.entry, self.match).id

    @cached_property
    def answer_key(self) -> str:
        """The hash of the text that is matched."""
        return key_of_answer(self.keyed.entry.text(self.match))

    @cached_property
    def question_keys(self) -> frozenset[str]:
        """The keys of all questions that it knows."""
        return frozenset(map(question_key, self.keyed.entry.questions))

    @cached_property
    def text(self) -> str:
        """All its texts, normalized."""
        entry = self.keyed.entry
        return normalized(" ".join((entry.text(Match.both), *entry.wordings)))


@dataclass(frozen=True, eq=False)
class _CurrentEntries:
    """The entries as they are now, by what judgements and groups of questions name them by.

    Each of these dictionaries is computed when it is first needed.
    """

    facts: list[_Facts]

    @cached_property
    def by_id(self) -> dict[str, KeyedEntry]:
        """The id of the document -> the entry."""
        return {facts.id: facts.keyed for facts in self.facts}

    @cached_property
    def by_answer(self) -> dict[str, KeyedEntry]:
        """The hash of the text that is matched -> the entry."""
        return {facts.answer_key: facts.keyed for facts in self.facts}

    @cached_property
    def by_question(self) -> dict[str, KeyedEntry]:
        """Each question that one entry alone has -> the entry."""
        counts = Counter(facts.keyed.entry.question for facts in self.facts)
        by_question = {}
        for facts in self.facts:
            question = facts.keyed.entry.question
            if question and counts[question] == 1:
                by_question[question] = facts.keyed
        return by_question

    @cached_property
    def question_keys(self) -> set[str]:
        """The keys of all questions that entries know."""
        return _question_keys(self.facts)

    def judged(self, answer_key: str, stored_question: str) -> KeyedEntry | None:
        """The entry that a judgement is about, if it is still there."""
        return self.by_answer.get(answer_key) or self.by_question.get(stored_question)


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
        self._documents = documents
        self._match = match
        self._about = {"logged": logged, "keep_days": keep_days, "editable": documents is not None}
        self._wordings = wordings
        self._judgements = Judgements(database)
        self._current: Latest[_CurrentEntries] = Latest()
        self._facts: dict[int, _Facts] = {}  # by the identity of an entry, which they keep
        self._in_file: Latest[FileEntries] = Latest()
        self._finder = GapFinder(search, pause)
        self._groups = BackgroundGroups()

    def server(self) -> dict[str, Any]:
        """What the page says of the server.

        It also says whether the database's files hold nothing of what was deleted (`erased`), and what was left out of
        the files that are searched, and why.
        """
        left_out = [] if self._documents is None else [str(part) for part in self._documents.left_out]
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
        current = self._current_entries()
        gaps, is_grouping = self._gaps(current)
        if is_grouping:  # they are those of before, and what was deleted since is shown to nobody
            gaps = _only_with(gaps, {question.text for question in find_unanswered(self.database)})
        return {"grouping": is_grouping, "gaps": [_gap_as_json(gap, current) for gap in gaps]}

    def feedback_rows(self) -> list[dict[str, Any]]:
        """Visitors' sentences that the owner has not decided about, and the entries that were judged for them.

        Those of most networks come first. `key` is that of the entry; empty if it is not there any more, or if it or
        another one knows the sentence. `words` are what visitors wrote that they were looking for instead of the entry,
        the latest first: they are deleted with the question.
        """
        current = self._current_entries()
        rows = [_judgement_as_json(votes, current) for votes in self._judgements.votes(SHOWN, undecided=True)]
        return self._with_words(rows)

    def _with_words(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        words = self._judgements.words({row["question_key"] for row in rows})
        with_words = []
        for row in rows:
            sentences = words.get((row["question_key"], row["answer_key"]), [])
            with_words.append(row | {"words": list(map(clean_question, sentences))})
        return with_words

    def comments(self) -> list[dict[str, Any]]:
        """The sentences that visitors wrote beside an answer, the latest first, with what they were asked about."""
        current = self._current_entries()
        latest = select(judgements).where(judgements.c.comment != "").order_by(judgements.c.id.desc()).limit(SHOWN)
        with self.database.reading() as connection:
            rows = connection.execute(latest).mappings().all()
        comments = []
        for row in rows:
            keyed = current.judged(row["answer_key"], row["stored_question"])
            comments.append(
                {
                    "id": row["id"],
                    "time": row["time"],
                    "comment": clean_question(row["comment"]),
                    "question": clean_question(row["question"]),
                    "helped": row["helped"],
                    "entry": row["stored_question"] if keyed is None else _title(keyed),
                }
            )
        return comments

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

    def entries(self, text: str, skip: int = 0) -> dict[str, Any]:
        """How many entries contain all words of a text, and the page of them with the one after `skip`, or the last."""
        words = normalized(text).split()
        matching = []
        for facts in self._current_entries().facts:
            if all(word in facts.text for word in words):
                matching.append(facts.keyed)
        last = max(0, len(matching) - 1)
        first = min(skip, last) // ENTRIES * ENTRIES
        page = matching[first : first + ENTRIES]
        return {"count": len(matching), "first": first, "entries": [_entry_as_json(keyed) for keyed in page]}

    def history(self) -> list[dict[str, Any]]:
        """The changes, the latest first; `is_undone` and `is_lapsed` say which of them do not count."""
        changes = self._read_changes()
        changed = self._changed(changes)
        without_undoing = [change for change in changes if change.action != Action.undo]
        history = []
        for change in reversed(without_undoing[-SHOWN:]):
            state = {"is_undone": change.id in changed.undone, "is_lapsed": change.id in changed.lapsed}
            history.append(asdict(change) | state)
        return history

    def change(self, action: Action, version: str = "", **fields: Any) -> Change:
        """Keep a change with these `fields`; the search follows within seconds.

        If the entry is not there any more, or not in the `version` that the owner has seen, ConflictError is raised.
        """
        self._require_documents()
        with self.database.writing("changes") as connection:  # of all servers, one at a time looks and writes
            earlier = changes_in(connection)
            entries = self._changed(earlier).entries
            if action == Action.add_entry:
                texts = (fields.get("question", ""), fields["answer"])
                if texts in {(keyed.entry.question, keyed.entry.answer) for keyed in entries}:
                    # The owner may have sent it twice, as after a reply that was lost.
                    raise ConflictError("The FAQ has this entry already. Load the page again.")
            else:
                keyed = _entry_of_key(fields["entry"], entries)
                if action in (Action.change_entry, Action.delete_entry) and version != keyed.version:
                    raise ConflictError("This entry has been changed since. Load the page again.")
                fields["of"] = keyed.entry.question
            return self._keep(connection, Change.make(action, **fields), earlier=earlier)

    def _keep(self, connection: Connection, change: Change, earlier: Sequence[Change]) -> Change:
        """Append a change to the earlier ones; ConflictError if no entry would be left, with which no server starts."""
        if not self._changed([*earlier, change]).entries:
            raise ConflictError("The last entry cannot be deleted.")
        insert_change(connection, change)
        return change

    def undo(self, change: str, owner: str = "") -> Change:
        """Undo a change by one more; ConflictError if it is not there, or undone already.

        A visitor's sentence that it accepted is again one to decide about.
        """
        self._require_documents()
        with self.database.writing("changes", "decisions") as connection:
            earlier = changes_in(connection)
            if change not in {candidate.id for candidate in earlier if candidate.action != Action.undo}:
                raise ConflictError("There is no such change.")
            if change in {candidate.undone for candidate in earlier}:
                raise ConflictError("This change is undone already.")
            undoing = Change.make(Action.undo, undone=change, owner=owner)
            self._keep(connection, undoing, earlier=earlier)
            if connection.execute(delete(decisions).where(decisions.c.change == change)).rowcount:
                self.database.note_deletion(connection)
        return undoing

    def decide(
        self, state: str, owner: str = "", *, question_key: str, answer_key: str, wording: str, entry: str = ""
    ) -> dict[str, str]:
        """Keep that a visitor's sentence is `accepted`, as a wording of an entry, or `rejected`.

        ConflictError is raised if it is decided already, an entry knows it, the judgement is gone, or the entry is.
        """
        keys = {"question_key": question_key, "answer_key": answer_key}
        parts = ["decisions"]
        is_accepted = state == "accepted"
        if is_accepted:
            self._require_documents()
            parts.append("changes")
        with self.database.writing(*parts) as connection:
            _require_undecided(connection, keys)
            decision = {"change": "", "owner": storable(owner), "question": storable(wording)}
            if is_accepted:
                change = self._change_that_accepts(connection, wording, key=entry, owner=owner)
                insert_change(connection, change)
                decision = {"change": change.id, "owner": "", "question": ""}
            connection.execute(insert(decisions).values(**keys, **decision, time=now()))
        return {"state": state}

    def _change_that_accepts(self, connection: Connection, wording: str, key: str, owner: str) -> Change:
        """What makes a sentence a wording of the entry of this key; ConflictError if it cannot be one."""
        entries = self._changed(changes_in(connection)).entries
        question = _entry_of_key(key, entries).entry.question
        if _is_among(wording, _question_keys(self._facts_of(entries))):
            raise ConflictError("An entry knows this sentence already. Load the page again.")
        return Change.make(Action.add_wordings, owner=owner, entry=key, of=question, wordings=(wording,))

    def _require_documents(self) -> None:
        if self._documents is None:
            raise ConflictError("This search reads a store that its own program fills; change the entries there.")

    def _read_changes(self) -> list[Change]:
        """The changes, if the FAQ is one that they can change."""
        return [] if self._documents is None else read_changes(self.database)

    def _changed(self, changes: Sequence[Change]) -> ChangedEntries:
        return apply_changes(self._file_entries(), changes)

    def _file_entries(self) -> FileEntries:
        """The entries of the file as it was last read."""
        last_read = [] if self._documents is None else self._documents.unchanged
        return self._in_file.get((last_read,), partial(FileEntries, last_read))

    def _current_entries(self) -> _CurrentEntries:
        """The entries as they are now, laid out anew if the documents or the changes are others."""
        in_file = self._file_entries()
        return self._current.get((in_file, self.database.revision("changes")), partial(self._lay_out, in_file))

    def _lay_out(self, in_file: FileEntries) -> _CurrentEntries:
        changed = apply_changes(in_file, self._read_changes())
        current = _CurrentEntries(self._facts_of(changed.entries))
        self._facts = {id(facts.keyed): facts for facts in current.facts}
        return current

    def _facts_of(self, entries: Iterable[KeyedEntry]) -> list[_Facts]:
        computed = self._facts  # another thread may put another dictionary in its place
        return [computed.get(id(keyed)) or _Facts(keyed, self._match) for keyed in entries]

    def _gaps(self, current: _CurrentEntries) -> tuple[list[Gap], bool]:
        """The first groups so far, and whether more come; they are made again if anything has changed."""
        searched = ([file_version(file) for file in self._wordings], current)
        revisions = [self.database.revision(part) for part in ("questions", "judgements")]

        def work() -> Iterator[list[Gap]]:
            entries = None if self._documents is None else [facts.keyed.entry for facts in current.facts]
            remaining, faq_questions = open_questions(
                find_unanswered(self.database), entries, match=self._match, wordings=self._wordings
            )
            yield from self._finder.find(remaining, faq_questions, most=SHOWN, version=searched)

        return self._groups.latest((searched, revisions), work)


def _only_with(gaps: Iterable[Gap], texts: Container[str]) -> list[Gap]:
    """The groups with only those of their questions that are among these texts; none that would be empty."""
    remaining_gaps = []
    for gap in gaps:
        questions = tuple(question for question in gap.questions if question.text in texts)
        if questions:
            remaining_gaps.append(Gap(questions))
    return remaining_gaps


def _gap_as_json(gap: Gap, current: _CurrentEntries) -> dict[str, Any]:
    questions = []
    for question in gap.questions:
        questions.append(
            {
                "text": question.text,
                "asked": question.asked,
                "ticked": gap.takes(question),
                "more_like": question.nearest if gap.is_elsewhere(question) else "",
            }
        )
    first = gap.first
    nearest = current.by_id.get(first.entry) or current.by_question.get(first.nearest)  # the search may be behind
    return {
        "questions": questions,
        "asked": gap.asked,
        "is_near": gap.is_near,
        "nearest": first.nearest,
        "score": first.score,
        "nearest_entry": None if nearest is None else _entry_as_json(nearest),
    }


def _judgement_as_json(votes: Votes, current: _CurrentEntries) -> dict[str, Any]:
    keyed = current.judged(votes.answer_key, votes.stored_question)
    sentence = clean_question(votes.question)
    key = ""
    if keyed is not None and not _is_among(sentence, current.question_keys):
        key = keyed.key
    return {
        "question_key": votes.question_key,
        "answer_key": votes.answer_key,
        "helped": votes.helped,
        "did_not_help": votes.did_not_help,
        "networks": votes.networks,
        "question": sentence,
        "entry": votes.stored_question if keyed is None else _title(keyed),
        "key": key,
    }


def _entry_as_json(keyed: KeyedEntry) -> dict[str, Any]:
    return {
        "key": keyed.key,
        "version": keyed.version,
        "title": keyed.entry.title,
        "question": keyed.entry.question,
        "answer": keyed.entry.answer,
        "wordings": keyed.entry.wordings,
    }


def _title(keyed: KeyedEntry) -> str:
    """What an entry is shown as where one line must do."""
    return keyed.entry.question or keyed.entry.title


def _require_undecided(connection: Connection, keys: Mapping[str, str]) -> None:
    """ConflictError if the owner has decided about a judgement, or if it is gone."""
    decided = connection.scalar(select(decisions.c.time).filter_by(**keys).limit(1))
    if decided is not None:
        raise ConflictError("This sentence is decided already. Load the page again.")
    judged = connection.scalar(select(judgements.c.id).filter_by(**keys).limit(1))
    if judged is None:
        raise ConflictError(GONE)


def _entry_of_key(key: str, entries: Iterable[KeyedEntry]) -> KeyedEntry:
    """The entry that a change names; ConflictError if it is not there."""
    for keyed in entries:
        if keyed.key == key:
            return keyed
    raise ConflictError("This entry is not in the FAQ any more. Load the page again.")


def _question_keys(facts_of_entries: Iterable[_Facts]) -> set[str]:
    """The keys of all questions that entries know, and that of a sentence without words."""
    keys = {""}
    for facts in facts_of_entries:
        keys |= facts.question_keys
    return keys


def _is_among(sentence: str, question_keys: set[str]) -> bool:
    return question_key(sentence) in question_keys
