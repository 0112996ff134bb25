# SPDX-License-Identifier: Apache-2.0
"""Documents as an index of Elasticsearch has them, and as they come back from there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from haystack import Document, logging

from ap_ranker.errors import one_line
from ap_ranker.ranking.state_bytes import STATES

logger = logging.getLogger(__name__)

BEGINNINGS = "ap_ranker_beginnings"
TOPIC = "ap_ranker_topic"
"""Fields of a document in the index: the words of what is suggested of it, and the topic that it is browsed by. Their
values are in the source where an earlier release made the index."""

WITHOUT_STATES = {"excludes": [STATES]}
"""The part of a document's source that is a document: its states would be most of what is sent."""

ONLY_STATES = {"includes": [STATES]}


@dataclass(frozen=True)
class FetchedDocument:
    """
    What was asked for of a document of an index: itself, its sealed states, or both.

    `change` is the number of its last change. What others have written as states may be anything.
    """

    change: int
    document: Document | None = None
    states: Any = None


def document_requests(ids: Iterable[str], of_states: Iterable[str], *, with_states: bool) -> list[dict[str, Any]]:
    """The documents of one request: those of `ids`, with their states or without, and of others only their states."""
    requests: list[dict[str, Any]] = []
    for name in ids:
        requests.append({"_id": name, "_source": True if with_states else WITHOUT_STATES})
    for name in of_states:
        requests.append({"_id": name, "_source": ONLY_STATES})
    return requests


def documents_of(hits: Iterable[Mapping[str, Any]]) -> list[Document]:
    """The documents of hits, without what is none."""
    documents: list[Document] = []
    for hit in hits:
        document = read_document(hit["_id"], hit["_source"])
        if document is not None:
            documents.append(document)
    return documents


_NOT_META = (
    *("id", "content", "blob", "embedding", "score", "sparse_embedding", "meta"),
    *(STATES, BEGINNINGS, TOPIC),
)


def read_document(document_id: str, source: Mapping[str, Any]) -> Document | None:
    """A document of the index. Others may write there, too: what is no document is left out, with a warning."""
    content = source.get("content")
    nested = source.get("meta", {})
    if not isinstance(content, str | None) or not isinstance(nested, dict):
        logger.warning(
            "The document {document_id} of another writer is left out: expected a text as content and names with "
            "values as meta, found content {content} and meta {meta}.",
            document_id=document_id,
            content=one_line(repr(content), 80),
            meta=one_line(repr(nested), 80),
        )
        return None
    meta = {name: value for name, value in source.items() if name not in _NOT_META}
    meta = {**nested, **meta}
    meta.pop(STATES, None)  # of documents of `APDocumentEmbedder` that another writer nested
    return Document(id=document_id, content=content, meta=meta)
