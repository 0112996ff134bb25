"""A document as Elasticsearch holds it: Haystack's fields, and what `ElasticsearchFAQRetriever` finds it by."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from haystack import Document

from ap_ranker.data.wordings import names_of
from ap_ranker.ranking.bm25 import text_terms
from ap_ranker.search.offered_questions import browsed_question, suggested_line, suggestion_key
from ap_ranker.search.sources import category_of
from haystack_integrations.common.ap_ranker.entries import MARK, identity_of, wordings_in_meta
from haystack_integrations.document_stores.ap_ranker.elasticsearch_documents import BEGINNINGS, TOPIC
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import (
    ASKED,
    ENTRY,
    KEYS,
    LENGTH,
    MADE_BY,
    NAMES,
    WORDS,
    name_key,
    wording_keys,
)

_RESERVED = {"id", "content", "blob", "embedding", "score", "sparse_embedding", "meta"}

Embed = Callable[[Sequence[str]], np.ndarray]
"""B known wordings -> (B, C) their vectors."""


def marked(document: Document) -> Document:
    """A copy of a document, with its id, that is known to be written by `ap-ranker index`."""
    meta = document.meta | {MARK: zlib.crc32(document.id.encode())}
    return Document(id=document.id, content=document.content, meta=meta, embedding=document.embedding)


def entry_of(document: Document) -> str:
    """The identity of an entry when its text changes: its `aid`, or else its question, or else its file and title."""
    meta = document.meta
    passage = None
    if "title" in meta:
        passage = (meta.get("file_path"), meta["title"])
    return str(meta.get("aid") or meta.get("question") or passage or meta.get("answer"))


def entry_key(document: Document) -> str:
    """The identity of an entry as the index keeps it."""
    identity = entry_of(document).encode("utf-8", "surrogatepass")
    return blake2b(identity, digest_size=12).hexdigest()


def sources_of(
    documents: Sequence[Document], made_by: str, language: str | None, embed: Embed | None
) -> list[dict[str, Any]]:
    """Documents as an index holds them; `embed` makes the vectors of known wordings, if the model can."""
    wordings = [list(dict.fromkeys(wordings_in_meta(document))) for document in documents]
    vectors = {} if embed is None else _vectors(wordings, embed)
    sources = []
    for document, questions in zip(documents, wordings, strict=True):
        source = _haystack_fields(document)
        if document.content is not None:
            terms = text_terms(document.content, language)
            source[WORDS] = " ".join(terms)
            source[LENGTH] = len(terms)
        source[NAMES] = _name_keys(document)
        keys: list[str] = []
        for question in questions:
            keys += wording_keys(question)
        source[KEYS] = keys
        if embed is not None:
            source[ASKED] = [{"vector": vectors[question]} for question in questions]
        source |= _offered_fields(document, questions)
        source[MADE_BY] = made_by
        source[ENTRY] = entry_key(document)
        sources.append(source)
    return sources


def _offered_fields(document: Document, questions: Sequence[str]) -> dict[str, Any]:
    """What the page suggests of a document, and by which topic it is browsed."""
    lines = map(suggested_line, questions)
    fields: dict[str, Any] = {BEGINNINGS: [suggestion_key(line) for line in lines if line]}
    if browsed_question(document):
        fields[TOPIC] = category_of(document)
    return fields


def _vectors(wordings: Sequence[Sequence[str]], embed: Embed) -> dict[str, list[float]]:
    """The vectors of the wordings of several documents, by their texts, each made once."""
    different: dict[str, None] = {}  # as a set in order
    for questions in wordings:
        different.update(dict.fromkeys(questions))
    texts = list(different)
    if not texts:
        return {}
    vectors = embed(texts).tolist()
    return dict(zip(texts, vectors, strict=True))


def _name_keys(document: Document) -> list[str]:
    """Of the names that files of wordings may have for a document."""
    return [name_key(kind, name) for kind, name in names_of(*identity_of(document))]


def _haystack_fields(document: Document) -> dict[str, Any]:
    """As `ElasticsearchDocumentStore` writes them: the meta beside the content; a missing value is a missing field."""
    fields: dict[str, Any] = {"id": document.id}
    if document.content is not None:
        fields["content"] = document.content
    if document.embedding is not None:
        fields["embedding"] = document.embedding
    nested: dict[str, Any] = {}
    for name, value in document.meta.items():
        if value is None or value == "":
            continue
        if name in _RESERVED:
            nested[name] = value
        else:
            fields[name] = value
    if nested:
        fields["meta"] = nested
    return fields
