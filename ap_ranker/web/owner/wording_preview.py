"""What a new wording of an entry would change, tried on a copy of the search before anything is saved."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ap_ranker.data.faq import Match
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.search.declared_pipeline import DeclaredPipeline, Limits
from ap_ranker.search.trial_search import trial_search
from ap_ranker.text.question_keys import is_among, keys_of_questions
from ap_ranker.web.changes import Action, Change, KeyedEntry, changed_entry
from ap_ranker.web.database import Database
from ap_ranker.web.gaps import QuestionVectors
from ap_ranker.web.owner.current_entries import CurrentEntries, title_of
from ap_ranker.web.question_log import asked_questions
from haystack_integrations.common.ap_ranker.entries import to_document

MOST_LOGGED = 500
"""Maximum number of logged questions that are looked at, those asked most often: the first time, each is encoded."""

NEAREST = 30
"""Number of logged questions, the nearest to the new wordings, that are asked before and after."""

CHOICES = 4
"""Maximum number of entries that are proposed for a question."""


class WordingPreview:
    """Tries wordings on a copy of a search, one try at a time. Threads may share it."""

    def __init__(self, search: DeclaredPipeline, database: Database, match: Match, limits: Limits) -> None:
        self._search = search
        self._database = database
        self._match = match
        self._limits = limits
        self._vectors = QuestionVectors(search)
        self._lock = threading.Lock()

    def choices(self, question: str, current: CurrentEntries, left_out: Sequence[str]) -> list[KeyedEntry]:
        """The entries that the search finds for a question, the best first, without those of some keys."""
        most = CHOICES + len(left_out)
        documents, _ = self._search.answer(question, self._limits, top_k=most)
        entries = [current.by_id[document.id] for document in documents if document.id in current.by_id]
        return [keyed for keyed in entries if keyed.key not in left_out][:CHOICES]

    def of(self, keyed: KeyedEntry, wordings: Sequence[str], current: CurrentEntries) -> dict[str, Any]:
        """What questions would get if these were wordings of an entry.

        Returns:
            `is_tried`: whether the search could be copied, as `trial_search` says; then `changed` has each of the
            wordings, and of the logged questions nearest to them those that would get another first entry or another
            outcome: `question`, `is_new` of a wording, and what it gets `now` and `then`, an outcome and an entry.
            `elsewhere`: each wording that another entry knows, or answers by now, with that `entry`.
        """
        now = {wording: self._found(self._search, wording, current) for wording in wordings}
        result: dict[str, Any] = {"is_tried": False, "changed": [], "elsewhere": []}
        for wording in wordings:
            for other in self._answering(wording, current, now[wording]):
                if other.key != keyed.key:
                    result["elsewhere"].append({"question": wording, "entry": title_of(other)})
                    break
        change = Change.make(Action.add_wordings, entry=keyed.key, wordings=tuple(wordings))
        changed = changed_entry(keyed.entry, change)
        assert changed is not None
        with self._lock:
            document = to_document(changed, self._match)
            before = to_document(keyed.entry, self._match)
            trial = trial_search(self._search, document, replaced=before.id)
            if trial is None:
                return result
            result["is_tried"] = True
            same = {document.id: keyed}
            for question in [*wordings, *self._nearest_questions(wordings)]:
                is_new = question in now
                gets_now = now[question] if is_new else self._found(self._search, question, current)
                gets_then = self._found(trial, question, current, same)
                if is_new or gets_now != gets_then:
                    row = {"question": question, "is_new": is_new}
                    row |= {"now": _as_json(*gets_now), "then": _as_json(*gets_then)}
                    result["changed"].append(row)
        return result

    def _answering(self, wording: str, current: CurrentEntries, now: tuple[str, KeyedEntry | None]) -> list[KeyedEntry]:
        """The entries that know a question, and the one that answers it now."""
        entries = current.that_know(wording)
        outcome, first = now
        if first is not None and outcome == Outcome.ANSWER:
            entries.append(first)
        return entries

    def _found(
        self,
        search: DeclaredPipeline,
        question: str,
        current: CurrentEntries,
        further: dict[str, KeyedEntry] | None = None,
    ) -> tuple[str, KeyedEntry | None]:
        """The outcome of a question, and its first entry, also where `further` documents have entries."""
        documents, decision = search.answer(question, self._limits)
        outcome = str(decision.outcome)
        if not documents or decision.outcome is Outcome.NONE:
            return outcome, None
        first = documents[0]
        entry = (further or {}).get(first.id) or current.by_id.get(first.id)
        return outcome, entry

    def _nearest_questions(self, wordings: Sequence[str]) -> list[str]:
        """The logged questions most like any of the wordings; none without vectors, as only equal ones count then."""
        keys = keys_of_questions(wordings)
        questions = asked_questions(self._database, MOST_LOGGED)
        logged = [question for question in questions if not is_among(question, keys)]
        self._vectors.keep_only({*logged, *wordings})
        embed, _ = self._vectors.model()
        if embed is None or not logged:
            return []
        similarity = embed(logged) @ embed(wordings).T
        nearest = (-similarity.max(axis=1)).argsort(kind="stable")[:NEAREST]
        return [logged[row] for row in nearest.tolist()]


def _as_json(outcome: str, keyed: KeyedEntry | None) -> dict[str, str]:
    return {"outcome": outcome, "entry": "" if keyed is None else title_of(keyed)}
