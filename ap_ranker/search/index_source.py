"""A document as Elasticsearch holds it: Haystack's fields, and what `ElasticsearchFAQRetriever` finds it by."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from haystack import Document

from ap_ranker.ranking.bm25 import text_terms
from ap_ranker.text.reading import normalized
from haystack_integrations.common.ap_ranker.entries import MARK, names_in_files, own_wordings
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
    passage = (meta.get("file_path"), meta["title"]) if "title" in meta else None
    return str(meta.get("aid") or meta.get("question") or passage or meta.get("answer"))


def entry_key(document: Document) -> str:
    """The identity of an entry as the index keeps it."""
    return blake2b(entry_of(document).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def sources_of(
    documents: Sequence[Document], maker: str, language: str | None, embed: Embed | None
) -> list[dict[str, Any]]:
    """Documents as the index of a maker holds them; `embed` makes the vectors of known wordings, if the model can."""
    wordings = [list(dict.fromkeys(own_wordings(document))) for document in documents]
    texts = list(dict.fromkeys(text for known in wordings for text in known))
    vectors = dict(zip(texts, embed(texts).tolist(), strict=True)) if embed is not None and texts else {}
    sources = []
    for document, known in zip(documents, wordings, strict=True):
        source = _haystack_fields(document)
        if document.content is not None:
            terms = text_terms(document.content, language)
            source[WORDS] = " ".join(terms)
            source[LENGTH] = len(terms)
        answer_id, *forms = names_in_files(document)
        names = [name_key("id", answer_id)] if answer_id else []
        names += [name_key("text", normalized(form)) for form in dict.fromkeys(forms) if form]
        source[NAMES] = names
        source[KEYS] = [key for text in known for key in wording_keys(text)]
        if embed is not None:
            source[ASKED] = [{"vector": vectors[text]} for text in known]
        source[MADE_BY] = maker
        source[ENTRY] = entry_key(document)
        sources.append(source)
    return sources


def _haystack_fields(document: Document) -> dict[str, Any]:
    """As `ElasticsearchDocumentStore` writes them: the meta beside the content; a missing value is a missing field."""
    fields: dict[str, Any] = {"id": document.id}
    if document.content is not None:
        fields["content"] = document.content
    if document.embedding is not None:
        fields["embedding"] = document.embedding
    meta = {name: value for name, value in document.meta.items() if value is not None and value != ""}
    fields |= {name: value for name, value in meta.items() if name not in _RESERVED}
    if nested := {name: value for name, value in meta.items() if name in _RESERVED}:
        fields["meta"] = nested
    return fields
