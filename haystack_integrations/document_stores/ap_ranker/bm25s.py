"""An embedded document store for BM25; it is defined here because a stock Haystack loads YAML from here only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from haystack import Document, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils import expit
from haystack.utils.filters import document_matches_filter

from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import BM25_RANK, BM25_SCORE, K1, B
from haystack_integrations.document_stores.ap_ranker.documents import Documents, FolderDocuments, Index, MemoryDocuments
from haystack_integrations.document_stores.ap_ranker.metadata import MetadataQueries

_SCALE = 8  # InMemoryDocumentStore's: a score of 8 becomes 0.73
_CHUNK = 256  # documents fetched at once


class BM25SDocumentStore(MetadataQueries):
    """Documents and a BM25 index over their content, in memory or in a folder.

    It is searched with `BM25SRetriever`, whose queries take about a millisecond where `InMemoryBM25Retriever`, which
    scans every document, takes hundreds. In exchange the first query after a write builds the index anew.

    BM25 is Lucene's. A document without content is stored but never found.

    ```python
    from haystack import Document
    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

    store = BM25SDocumentStore()  # or BM25SDocumentStore("faq-index")
    store.write_documents([Document(content="Open the tracking link ...")])
    ```

    Threads may share a store; they take turns. With a `path`, every write is on the disk when it returns, whole or not
    at all. Several stores, also of several processes, may have the same path: each sees what the others wrote.
    """

    def __init__(self, path: str | Path | None = None, k1: float = K1, b: float = B) -> None:
        """Create the store; a folder is opened, or made, by the first use.

        :param path: A folder for the documents and the index, relative to where the program runs, which are read from
            there as they are needed. `None` keeps both in memory, and they end with the store.
        :param k1: How much a word's repetitions in a text add; 0 counts each word once.
        :param b: How much longer texts are marked down, from 0 (not at all) to 1.
        :raises InputError: `k1` or `b` is out of range.
        """
        if not 0 <= k1 < float("inf"):
            raise InputError(f"Expected a k1 of 0 or more, found {k1}.")
        if not 0 <= b <= 1:
            raise InputError(f"Expected a b from 0 to 1, found {b}.")
        self.path = None if path is None else str(path)
        self.k1 = k1
        self.b = b
        self._lock = threading.RLock()
        self._documents: Documents = MemoryDocuments() if self.path is None else FolderDocuments(Path(self.path))
        self._index: tuple[str, Index] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy has its own documents if they are in memory, and reads the same folder if they are in one."""
        state = {"path": self.path, "k1": self.k1, "b": self.b}
        if self.path is not None:
            return state
        with self._lock:
            return {**state, "documents": self.filter_documents()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["k1"], state["b"])  # type: ignore[misc]
        if documents := state.get("documents"):
            self.write_documents(documents)

    def to_dict(self) -> dict[str, Any]:
        """The store as basic types, without its documents."""
        return default_to_dict(self, path=self.path, k1=self.k1, b=self.b)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The store of a dictionary that `to_dict` made, or that YAML holds."""
        return default_from_dict(cls, data)

    def warm_up(self) -> None:
        """Open the folder and build or load the index, if that has not been done, so that no query waits for it."""
        if self._index is None:
            with self._transaction():
                self._current_index()

    def close(self) -> None:
        """Let go of the folder's files; the next use opens them again. Documents in memory stay."""
        with self._lock:
            self._index = None
            self._documents.close()

    def count_documents(self) -> int:
        """How many documents there are."""
        with self._transaction() as documents:
            return len(documents)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """The documents that match Haystack's filters, all without any, in the order of writing.

        :raises FilterError: `filters` are no filters.
        """
        with self._transaction() as documents:
            return [_copy(document) for document in (_matching(documents, filters) if filters else documents)]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents, all of them or, after an error, none.

        :param documents: The documents to write; the store keeps copies.
        :param policy: What to do with a document whose id is there already, or comes twice: `OVERWRITE` keeps the later
            one, `SKIP` the earlier one; `FAIL`, and `NONE`, raise.
        :returns: The number of documents that were written.
        :raises ValueError: `documents` is not a list of documents, or one of them cannot be kept.
        :raises DuplicateDocumentError: A document is there already, and `policy` is `FAIL` or `NONE`.
        """
        if not isinstance(documents, Iterable) or isinstance(documents, str):
            raise ValueError(f"Please provide a list of Documents, not {type(documents).__name__}.")
        documents = [_copy(_checked(document)) for document in documents]
        with self._transaction(write=True) as stored:
            if policy == DuplicatePolicy.OVERWRITE:
                chosen = documents
            else:
                new: dict[str, Document] = {}
                for document in documents:
                    if document.id not in new and document.id not in stored:
                        new[document.id] = document
                    elif policy != DuplicatePolicy.SKIP:
                        raise DuplicateDocumentError(f"ID '{document.id}' already exists.")
                chosen = list(new.values())
            for document in chosen:
                stored.put(document)
        return len(chosen)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete the documents of these ids; unknown ids are left aside."""
        with self._transaction(write=True) as documents:
            for document_id in document_ids:
                documents.remove(document_id)

    def delete_all_documents(self) -> None:
        """Delete every document."""
        with self._transaction(write=True) as documents:
            documents.clear()

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that match; returns how many."""
        with self._transaction(write=True) as documents:
            matching = list(_matching(documents, filters))
            for document in matching:
                documents.remove(document.id)
        return len(matching)

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set fields of the meta of the documents that match; returns how many. They move to the end of the order."""
        with self._transaction(write=True) as documents:
            matching = [
                replace(document, meta={**document.meta, **deepcopy(meta)})
                for document in _matching(documents, filters)
            ]
            for document in matching:
                documents.put(document)
        return len(matching)

    def bm25_retrieval(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int = 10, scale_score: bool = False
    ) -> list[Document]:
        """The documents that share words with a query, best first; of equal ones, the one written earlier.

        :param query: What the user asked; a word that is there twice counts twice.
        :param filters: The best of the documents that match are returned; BM25 still weighs words by all documents.
        :param top_k: The maximum number of documents to return.
        :param scale_score: Whether to map the scores to the interval from 0.5 to 1 as `InMemoryDocumentStore` does, by
            1 / (1 + exp(-score / 8)).
        :returns: Copies with their scores; in the meta of each, `bm25_score` is the score before scaling, and
            `bm25_rank` its place, from 1.
        :raises ValueError: The query is empty.
        :raises FilterError: `filters` are no filters.
        :raises InputError: The folder at `path` holds something else, or is damaged.
        """
        if not query:
            raise ValueError("Query should be a non-empty string")
        with self._transaction() as documents:
            index = self._current_index()
            scores = index.bm25.scores(query)
            best = _best(scores, None if filters else top_k).tolist()
            chunks = (best[start : start + _CHUNK] for start in range(0, len(best), _CHUNK))
            fetched = (
                (document, float(scores[row]))
                for rows in chunks
                for row, document in zip(rows, documents.fetch(index.rows[row] for row in rows), strict=True)
            )
            matching = (pair for pair in fetched if not filters or document_matches_filter(filters, pair[0]))
            best_documents = list(islice(matching, top_k))
        return [
            replace(
                document,
                meta={**deepcopy(document.meta), BM25_SCORE: score, BM25_RANK: rank},
                score=expit(score / _SCALE) if scale_score else score,
            )
            for rank, (document, score) in enumerate(best_documents, start=1)
        ]

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Documents]:
        with self._lock, self._documents.transaction(write=write):
            yield self._documents

    def _current_index(self) -> Index:
        """Built here rather than when documents are written, so that writing in batches builds it once."""
        revision = self._documents.revision()
        if self._index is None or self._index[0] != revision:
            self._index = None  # frees the old one's memory before the new one needs it
            self._index = revision, self._documents.index(self.k1, self.b)
        return self._index[1]

    async def count_documents_async(self) -> int:
        """As `count_documents`, in a thread, so that the event loop stays free; so do all that follow."""
        return await asyncio.to_thread(self.count_documents)

    async def filter_documents_async(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """As `filter_documents`."""
        return await asyncio.to_thread(self.filter_documents, filters)

    async def write_documents_async(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """As `write_documents`."""
        return await asyncio.to_thread(self.write_documents, documents, policy)

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        """As `delete_documents`."""
        await asyncio.to_thread(self.delete_documents, document_ids)

    async def delete_all_documents_async(self) -> None:
        """As `delete_all_documents`."""
        await asyncio.to_thread(self.delete_all_documents)

    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        """As `delete_by_filter`."""
        return await asyncio.to_thread(self.delete_by_filter, filters)

    async def update_by_filter_async(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """As `update_by_filter`."""
        return await asyncio.to_thread(self.update_by_filter, filters, meta)

    async def bm25_retrieval_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int = 10, scale_score: bool = False
    ) -> list[Document]:
        """As `bm25_retrieval`."""
        return await asyncio.to_thread(self.bm25_retrieval, query, filters, top_k, scale_score)


def _matching(documents: Iterable[Document], filters: dict[str, Any]) -> Iterator[Document]:
    return (document for document in documents if document_matches_filter(filters, document))


def _copy(document: Document) -> Document:
    """With its own meta: what others do with theirs must not reach the store."""
    return replace(document, meta=deepcopy(document.meta))


def _checked(document: object) -> Document:
    if not isinstance(document, Document):
        raise ValueError(f"Please provide a list of Documents, not of {type(document).__name__}.")
    try:
        f"{document.id}{document.content}".encode()
    except UnicodeEncodeError as error:  # found here, because no query could be answered once it is written
        raise InputError(f"Document {document.id!r}: expected text that UTF-8 can hold, found {error}.") from error
    return document


def _best(scores: np.ndarray, limit: int | None) -> np.ndarray:
    """The positions of the positive ones among (N,) scores, highest first, at most `limit`."""
    least = 0.0
    if limit is not None and 0 < limit < len(scores):
        least = float(np.partition(scores, -limit)[-limit])  # sorting all would take ten times as long as scoring
    positions = np.flatnonzero((scores >= least) & (scores > 0))
    return positions[np.argsort(-scores[positions], kind="stable")][:limit]
