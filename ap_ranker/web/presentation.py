"""How an answer is presented to customers: its text, how well it matches, and the category that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from haystack import Document
from pydantic import BaseModel

from ap_ranker.ranking.bm25 import BM25_LANGUAGE, BM25_RANK, shared_words
from ap_ranker.ranking.explanation import Token, pieces
from ap_ranker.ranking.wordings import MATCHED, is_exact_match
from ap_ranker.search.sources import category_of, source_of
from ap_ranker.web.page.markdown import to_html
from haystack_integrations.common.ap_ranker.entries import wordings_in_meta
from haystack_integrations.common.ap_ranker.query_data import query_data, query_key

WELL = 0.75
"""Minimum probability of an answer that matches well: three of four such answers are right."""

PARTLY = 0.4
"""Minimum probability of an answer that matches partly: two of five such answers are right."""


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


def presented(
    question: str, documents: Sequence[Document], *, calibrated: bool, category: str = ""
) -> list[dict[str, Any]]:
    """Answers as the page shows them; arguments as for `matches_of` and `category_of`."""
    key = query_key(question)
    answers = []
    for document, match in zip(documents, matches_of(question, documents, calibrated=calibrated), strict=True):
        source = source_of(document)
        search_data = query_data(document, key)
        stored_question = str(document.meta.get("question") or "")
        answer = str(document.meta.get("answer") or "")
        answer = answer or document.content or ""
        texts = f"{stored_question} {answer}"
        answers.append(
            {
                "id": document.id,
                "score": document.score,
                "question": stored_question,
                "answer": answer,
                "html": to_html(answer),
                "words": shared_words(question, texts, language=search_data.get(BM25_LANGUAGE)),
                "bm25_rank": search_data.get(BM25_RANK),
                MATCHED: search_data.get(MATCHED),
                "source": None if source is None else asdict(source),
                "category": category_of(document, category),
                "match": match,
            }
        )
    return answers


def weighed(tokens: Sequence[Token]) -> list[dict[str, float]] | None:
    """The spans of a text with their heat, 0 to 1; `None` if the model has no attention over this side."""
    if all(token.weight is None for token in tokens):
        return None
    return [{"start": start, "end": end, "heat": heat} for start, end, heat in pieces(tokens)]


def matches_of(question: str, documents: Sequence[Document], *, calibrated: bool) -> list[str | None]:
    """How well each answer matches a question: `well`, `partly`, `weakly`, or `None` if nobody knows.

    Only `calibrated` scores are probabilities.
    """

    def in_words(score: float | None) -> str | None:
        if not calibrated or score is None:
            return None
        if score >= WELL:
            return "well"
        return "partly" if score >= PARTLY else "weakly"

    matches = []
    for document, is_known in zip(documents, are_known(question, documents), strict=True):
        matches.append("well" if is_known else in_words(document.score))
    return matches


def are_known(question: str, documents: Sequence[Document]) -> list[bool]:
    """Whether a question is one that is known to ask for each of these answers, word for word."""
    key = query_key(question)
    wordings_of_documents = []
    for document in documents:
        wordings = wordings_in_meta(document)
        matched = query_data(document, key).get(MATCHED)
        if matched:
            wordings.append(matched)
        wordings_of_documents.append(wordings)
    return is_exact_match(question, wordings_of_documents)
