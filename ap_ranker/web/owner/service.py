"""What the owner of a FAQ sees and changes: gaps, feedback, entries, and the history of changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from functools import partial
from heapq import merge
from itertools import chain
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select

from ap_ranker.data.faq import Match
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.files import file_version
from ap_ranker.kept_results import Latest
from ap_ranker.search.declared_pipeline import NO_LIMITS, DeclaredPipeline, Limits
from ap_ranker.text.question_keys import is_among
from ap_ranker.text.reading import normalized
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
from ap_ranker.web.database import Database, decisions, judgements, now
from ap_ranker.web.gaps import BackgroundGroups, GapFinder, find_unanswered, open_questions, pause
from ap_ranker.web.grouping import Gap, only_with
from ap_ranker.web.judgements import Judgements, Votes, key_of_question, unhelpful_answers
from ap_ranker.web.new_questions import new_questions
from ap_ranker.web.owner.current_entries import (
    ConflictError,
    CurrentEntries,
    EntryFacts,
    KnownKeys,
    entry_as_json,
    entry_of_key,
    title_of,
)
from ap_ranker.web.owner.decisions import GONE, Asked, Decisions, Judged, require_helpful
from ap_ranker.web.owner.hints import Hints
from ap_ranker.web.owner.overview import happened_since, next_step
from ap_ranker.web.owner.suggested_title import suggested_title
from ap_ranker.web.owner.wording_preview import WordingPreview
from ap_ranker.web.question_log import clean_question
from ap_ranker.web.served_search import promise_of
from ap_ranker.web.traces import delete_sentence
from ap_ranker.web.visitors import DAY

logger = logging.getLogger(__name__)

SHOWN = 50
"""Maximum number of groups, judgements and changes that are shown at once."""

ENTRIES = 12
"""Number of entries on a page of them."""

MOST_NEW = 2000
"""Maximum number of new questions that are counted."""

NEW_DAYS = 28
"""Number of days for which a question that nobody has asked before is a new one."""


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
        limits: Limits = NO_LIMITS,
        unwritten: Callable[[], int] | None = None,  # as of `Hints`
    ) -> None:
        self.database = database
        self._search = search
        self._limits = limits
        self._documents = documents
        self._match = match
        self._about = {"logged": logged, "keep_days": keep_days, "editable": documents is not None}
        self._wordings = wordings
        self._known_keys = KnownKeys(wordings)
        self._judgements = Judgements(database)
        self._current: Latest[CurrentEntries] = Latest()
        self._facts: dict[int, EntryFacts] = {}  # by the identity of an entry, which they keep
        self._in_file: Latest[FileEntries] = Latest()
        self._finder = GapFinder(search, pause)
        self._groups = BackgroundGroups()
        self._decisions = Decisions(database, self._facts_in)
        self._hints = Hints(search, editable=documents is not None, unwritten=unwritten)
        self._preview = WordingPreview(search, database, match, limits)

    def server(self) -> dict[str, Any]:
        """What the page says of the server.

        It also says what cannot be done here, and why (`hints`); whether the database's files hold nothing of what was
        deleted (`erased`); and what was left out of the files that are searched, and why.
        """
        left_out = [] if self._documents is None else [str(part) for part in self._documents.left_out]
        return self._about | {
            "hints": self._hints.now(),
            "erased": self.database.is_erased,
            "left_out": left_out[:SHOWN],
            "more_left_out": max(0, len(left_out) - SHOWN),
        }

    def promise(self) -> dict[str, Any]:
        """The fields of `promise_of` the search that is served, and how many `wordings` its entries have."""
        facts_of_entries = self._current_entries().facts
        n_wordings = sum(len(facts.keyed.entry.wordings) for facts in facts_of_entries)
        return asdict(promise_of(self._search, self._limits)) | {"wordings": n_wordings}

    def overview(self, since: int | None, owner: str = "") -> dict[str, Any]:
        """What has happened `since` the owner's last visit, or in `NEW_DAYS`, and the most useful thing to do `next`.

        What this owner has changed does not count. `now` is the time by which to ask the next time.
        """
        time = now()
        begin = time - NEW_DAYS * DAY if since is None else since
        rows = self.feedback_rows()
        unhelpful = [row for row in rows if not row["helps"]]
        helpful = [row for row in rows if row["helps"]]
        step = next_step(unhelpful, self.gaps()["gaps"], new=self.new_questions()["questions"], wordings=helpful)
        happened = happened_since(self.database, begin, owner=owner)
        return {"now": time, "since": begin, "happened": happened, "next": None if step is None else asdict(step)}

    def new_questions(self) -> dict[str, Any]:
        """The first questions of `NEW_DAYS` that nobody asked before, and how many there are; most doubt first.

        Those that an entry knows are left out, and so are all after `MOST_NEW`.
        """
        current = self._current_entries()
        new = new_questions(self.database, since=now() - NEW_DAYS * DAY, most=MOST_NEW)
        known_keys = self._known_keys.of(current)
        unknown = [question for question in new if not is_among(question.text, known_keys)]
        rows = []
        for question in unknown[:SHOWN]:
            keyed = current.by_id.get(question.entry)
            shown = {"question": question.text, "title": suggested_title(question.text)}
            row = asdict(question) | shown | {"entry": "" if keyed is None else title_of(keyed)}
            del row["text"]
            rows.append(row)
        return {"count": len(unknown), "questions": rows}

    def choices(self, questions: Sequence[str], left_out: Sequence[str] = ()) -> dict[str, Any]:
        """The entries that the search finds for the first of these questions, without those that are `left_out`.

        `unhelpful` has the keys of these, and of all entries that visitors say did not help any of the questions.
        """
        current = self._current_entries()
        question_keys = list(map(key_of_question, questions))
        unhelpful_of = self._unhelpful_answers(question_keys)
        unhelpful = [*left_out, *current.unhelpful(question_keys, unhelpful_of)]
        entries = self._preview.choices(questions[0], current, unhelpful)
        return {"entries": [entry_as_json(keyed) for keyed in entries], "unhelpful": unhelpful}

    def preview(self, entry: str, wordings: Sequence[str], version: str = "") -> dict[str, Any]:
        """As `WordingPreview.of`, of the entry of a key; ConflictError as `entry_of_key`."""
        self._require_documents()
        current = self._current_entries()
        keyed = entry_of_key(entry, current.by_key.values(), version)
        return self._preview.of(keyed, wordings, current)

    def _unhelpful_answers(self, question_keys: Collection[str], *, undecided: bool = False) -> dict[str, set[str]]:
        """As `unhelpful_answers`, of all questions of a list at once."""
        with self.database.reading() as connection:
            return unhelpful_answers(connection, question_keys, undecided=undecided)

    def gaps(self) -> dict[str, Any]:
        """The groups of unanswered questions so far, each with its nearest entry, and whether more come (`grouping`).

        Of each question: how often it was `asked`, a `title` for an entry of it, whether it is `ticked`, and the
        question of the entry that it is `more_like` than the nearest entry of its group. `unhelpful` has the keys of
        the entries that visitors say did not help a question of the group: none of them is its nearest one.
        """
        current = self._current_entries()
        gaps, is_grouping = self._gaps(current)
        if is_grouping:  # they are those of before, and what was deleted since is shown to nobody
            gaps = only_with(gaps, {question.text for question in find_unanswered(self.database)})
        keys_of_gaps = [[key_of_question(question.text) for question in gap.questions] for gap in gaps]
        unhelpful_of = self._unhelpful_answers(list(chain.from_iterable(keys_of_gaps)))
        rows = []
        for gap, question_keys in zip(gaps, keys_of_gaps, strict=True):
            unhelpful = current.unhelpful(question_keys, unhelpful_of)
            rows.append(_gap_as_json(gap, current, unhelpful=unhelpful))
        return {"grouping": is_grouping, "gaps": rows}

    def feedback_rows(self) -> list[dict[str, Any]]:
        """Visitors' sentences that the owner has not decided about, and the entries that were judged for them.

        Those that `helps` says helped come first, and of these those of most networks. `key` and `version` are those of
        the entry that may know the sentence from now on; empty if it did not help, is not there any more, or if it or
        another one knows the sentence (`is_known`). What another entry answers by now is left out if it did not help.
        `words` are what visitors wrote that they were looking for instead of the entry, the latest first: they are
        deleted with the question.
        """
        current = self._current_entries()
        known_keys = self._known_keys.of(current)
        votes = self._judgements.undecided(SHOWN, helped=True)
        rows = [_judgement_as_json(one_vote, current, known_keys, helps=True) for one_vote in votes]
        refused = self._judgements.undecided(SHOWN, helped=False)
        question_keys = [one_vote.question_key for one_vote in refused]
        unhelpful_of = self._unhelpful_answers(question_keys)
        still_unhelpful_of = self._unhelpful_answers(question_keys, undecided=True)
        for one_vote in refused:
            unhelpful = current.unhelpful([one_vote.question_key], unhelpful_of)
            row = _judgement_as_json(one_vote, current, known_keys, helps=False) | {"unhelpful": unhelpful}
            still_unhelpful = current.unhelpful([one_vote.question_key], still_unhelpful_of)
            knowing = current.that_know(row["question"])
            if all(keyed.key in still_unhelpful for keyed in knowing):
                rows.append(row)
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
                    "entry": row["stored_question"] if keyed is None else title_of(keyed),
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
        return {"count": len(matching), "first": first, "entries": [entry_as_json(keyed) for keyed in page]}

    def history(self) -> list[dict[str, Any]]:
        """The changes and rejections, the latest first; `is_undone` and `is_lapsed` say which of them do not count."""
        changes = self._read_changes()
        changed = self._changed(changes)
        without_undoing = [change for change in changes if change.action != Action.undo]
        made = []
        for change in reversed(without_undoing[-SHOWN:]):
            state = {"is_undone": change.id in changed.undone, "is_lapsed": change.id in changed.lapsed}
            made.append(asdict(change) | state)
        rejections = self._decisions.rejections(SHOWN)
        return list(merge(made, rejections, key=_latest_first))[:SHOWN]

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
                keyed = entry_of_key(fields.pop("entry"), entries, version)
                if action == Action.change_entry:
                    return self._keep(connection, Change.edit(keyed, **fields), earlier=earlier)
                fields |= {"entry": keyed.key, "of": keyed.entry.question}
            if action == Action.add_wordings:
                question_keys = map(key_of_question, fields["wordings"])
                facts_of_entries = self._facts_of(entries)
                require_helpful(connection, question_keys, key=keyed.key, facts_of_entries=facts_of_entries)
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
        self,
        state: str,
        owner: str = "",
        *,
        question_key: str,
        answer_key: str,
        wording: str,
        entry: str = "",
        version: str = "",
        overrules: bool = False,
    ) -> dict[str, str]:
        """Keep that a visitor's sentence is `accepted`, as `Decisions.accept`, or `rejected`, as its `reject`.

        Returns the state and, of what is accepted, the id of the `change` that undoing names.
        """
        judged = Judged(question_key, answer_key, wording)
        if state != "accepted":
            self.reject([judged], owner)
            return {"state": state}
        self._require_documents()
        change = self._decisions.accept(judged, entry, version=version, owner=owner, overrules=overrules)
        return {"state": state, "change": change.id}

    def reject(self, sentences: Iterable[Judged], owner: str = "") -> int:
        """As `Decisions.reject`."""
        return self._decisions.reject(sentences, owner)

    def dismiss(self, asked: Iterable[Asked], owner: str = "") -> list[dict[str, str]]:
        """As `Decisions.dismiss`."""
        return self._decisions.dismiss(asked, owner)

    def take_back(self, keys_of_rejected: Iterable[Mapping[str, str]]) -> int:
        """As `Decisions.take_back`."""
        return self._decisions.take_back(keys_of_rejected)

    def _require_documents(self) -> None:
        if self._hints.refusal:
            raise ConflictError(self._hints.refusal)

    def _read_changes(self) -> list[Change]:
        """The changes, if the FAQ is one that they can change."""
        return [] if self._documents is None else read_changes(self.database)

    def _changed(self, changes: Sequence[Change]) -> ChangedEntries:
        return apply_changes(self._file_entries(), changes)

    def _file_entries(self) -> FileEntries:
        """The entries of the file as it was last read."""
        last_read = [] if self._documents is None else self._documents.unchanged
        return self._in_file.get((last_read,), partial(FileEntries, last_read))

    def _current_entries(self) -> CurrentEntries:
        """The entries as they are now, laid out anew if the documents or the changes are others."""
        in_file = self._file_entries()
        return self._current.get((in_file, self.database.revision("changes")), partial(self._lay_out, in_file))

    def _lay_out(self, in_file: FileEntries) -> CurrentEntries:
        changed = apply_changes(in_file, self._read_changes())
        current = CurrentEntries(self._facts_of(changed.entries))
        self._facts = {id(facts.keyed): facts for facts in current.facts}
        return current

    def _facts_in(self, connection: Connection) -> list[EntryFacts]:
        """Of the entries with all changes that a transaction sees."""
        return self._facts_of(self._changed(changes_in(connection)).entries)

    def _facts_of(self, entries: Iterable[KeyedEntry]) -> list[EntryFacts]:
        computed = self._facts  # another thread may put another dictionary in its place
        return [computed.get(id(keyed)) or EntryFacts(keyed, self._match) for keyed in entries]

    def _gaps(self, current: CurrentEntries) -> tuple[list[Gap], bool]:
        """The first groups so far, and whether more come; they are made again if anything has changed."""
        searched = ([file_version(file) for file in self._wordings], current)
        revisions = [self.database.revision(part) for part in ("questions", "judgements", "decisions")]

        def work() -> Iterator[list[Gap]]:
            entries = None if self._documents is None else [facts.keyed.entry for facts in current.facts]
            remaining, faq_questions = open_questions(
                find_unanswered(self.database), entries, match=self._match, wordings=self._wordings
            )
            yield from self._finder.find(remaining, faq_questions, most=SHOWN, version=searched)

        return self._groups.latest((searched, revisions), work)


def _latest_first(row: Mapping[str, Any]) -> int:
    return -int(row["time"])


def _gap_as_json(gap: Gap, current: CurrentEntries, unhelpful: Sequence[str]) -> dict[str, Any]:
    questions = []
    for question in gap.questions:
        questions.append(
            {
                "text": question.text,
                "asked": question.asked,
                "title": suggested_title(question.text),
                "ticked": gap.takes(question),
                "more_like": question.nearest if gap.is_elsewhere(question) else "",
            }
        )
    first = gap.first
    nearest = current.by_id.get(first.entry) or current.by_question.get(first.nearest)  # the search may be behind
    if nearest is not None and nearest.key in unhelpful:  # as a visitor has said meanwhile
        nearest = None
    return {
        "questions": questions,
        "asked": gap.asked,
        "is_near": gap.is_near,
        "nearest": first.nearest,
        "score": first.score,
        "nearest_entry": None if nearest is None else entry_as_json(nearest),
        "unhelpful": unhelpful,
    }


def _judgement_as_json(
    votes: Votes, current: CurrentEntries, known_keys: AbstractSet[str], *, helps: bool
) -> dict[str, Any]:
    keyed = current.judged(votes.answer_key, votes.stored_question)
    sentence = clean_question(votes.question)
    is_known = is_among(sentence, known_keys)
    is_offered = helps and keyed is not None and not is_known
    return {
        "question_key": votes.question_key,
        "answer_key": votes.answer_key,
        "helps": helps,
        "helped": votes.helped,
        "did_not_help": votes.did_not_help,
        "networks": votes.networks,
        "question": sentence,
        "entry": votes.stored_question if keyed is None else title_of(keyed),
        "key": keyed.key if keyed is not None and is_offered else "",
        "is_known": is_known,
        "knows": keyed is not None and keyed in current.that_know(sentence),
        "title": suggested_title(sentence),
        "unhelpful": [],
        "judged_entry": None if keyed is None else entry_as_json(keyed),
    }
