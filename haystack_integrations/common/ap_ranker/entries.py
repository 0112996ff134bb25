# SPDX-License-Identifier: Apache-2.0
"""FAQ entries as documents, and what documents are known to be asked by."""

from __future__ import annotations

from typing import Any

from haystack import Document

from ap_ranker.data.faq import Entry, Match
from ap_ranker.ranking.wordings import WORDINGS

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


def wordings_in_meta(document: Document) -> list[str]:
    """The wordings in a document's meta: its stored question and further ones; other things there are left out."""
    further = document.meta.get(WORDINGS)
    texts = [document.meta.get("question"), *(further if isinstance(further, list) else [])]
    return [text for text in texts if text and isinstance(text, str)]


def identity_of(document: Document) -> tuple[str, str, str]:
    """What files of wordings know a document by: its id in the FAQ, its content, and its answer."""
    return str(document.meta.get("aid", "")), *content_and_answer(document)


def content_and_answer(document: Document) -> tuple[str, str]:
    """Its text and the answer alone, which tell whether two documents are the same answer."""
    return document.content or "", str(document.meta.get("answer", ""))
