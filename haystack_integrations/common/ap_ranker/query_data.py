# SPDX-License-Identifier: Apache-2.0
"""What a query finds in a store, and what a document has for one query alone, so that no other takes it for its own.

It stands under one key of the meta, `ap_ranker`, as a dictionary: `query`, the query's hash, and what retrievers and
rankers have found: `bm25_score`, `bm25_rank`, `bm25_language`, `embedding_score`, `embedding_rank`, `wording_rank`,
`matched_wording`, `stored_question`, `explanation`. A `BM25SDocumentStore` does not keep it; from another store it
comes back, and belongs to no new query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from haystack import Document

from ap_ranker.ranking.wordings import WORDING_RANK

QUERY_DATA = "ap_ranker"
"""The key of the meta."""

STORED_QUESTION = "stored_question"
"""True if `meta["question"]` and `meta["wordings"]` of a document are known to ask for it."""

EXPLANATION = "explanation"
"""The weight of each word of the question and of the answer."""

_QUERY = "query"
_IMMUTABLE = frozenset({str, int, float, bool, type(None)})  # of what meta holds, most


def query_key(query: str) -> str:
    """The hash of a query, whatever its white space."""
    return blake2b(" ".join(query.split()).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def query_data(document: Document, key: str | None) -> Mapping[str, Any]:
    """
    What a document has for a query.

    :param document: The document.
    :param key: The `query_key` of the query, or `None` if that is not known.
    :returns: The data; empty if they are those of another query. Data that name no query are those of any.
    """
    found = document.meta.get(QUERY_DATA)
    return found if isinstance(found, dict) and found.get(_QUERY) in (None, key) else {}


def add_query_data(document: Document, key: str | None, data: Mapping[str, Any]) -> dict[str, Any]:
    """The meta of a copy of a document that has further data for a query, and none for another one."""
    meta = document.meta.copy()
    if QUERY_DATA not in meta and not data:
        return meta
    known = {**query_data(document, key), **data, _QUERY: key}
    if len(known) > 1:
        meta[QUERY_DATA] = known
    else:
        del meta[QUERY_DATA]
    return meta


@dataclass(frozen=True)
class Found:
    """
    N documents that a query finds, in the order of writing, as the store has them: nobody may change them.

    `order` are the places of those to return, the best first; `columns` and `meta` are the query data that a copy gets,
    with a value for each document or one for all, for the query of `key`. As long as `revision` is the same object, a
    row has the same document. `is_whole`: they are all that the store has, or all that match the filters.
    """

    revision: object
    rows: Sequence[int]
    documents: Sequence[Document]
    order: Sequence[int]
    scores: Sequence[float | None]
    columns: Mapping[str, Sequence[Any]]
    meta: Mapping[str, Any]
    key: str | None
    is_whole: bool
    has_embeddings: bool

    def first(self, limit: int) -> Found:
        """At most `limit` of them: all that known wordings find, as far as there is room, and the best others."""
        if len(self.order) <= limit:
            return self
        ranks = self.columns.get(WORDING_RANK, [None] * len(self.rows))
        chosen = set(sorted(self.order, key=lambda place: ranks[place] is None)[:limit])  # sorting keeps the order
        return replace(self, order=[place for place in self.order if place in chosen])

    def copy(self, place: int, score: float | None, more: Mapping[str, Any]) -> Document:
        """A copy of a document with a score, with all that is known of it, and more, as query data in its meta."""
        document, data = self.documents[place], {name: values[place] for name, values in self.columns.items()}
        embedding = document.embedding if self.has_embeddings else None
        meta = own_meta(document) | {QUERY_DATA: {_QUERY: self.key, **self.meta, **data, **more}}
        return changed(document, meta=meta, score=score, embedding=embedding)

    def copies(self) -> list[Document]:
        """A copy of each document, the best first."""
        return [self.copy(place, self.scores[place], {}) for place in self.order]


def own_meta(document: Document) -> dict[str, Any]:
    """A copy of a document's meta: changes of one do not reach the other."""
    meta = document.meta.copy()
    for name, value in meta.items():
        if type(value) not in _IMMUTABLE:  # `deepcopy` of all would take longer than BM25 for a hundred documents
            meta[name] = deepcopy(value)
    return meta


def changed(document: Document, **fields: Any) -> Document:
    """
    A copy of a document with other values of some fields.

    `dataclasses.replace`, which checks all fields again, takes six times as long.
    """
    one = object.__new__(type(document))
    vars(one).update(vars(document), **fields)
    return one
