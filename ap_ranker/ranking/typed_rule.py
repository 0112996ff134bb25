"""What a search makes of what is no question, whichever way it is asked (`ap_ranker.text.typed` tells the kinds).

greeting, thanks, insult, person   none: the FAQ is not asked. But an entry whose own question is of that kind, such as
                                   "How do I contact you?", comes first, and is at least a maybe
incomplete: a number               none; but an entry that has the number comes first, and is at least a maybe
incomplete: goes on                at most a maybe: "how much is it?" may be clear where there is one thing to buy
word                               a maybe, the entries that have it first, where several entries have it
negated                            at most a maybe, where the first entry is about what is not wanted

A question that is a known wording, word for word, stays what it is. All else is decided as for any question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import regex
from numpy.typing import NDArray

from ap_ranker.kept_results import keep
from ap_ranker.ranking.bm25 import shared_words
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.text.languages import UNSPACED
from ap_ranker.text.question_words import compared_words
from ap_ranker.text.typed import Kind, Typed, has_number, read_typed

LEAST_SEVERAL = 2
"""Entries that have a word, from which on one of them is not asserted."""

LEAST_BEGINNING = 4
"""Letters of a word that may be the beginning of another form of it, in a language without a stemmer."""

_UNSPACED = regex.compile(f"[{UNSPACED}]")


@dataclass(frozen=True)
class TypedSignals:
    """What is known of N candidates for a text that is no question; `is_own` is asked for the position of one."""

    kind: Kind
    texts: Sequence[str]  # (N,) those of the candidates: copies of an entry have the same
    is_own: Callable[[int], bool]  # whether the entry is for what was typed
    goes_on: bool = False  # from an earlier question, without a number

    def own_entries(self) -> NDArray[np.bool_]:
        """(N,) which entries come first; none where the order stays."""
        count = len(self.texts)
        if self.kind is Kind.NEGATED:
            return np.zeros(count, dtype=bool)
        is_own_entry = np.array([self.is_own(row) for row in range(count)], dtype=bool)
        own_texts = {self.texts[row] for row in np.flatnonzero(is_own_entry).tolist()}
        if self.kind is Kind.WORD and len(own_texts) < LEAST_SEVERAL:
            return np.zeros(count, dtype=bool)
        return is_own_entry

    def decide(self, outcome: Outcome, first: int, *, has_own: bool) -> tuple[Outcome, Kind]:
        """The outcome in place of that of a question, and the kind, given the position of the first candidate."""
        if self.kind is Kind.NEGATED:
            is_refused = outcome is Outcome.ANSWER and not self.is_own(first)
            return (Outcome.MAYBE if is_refused else outcome), self.kind
        if self.kind is Kind.WORD:
            return (Outcome.MAYBE, self.kind) if has_own else (outcome, Kind.QUESTION)
        if self.goes_on:
            return (Outcome.MAYBE if outcome is Outcome.ANSWER else outcome), self.kind
        if not has_own:
            return Outcome.NONE, self.kind
        kind = Kind.QUESTION if self.kind is Kind.INCOMPLETE else self.kind
        return (Outcome.MAYBE if outcome is Outcome.NONE else outcome), kind


def compare_typed(
    text: str, texts: Sequence[str], wordings: Sequence[Sequence[str]], language: str | None
) -> TypedSignals | None:
    """The signals of N candidates with their known wordings, by BM25's language; `None` if the text is a question."""
    typed = read_typed(text)
    if typed.kind is Kind.QUESTION:
        return None

    def is_own(row: int) -> bool:
        questions = wordings[row] or [texts[row]]
        if typed.kind is Kind.WORD:
            return any(_has_word(question, typed.words, language) for question in questions)
        if typed.kind is Kind.NEGATED:
            return not _is_unwanted(typed, questions, language)
        if typed.kind is Kind.INCOMPLETE:
            return bool(typed.words) and any(has_number(part, typed.words) for part in (texts[row], *questions))
        return any(_kind_of(question) is typed.kind for question in questions)

    goes_on = typed.kind is Kind.INCOMPLETE and not typed.words
    return TypedSignals(typed.kind, texts, is_own, goes_on=goes_on)


@keep(1_000_000)  # characters: the same entries are asked about again
def _kind_of(question: str) -> Kind:
    return read_typed(question).kind


def _has_word(question: str, word: str, language: str | None) -> bool:
    if _UNSPACED.match(word):
        return word in question
    if len(word) >= LEAST_BEGINNING and any(other.startswith(word) for other in compared_words(question)):
        return True
    return bool(shared_words(word, question, language))


def _is_unwanted(typed: Typed, questions: Sequence[str], language: str | None) -> bool:
    """Whether an entry is about what is not wanted, and about nothing else that was said."""
    if any(_kind_of(question) is Kind.NEGATED for question in questions):
        return False
    has_others = any(shared_words(typed.other_words, question, language) for question in questions)
    has_unwanted = any(shared_words(typed.words, question, language) for question in questions)
    return not has_others and (has_unwanted or not typed.other_words)
