"""A text that asks several questions, or is a letter around one: each is searched like a question of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from haystack import Document

from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.rule import Basis
from ap_ranker.text.question_parts import question_parts
from ap_ranker.text.typed import Kind


@dataclass(frozen=True)
class SearchedQuestion:
    """A question, and what `DeclaredPipeline.answer` returns for it."""

    question: str
    documents: list[Document]
    decision: Decision


Searched = TypeVar("Searched", bound=SearchedQuestion)


def search_parts(whole: Searched, search: Callable[[str], Searched]) -> tuple[Kind, list[Searched]]:
    """The kind of a text that was searched as a whole, and its questions; none if these tell no more than the whole.

    A known question stays whole. Of a letter, one of the questions must find something; of several questions, each
    must, and they must find different entries first.
    """
    decision = whole.decision
    if decision.basis is Basis.EXACT or decision.kind not in (Kind.QUESTION, Kind.LANGUAGE, Kind.NEGATED):
        return decision.kind, []
    divided = question_parts(whole.question)
    parts = [search(text) for text in divided.texts]
    if parts and _tell_more(divided.kind, parts):
        return divided.kind, parts
    return decision.kind, []


def _tell_more(kind: Kind, parts: Sequence[SearchedQuestion]) -> bool:
    is_answered = [part.decision.outcome is not Outcome.NONE for part in parts]
    if kind is Kind.LONG:
        return any(is_answered)
    firsts = {part.documents[0].id for part in parts if part.documents}
    return len(firsts) > 1 and all(is_answered)
