# SPDX-License-Identifier: Apache-2.0
"""What a document has for one query alone, under one key of its meta, so that no later query takes it for its own.

It is a dictionary: `query`, the query's hash, and what retrievers and rankers have found: `bm25_score`, `bm25_rank`,
`bm25_language`, `embedding_score`, `embedding_rank`, `wording_rank`, `matched_wording`, `stored_question`,
`explanation`. A `BM25SDocumentStore` does not keep it; from another store it comes back, and belongs to no new query.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from haystack import Document

QUERY_DATA = "ap_ranker"
"""The key of the meta."""

STORED_QUESTION = "stored_question"
"""True if `meta["question"]` and `meta["wordings"]` of a document are known to ask for it."""

EXPLANATION = "explanation"
"""The weight of each word of the question and of the answer."""

_QUERY = "query"


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


def as_query_data(key: str | None, data: Mapping[str, Any]) -> dict[str, Any]:
    """The field of the meta that holds data of a query; `None` if nobody has told which query it is."""
    return {QUERY_DATA: {_QUERY: key, **data}}


def add_query_data(document: Document, key: str | None, data: Mapping[str, Any]) -> dict[str, Any]:
    """The meta of a copy of a document that has further data for a query, and none for another one."""
    known = {**query_data(document, key), **data}
    if known:
        return {**document.meta, **as_query_data(key, {name: known[name] for name in known if name != _QUERY})}
    return {name: value for name, value in document.meta.items() if name != QUERY_DATA}
