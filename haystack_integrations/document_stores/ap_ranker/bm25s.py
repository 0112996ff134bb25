"""An embedded document store for BM25. It is defined here because Haystack loads YAML only from this namespace."""

from __future__ import annotations

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
from ap_ranker.ranking.bm25 import BM25_LANGUAGE, BM25_RANK, BM25_SCORE, K1, B
from ap_ranker.text.stem import check_language
from ap_ranker.threads import in_thread
from haystack_integrations.document_stores.ap_ranker.documents import Documents, FolderDocuments, Index, MemoryDocuments
from haystack_integrations.document_stores.ap_ranker.metadata import MetadataQueries

_SCALE = 8  # InMemoryDocumentStore's: a score of 8 becomes 0.73
_BATCH = 256  # documents fetched at once


class BM25SDocumentStore(MetadataQueries):
    """Documents and a BM25 index over their content, in memory or in a folder.

    `BM25SRetriever` searches the store. A query takes about a millisecond; `InMemoryBM25Retriever`, which scans every
    document, takes hundreds. In exchange, the first query after a write rebuilds the index.

    The scores are those of Lucene's BM25. A document without content is stored but never found.

    ```python
    from haystack import Document
    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

    store = BM25SDocumentStore()  # or BM25SDocumentStore("faq-index")
    store.write_documents([Document(content="Open the tracking link ...")])
    ```

    Threads may share a store; they take turns. With a `path`, every write is atomic and durable: it is on disk when the
    method returns. Several stores, also in several processes, may have the same path: each sees the others' writes.
    Every method that reads or writes documents has an async version, such as `write_documents_async`, which runs in a
    thread.
    """

    def __init__(
        self, path: str | Path | None = None, k1: float = K1, b: float = B, language: str | None = None
    ) -> None:
        """Create the store. The first use opens or creates its folder.

        :param path: A folder for the documents and the index, relative to the working directory; both are read from
            there on demand. `None` keeps both in memory.
        :param k1: How much a word's repetitions in a text add; 0 counts each word once.
        :param b: How much longer texts are penalised, from 0 (not at all) to 1.
        :param language: The language of a Snowball stemmer, such as `english`: "parcels" then finds "parcel". A ranker
            with `fuse_scores` needs the language that its checkpoint was trained with. `None` compares whole words.
        :raises InputError: `k1` or `b` is out of range, or there is no stemmer for the language.
        """
        if not 0 <= k1 < float("inf"):
            raise InputError(f"Expected a k1 of 0 or more, found {k1}.")
        if not 0 <= b <= 1:
            raise InputError(f"Expected a b from 0 to 1, found {b}.")
        if language is not None:
            check_language(language)
        self.path = None if path is None else str(path)
        self.k1 = k1
        self.b = b
        self.language = language
        self._lock = threading.RLock()
        self._documents: Documents = MemoryDocuments() if self.path is None else FolderDocuments(Path(self.path))
        self._index: tuple[str, Index] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy of a store in memory has its own documents; a copy of a store with a path reads the same folder."""
        state = {"path": self.path, "k1": self.k1, "b": self.b, "language": self.language}
        if self.path is not None:
            return state
        with self._lock:
            return {**state, "documents": self.filter_documents()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["k1"], state["b"], state["language"])  # type: ignore[misc]
        if documents := state.get("documents"):
            self.write_documents(documents)

    def to_dict(self) -> dict[str, Any]:
        """The store as basic types, without its documents."""
        return default_to_dict(self, path=self.path, k1=self.k1, b=self.b, language=self.language)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create the store from a dictionary, as made by `to_dict` or read from YAML."""
        return default_from_dict(cls, data)

    def warm_up(self) -> None:
        """Open the folder and build or load the index unless this is done already, so that no query waits for it."""
        if self._index is None:
            with self._transaction():
                self._current_index()

    def close(self) -> None:
        """Close the folder's files; the next use opens them again. Documents in memory stay."""
        with self._lock:
            self._index = None
            self._documents.close()

    def count_documents(self) -> int:
        """The number of documents."""
        with self._transaction() as documents:
            return len(documents)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """The documents that match Haystack's filters, or all documents, in the order of writing.

        :raises FilterError: `filters` are invalid.
        """
        with self._transaction() as documents:
            return [_copy(document) for document in (_matching(documents, filters) if filters else documents)]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents, all of them or, after an error, none.

        :param documents: The documents to write; the store keeps copies.
        :param policy: What to do with a document whose id exists already, or occurs twice: `OVERWRITE` keeps the later
            one, `SKIP` the earlier one; `FAIL` and `NONE` raise.
        :returns: The number of documents that were written.
        :raises ValueError: `documents` is not a list of documents, or one of them cannot be stored.
        :raises DuplicateDocumentError: A document exists already, and `policy` is `FAIL` or `NONE`.
        """
        if not isinstance(documents, Iterable) or isinstance(documents, str):
            raise ValueError(f"Please provide a list of Documents, not {type(documents).__name__}.")
        documents = [_copy(_checked(document)) for document in documents]
        with self._transaction(write=True) as stored:
            if policy != DuplicatePolicy.OVERWRITE:
                new: dict[str, Document] = {}
                for document in documents:
                    if document.id not in new and document.id not in stored:
                        new[document.id] = document
                    elif policy != DuplicatePolicy.SKIP:
                        raise DuplicateDocumentError(f"ID '{document.id}' already exists.")
                documents = list(new.values())
            for document in documents:
                stored.put(document)
        return len(documents)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete the documents with these ids; unknown ids are ignored."""
        with self._transaction(write=True) as documents:
            for document_id in document_ids:
                documents.remove(document_id)

    def delete_all_documents(self) -> None:
        """Delete every document."""
        with self._transaction(write=True) as documents:
            documents.clear()

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that match, and return their number."""
        with self._transaction(write=True) as documents:
            matching = list(_matching(documents, filters))
            for document in matching:
                documents.remove(document.id)
        return len(matching)

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set meta fields of the documents that match, and return their number. They move to the end of the order."""
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
        """The documents that share words with a query, best first; ties are in the order of writing.

        :param query: The question of the user; repeated words count repeatedly.
        :param filters: Only documents that match are returned; the statistics of BM25 are still those of all documents.
        :param top_k: The maximum number of documents to return.
        :param scale_score: Whether to map the scores to the interval from 0.5 to 1 as `InMemoryDocumentStore` does, by
            1 / (1 + exp(-score / 8)).
        :returns: Copies with their scores. In the meta of each, `bm25_score` is the score before scaling, `bm25_rank`
            the rank, from 1, and `bm25_language` the language of the stemmer, or `None`.
        :raises ValueError: The query is empty.
        :raises FilterError: `filters` are invalid.
        :raises InputError: The folder at `path` contains something else, or is damaged.
        """
        if not query:
            raise ValueError("Query should be a non-empty string")
        with self._transaction() as documents:
            index = self._current_index()
            scores = index.bm25.scores(query)
            best = _best(scores, None if filters else top_k).tolist()
            batches = (best[start : start + _BATCH] for start in range(0, len(best), _BATCH))
            fetched = (
                (document, float(scores[row]))
                for rows in batches
                for row, document in zip(rows, documents.fetch(index.rows[row] for row in rows), strict=True)
            )
            matching = (pair for pair in fetched if not filters or document_matches_filter(filters, pair[0]))
            best_documents = list(islice(matching, top_k))
        return [
            replace(
                document,
                meta={**deepcopy(document.meta), BM25_SCORE: score, BM25_RANK: rank, BM25_LANGUAGE: self.language},
                score=expit(score / _SCALE) if scale_score else score,
            )
            for rank, (document, score) in enumerate(best_documents, start=1)
        ]

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Documents]:
        with self._lock, self._documents.transaction(write=write):
            yield self._documents

    def _current_index(self) -> Index:
        """The index of the current documents, built on first use rather than on each write."""
        revision = self._documents.revision()
        if self._index is None or self._index[0] != revision:
            self._index = None  # frees the old one's memory before the new one needs it
            self._index = revision, self._documents.index(self.k1, self.b, self.language)
        return self._index[1]

    count_documents_async = in_thread(count_documents)
    filter_documents_async = in_thread(filter_documents)
    write_documents_async = in_thread(write_documents)
    delete_documents_async = in_thread(delete_documents)
    delete_all_documents_async = in_thread(delete_all_documents)
    delete_by_filter_async = in_thread(delete_by_filter)
    update_by_filter_async = in_thread(update_by_filter)
    bm25_retrieval_async = in_thread(bm25_retrieval)


def _matching(documents: Iterable[Document], filters: dict[str, Any]) -> Iterator[Document]:
    return (document for document in documents if document_matches_filter(filters, document))


def _copy(document: Document) -> Document:
    """A copy with its own meta, so that changes outside the store do not reach its documents."""
    return replace(document, meta=deepcopy(document.meta))


def _checked(document: object) -> Document:
    if not isinstance(document, Document):
        raise ValueError(f"Please provide a list of Documents, not of {type(document).__name__}.")
    try:
        f"{document.id}{document.content}".encode()
    except UnicodeEncodeError as error:  # checked here, because once it is written every query would fail
        raise InputError(f"Document {document.id!r}: expected text that UTF-8 can hold, found {error}.") from error
    return document


def _best(scores: np.ndarray, limit: int | None) -> np.ndarray:
    """The positions of at most `limit` positive scores among (N,), highest first."""
    minimum = 0.0
    if limit is not None and 0 < limit < len(scores):
        minimum = float(np.partition(scores, -limit)[-limit])  # sorting all would take ten times as long as scoring
    positions = np.flatnonzero((scores >= minimum) & (scores > 0))
    return positions[np.argsort(-scores[positions], kind="stable")][:limit]
