"""FAQ entries as documents, and documents as a ranker's candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from haystack import Document

from ap_ranker.data.faq import Entry, Match
from ap_ranker.data.wordings import Wordings
from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import BM25_LANGUAGE, BM25_SCORE
from ap_ranker.ranking.wordings import WORDINGS
from haystack_integrations.common.ap_ranker.query_data import QUERY_DATA, STORED_QUESTION, query_data

MARK = "ap_ranker_key"
"""The field of the meta that marks what `ap-ranker index` wrote: a number, a hash of the document's id."""


def to_document(entry: Entry, match: Match) -> Document:
    """An entry of a FAQ file as a document; `match` names the text that becomes its content, the rest is its meta."""
    meta: dict[str, Any] = {**entry.other, "question": entry.question, "answer": entry.answer}
    if entry.title:
        meta["title"] = entry.title
    if entry.wordings:
        meta[WORDINGS] = list(entry.wordings)
    return Document(content=entry.text(match), meta=meta)


def own_wordings(document: Document) -> list[str]:
    """The wordings in a document's meta: its stored question and further ones; other things there are left out."""
    further = document.meta.get(WORDINGS)
    texts = [document.meta.get("question"), *(further if isinstance(further, list) else [])]
    return [text for text in texts if text and isinstance(text, str)]


def names_in_files(document: Document) -> tuple[str, str, str]:
    """What files of wordings may call a document: its id in the FAQ, its content, and its answer."""
    return str(document.meta.get("aid", "")), document.content or "", str(document.meta.get("answer", ""))


def has_stored_question(document: Document, key: str | None) -> bool:
    """Whether the question in a document's meta is known to ask for it: by a retriever, or as an entry of an index."""
    return bool(query_data(document, key).get(STORED_QUESTION)) or MARK in document.meta


class Candidate(NamedTuple):
    """A document as questions are compared with it: its text, its content and its answer, its known wordings."""

    text: str
    parts: tuple[str, str]
    wordings: tuple[str, ...]


def read_candidates(
    documents: Iterable[Document],
    texts: Iterable[str],
    files: Wordings,
    as_question: Callable[[str], str],
    is_stored: Callable[[Document], bool],
) -> list[Candidate]:
    """Documents with their texts and their known wordings, as the model reads a question.

    These are those of files and, of documents that `is_stored`, those in their meta.
    """
    candidates = []
    for document, text in zip(documents, texts, strict=True):
        names = names_in_files(document)
        own = own_wordings(document) if is_stored(document) else ()
        wordings = map(as_question, (*own, *files.of(*names)))
        candidates.append(Candidate(text, names[1:], tuple(wordings)))
    return candidates


def different(documents: Sequence[Document]) -> list[Document]:
    """The documents by id: of several with the same one, that with the highest score, the first of equal ones."""
    best = {document.id: document for document in documents}
    if len(best) < len(documents):
        falling = sorted(documents, key=lambda one: math.inf if one.score is None else -one.score)
        best |= {document.id: document for document in reversed(falling)}
    return list(best.values())


def bm25_of(
    candidates: Sequence[Document], copies: Iterable[Document], key: str
) -> tuple[list[float | None], list[str | None]]:
    """BM25's score of each candidate for a query, and the languages of their stemmers, as far as a retriever tells.

    All copies of a document are searched for its score: a joiner may keep the copy of another retriever.

    :raises InputError: What stands in place of a score is no number.
    """
    scores: dict[str, float] = {}
    languages: dict[str | None, None] = {}
    for copy in copies:
        data = query_data(copy, key)
        if (score := data.get(BM25_SCORE)) is None:
            continue
        if not (isinstance(score, (int, float)) and math.isfinite(score)):
            place = f"meta[{QUERY_DATA!r}][{BM25_SCORE!r}]"
            raise InputError(
                f"Document {copy.id!r}: expected a retriever's number in {place}, found {score!r}. "
                "Rename that field of the documents, or set fuse_scores to false."
            )
        scores[copy.id] = float(score)
        if BM25_LANGUAGE in data:
            languages[data[BM25_LANGUAGE]] = None
    return [scores.get(candidate.id) for candidate in candidates], list(languages)
