"""What the owner of a FAQ sees and changes: gaps, feedback, entries, and the history of changes."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ap_ranker.data.faq import Match
from ap_ranker.data.feedback import helped, read_feedback
from ap_ranker.files import file_version
from ap_ranker.text.keys import normalized
from ap_ranker.web.background_groups import BackgroundGroups, pause
from ap_ranker.web.changes import Action, Change, ChangedEntries, KeyedEntry, append_change, apply_changes, read_changes
from ap_ranker.web.gaps import GapFinder, find_unanswered, open_questions
from ap_ranker.web.grouping import Gap
from ap_ranker.web.question_log import LoggedQuestion, read_question_log
from haystack_integrations.document_stores.ap_ranker.entries import to_document

if TYPE_CHECKING:
    from ap_ranker.documents.watched_folder import WatchedFolder
    from ap_ranker.search.declared_pipeline import DeclaredPipeline

SHOWN = 50
"""Maximum number of groups, entries, judgements and changes that are shown at once."""

DAYS = 14
"""Number of days whose questions are counted one by one."""


class ConflictError(Exception):
    """A change does not fit the entries as they are now."""


class OwnerService:
    """The owner's desk. Threads may share it. Without `documents`, the page cannot change what is searched."""

    def __init__(
        self,
        search: DeclaredPipeline,
        documents: WatchedFolder | None,
        match: Match,
        *,
        feedback: Path,
        log: Path | None = None,
        wordings: Sequence[Path] = (),
    ) -> None:
        self._search, self._documents, self._match = search, documents, match
        self._feedback, self._log, self._wordings = feedback, log, wordings
        self._lock = threading.Lock()
        self._finder = GapFinder(search, pause)
        self._groups = BackgroundGroups()

    def counts(self) -> dict[str, Any]:
        """How many questions there were, by outcome and by day, and how many judgements."""
        questions = self._questions()
        last = date.fromisoformat(questions[-1].time[:10]) if questions else None
        days = Counter(question.time[:10] for question in questions)
        shown = [str(last - timedelta(days=back)) for back in reversed(range(DAYS))] if last else []
        votes = Counter(row["helped"] for row in self._judgements())
        return {
            "logged": self._log is not None,
            "editable": self._documents is not None,
            "questions": len(questions),
            "outcomes": Counter(question.outcome for question in questions),
            "days": {day: days[day] for day in shown},
            "helped": votes[True],
            "did_not_help": votes[False],
        }

    def gaps(self) -> dict[str, Any]:
        """The groups of unanswered questions so far, each with its nearest entry, and whether more come (`grouping`).

        Of each question: how often it was `asked`, whether it is `ticked`, and the question of the entry that it is
        `more_like` than the nearest entry of its group.
        """
        groups, is_grouping = self._gaps()
        entries = self._changed().entries
        by_id = {to_document(keyed.entry, self._match).id: keyed for keyed in entries}
        by_question = {keyed.entry.question: keyed for keyed in entries if keyed.entry.question}
        shown = []
        for gap in groups:
            first = gap.first
            nearest = by_id.get(first.entry) or by_question.get(first.nearest)  # the search may be a second behind
            questions = [
                {
                    "text": one.text,
                    "asked": one.asked,
                    "ticked": gap.takes(one),
                    "more_like": one.nearest if gap.is_elsewhere(one) else "",
                }
                for one in gap.questions
            ]
            shown.append(
                {
                    "questions": questions,
                    "asked": gap.asked,
                    "nearest": first.nearest,
                    "score": first.score,
                    "is_near": gap.is_near,
                    "nearest_entry": None if nearest is None else _shown(nearest),
                }
            )
        return {"grouping": is_grouping, "gaps": shown}

    def feedback_rows(self) -> list[dict[str, Any]]:
        """Questions and the entries that were judged for them, the latest first, with the number of votes."""
        votes: defaultdict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
        for row in self._judgements():
            place = row["question"], row["stored_question"]
            votes[place] = votes.pop(place, Counter()) + Counter([row["helped"]])
        latest = list(votes.items())[: -SHOWN - 1 : -1]
        return [
            {"question": question, "entry": entry, "helped": count[True], "did_not_help": count[False]}
            for (question, entry), count in latest
        ]

    def entries(self, text: str) -> dict[str, Any]:
        """The entries that contain all words of a text, and how many there are."""
        found, words = [], normalized(text).split()
        for keyed in self._changed().entries:
            whole = normalized(" ".join((keyed.entry.text(Match.both), *keyed.entry.wordings)))
            if all(word in whole for word in words):
                found.append(keyed)
        return {"count": len(found), "entries": [_shown(keyed) for keyed in found[:SHOWN]]}

    def history(self) -> list[dict[str, Any]]:
        """The changes, the latest first; `undone` and `lapsed` say which of them do not count."""
        changed = self._changed()
        changes = [change for change in self._read_changes() if change.action != Action.undo]
        return [
            asdict(change) | {"is_undone": change.id in changed.undone, "is_lapsed": change.id in changed.lapsed}
            for change in changes[: -SHOWN - 1 : -1]
        ]

    def change(self, action: Action, version: str = "", **fields: Any) -> Change:
        """Append a change to the file, whose `fields` are given; the search follows within seconds.

        If the entry is not there any more, or not in the `version` that the owner has seen, ConflictError is raised.
        """
        with self._lock:
            if action != Action.add_entry:
                entries = self._changed().entries
                keyed = next((keyed for keyed in entries if keyed.key == fields["entry"]), None)
                if keyed is None:
                    raise ConflictError("This entry is not in the FAQ any more. Load the page again.")
                if action in (Action.change_entry, Action.delete_entry) and version != keyed.version:
                    raise ConflictError("This entry has been changed since. Load the page again.")
                if action == Action.delete_entry and len(entries) == 1:
                    raise ConflictError("The last entry cannot be deleted.")
                fields["of"] = keyed.entry.question
            return self._append(Change.make(action, **fields))

    def undo(self, change: str) -> Change:
        """Undo a change: one more line of the file; ConflictError if it is not there, or undone already."""
        with self._lock:
            known = self._read_changes()
            if change not in {one.id for one in known if one.action != Action.undo}:
                raise ConflictError("There is no such change.")
            if change in {one.undone for one in known}:
                raise ConflictError("This change is undone already.")
            return self._append(Change.make(Action.undo, undone=change))

    def _append(self, change: Change) -> Change:
        append_change(self._changes_file(), change)
        return change

    def _changes_file(self) -> Path:
        if self._documents is None or self._documents.overlay is None:
            raise ConflictError("This search reads a store that its own program fills; change the entries there.")
        return self._documents.overlay.path

    def _read_changes(self) -> list[Change]:
        return [] if self._documents is None else read_changes(self._changes_file())

    def _changed(self) -> ChangedEntries:
        return apply_changes(self._documents.unchanged if self._documents else (), self._read_changes())

    def _questions(self) -> list[LoggedQuestion]:
        return read_question_log(self._log) if self._log is not None else []

    def _judgements(self) -> list[dict[str, Any]]:
        return [
            {"question": row.need("question"), "stored_question": row.get("stored_question"), "helped": helped(row)}
            for row in (read_feedback(self._feedback) if self._feedback.is_file() else ())
        ]

    def _gaps(self) -> tuple[list[Gap], bool]:
        """The first groups that are found so far, and whether more come; they are found again if a file has changed."""
        documents = self._documents
        searched = [file_version(file) for file in self._wordings], documents.look() if documents else None
        asked = [file_version(file) for file in (self._feedback, *([self._log] if self._log else ()))]

        def work() -> Iterator[list[Gap]]:
            unanswered = find_unanswered(self._questions(), self._feedback)
            entries = None if documents is None else [keyed.entry for keyed in self._changed().entries]
            remaining, known = open_questions(unanswered, entries, self._match, self._wordings)
            yield from self._finder.find(remaining, known, SHOWN, searched)

        return self._groups.latest((searched, asked), work)


def _shown(keyed: KeyedEntry) -> dict[str, Any]:
    texts = {name: getattr(keyed.entry, name) for name in ("title", "question", "answer", "wordings")}
    return {"key": keyed.key, "version": keyed.version, **texts}
