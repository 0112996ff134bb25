"""The entries of a FAQ as they are now, with what the owner's page asks of them again and again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

from ap_ranker.data.faq import Match
from ap_ranker.data.wordings import WordingFiles, wordings_of
from ap_ranker.files import file_version
from ap_ranker.kept_results import Latest
from ap_ranker.text.question_keys import keys_of_questions, question_keys
from ap_ranker.text.reading import normalized
from ap_ranker.web.changes import KeyedEntry
from ap_ranker.web.judgements import key_of_answer
from haystack_integrations.common.ap_ranker.entries import to_document


class ConflictError(Exception):
    """A request does not fit things as they are now."""


@dataclass(frozen=True, eq=False)
class EntryFacts:
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
        return keys_of_questions(self.keyed.entry.questions)

    @cached_property
    def text(self) -> str:
        """All its texts, normalized."""
        entry = self.keyed.entry
        return normalized(" ".join((entry.text(Match.both), *entry.wordings)))


@dataclass(frozen=True, eq=False)
class CurrentEntries:
    """The entries as they are now, by what judgements and groups of questions name them by.

    Each of these dictionaries is computed when it is first needed.
    """

    facts: list[EntryFacts]

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
        return question_keys_of(self.facts)

    @cached_property
    def by_key(self) -> dict[str, KeyedEntry]:
        """The key that changes name it by -> the entry."""
        return {facts.keyed.key: facts.keyed for facts in self.facts}

    @cached_property
    def keys_by_answer(self) -> dict[str, list[str]]:
        """The hash of the text that is matched -> the keys of all entries with this text."""
        keys: defaultdict[str, list[str]] = defaultdict(list)
        for facts in self.facts:
            keys[facts.answer_key].append(facts.keyed.key)
        return dict(keys)

    def unhelpful(self, question_keys: Iterable[str], answers_of: Mapping[str, set[str]]) -> list[str]:
        """The keys of the entries that did not help any of these questions; `unhelpful_answers` gives the answers."""
        answer_keys: set[str] = set()
        for asked_key in question_keys:
            answer_keys |= answers_of[asked_key]
        keys: list[str] = []
        for answer_key in sorted(answer_keys):
            keys += self.keys_by_answer.get(answer_key, [])
        return keys

    @cached_property
    def by_question_key(self) -> dict[str, list[KeyedEntry]]:
        """The key of each question that entries know -> these entries."""
        by_question_key: defaultdict[str, list[KeyedEntry]] = defaultdict(list)
        for facts in self.facts:
            for key in facts.question_keys:
                by_question_key[key].append(facts.keyed)
        return dict(by_question_key)

    def that_know(self, sentence: str) -> list[KeyedEntry]:
        """The entries that know a question word for word."""
        knowing: dict[str, KeyedEntry] = {}
        for question_key in question_keys(sentence):
            for keyed in self.by_question_key.get(question_key, []):
                knowing[keyed.key] = keyed
        return list(knowing.values())

    def judged(self, answer_key: str, stored_question: str) -> KeyedEntry | None:
        """The entry that a judgement is about, if it is still there."""
        return self.by_answer.get(answer_key) or self.by_question.get(stored_question)


class KnownKeys:
    """The keys of all questions that a search knows: those of its entries, and of their further wordings in files."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._kept: Latest[AbstractSet[str]] = Latest()

    def of(self, current: CurrentEntries) -> AbstractSet[str]:
        """Those of the entries, and of the files as they are now."""
        if not self._files:
            return current.question_keys
        versions = [file_version(file) for file in self._files]
        return self._kept.get((versions, current), partial(self._read, current))

    def _read(self, current: CurrentEntries) -> AbstractSet[str]:
        entries = [facts.keyed.entry for facts in current.facts]
        texts = [facts.keyed.entry.text(facts.match) for facts in current.facts]
        further = wordings_of(entries, texts, WordingFiles().now(self._files))
        return current.question_keys | keys_of_questions(chain.from_iterable(further))


def entry_as_json(keyed: KeyedEntry) -> dict[str, Any]:
    """An entry as the page shows and names it."""
    return {
        "key": keyed.key,
        "version": keyed.version,
        "title": keyed.entry.title,
        "question": keyed.entry.question,
        "answer": keyed.entry.answer,
        "wordings": keyed.entry.wordings,
    }


def title_of(keyed: KeyedEntry) -> str:
    """What an entry is shown as where one line must do."""
    return keyed.entry.question or keyed.entry.title


def question_keys_of(facts_of_entries: Iterable[EntryFacts]) -> set[str]:
    """The keys of all questions that entries know, and that of a sentence without words."""
    keys = {""}
    for facts in facts_of_entries:
        keys |= facts.question_keys
    return keys


def entry_of_key(key: str, entries: Iterable[KeyedEntry], version: str = "") -> KeyedEntry:
    """The entry that a change names; ConflictError if it is not there, or not in the `version` that the owner has seen.

    Without a version, any will do.
    """
    for keyed in entries:
        if keyed.key == key:
            if version and version != keyed.version:
                raise ConflictError("This entry has been changed since. Load the page again.")
            return keyed
    raise ConflictError("This entry is not in the FAQ any more. Load the page again.")
