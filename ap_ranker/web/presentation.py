"""How an answer is presented to customers: its text, how well it matches, and the category that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ap_ranker.data.column_names import CATEGORIES, plain
from ap_ranker.ranking.bm25 import BM25_LANGUAGE, BM25_RANK, shared_words
from ap_ranker.ranking.explanation import Token, pieces
from ap_ranker.ranking.wordings import MATCHED, WORDINGS, is_exact_match
from ap_ranker.search.sources import source_of
from ap_ranker.web.page.markdown import to_html
from haystack_integrations.common.ap_ranker.query_data import query_data, query_key

if TYPE_CHECKING:
    from haystack import Document

WELL, PARTLY = 0.75, 0.4
"""Minimum probabilities of a right answer: three of four such answers are right, and two of five."""


class PresentedAnswer(BaseModel):
    """An answer as the page shows it."""

    id: str
    score: float | None
    question: str  # the stored one; empty if there is none
    answer: str
    html: str  # the answer, safe to show
    words: list[str]  # of question and answer, in lower case, that the visitor's question shares
    bm25_rank: int | None
    matched_wording: str | None  # the known wording that found it
    source: dict[str, Any] | None  # title, file, page and url
    category: str
    match: str | None  # `well`, `partly`, `weakly`, or unknown
    receipt: str | None  # for `POST /api/feedback`


def presented(question: str, document: Document, *, calibrated: bool, category: str = "") -> dict[str, Any]:
    """An answer as the page shows it; arguments as for `match_of` and `category_of`."""
    source = source_of(document)
    answer = str(document.meta.get("answer") or document.content or "")
    stored = document.meta.get("question") or ""
    found = query_data(document, query_key(question))
    return {
        "id": document.id,
        "score": document.score,
        "question": stored,
        "answer": answer,
        "html": to_html(answer),
        "words": shared_words(question, f"{stored} {answer}", found.get(BM25_LANGUAGE)),
        "bm25_rank": found.get(BM25_RANK),
        MATCHED: found.get(MATCHED),
        "source": None if source is None else asdict(source),
        "category": category_of(document, category),
        "match": match_of(question, document, calibrated=calibrated),
    }


def weighed(tokens: Sequence[Token]) -> list[dict[str, float]] | None:
    """The spans of a text with their heat, 0 to 1; `None` if the model has no attention over this side."""
    if all(token.weight is None for token in tokens):
        return None
    return [{"start": start, "end": end, "heat": heat} for start, end, heat in pieces(tokens)]


def match_of(question: str, document: Document, *, calibrated: bool) -> str | None:
    """How well an answer matches a question: `well`, `partly`, `weakly`, or `None` if nobody knows.

    Only `calibrated` scores are probabilities.
    """
    if is_known_question(question, document):
        return "well"
    if not calibrated or document.score is None:
        return None
    return "well" if document.score >= WELL else "partly" if document.score >= PARTLY else "weakly"


def is_known_question(question: str, document: Document) -> bool:
    """Whether a question is one that is known to ask for this answer, word for word."""
    further, matched = document.meta.get(WORDINGS), query_data(document, query_key(question)).get(MATCHED)
    known = [document.meta.get("question"), matched, *(further if isinstance(further, list) else ())]
    return any(is_exact_match(question, [[text for text in known if isinstance(text, str)]]))


def category_of(document: Document, column: str = "") -> str:
    """The category of an answer, in a column of the FAQ; empty if it has none.

    The column is by default one whose name says so; without one it is the first title of the document that the answer
    is from, or the name of its file.
    """
    if column:
        return _line(document.meta.get(column))
    named = (value for name, value in document.meta.items() if plain(name) in CATEGORIES)
    if category := next(filter(None, map(_line, named)), ""):
        return category
    source = source_of(document)
    if source is None:
        return ""
    return (source.title or source.file or "").split(" > ", 1)[0]


def _line(value: object) -> str:
    return " ".join(str(value).split()) if isinstance(value, (str, int)) else ""
