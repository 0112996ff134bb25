"""An embedded document store. It is defined here because Haystack loads YAML only from `haystack_integrations`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, Self

import numpy as np
from haystack import Document, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils import expit
from haystack.utils.filters import document_matches_filter

from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.errors import InputError, one_line
from ap_ranker.ranking.bm25 import BM25, BM25_LANGUAGE, BM25_RANK, BM25_SCORE, K1, B
from ap_ranker.ranking.int8_vectors import EMBEDDED_BY, EMBEDDING_RANK, EMBEDDING_SCORE, Vectors
from ap_ranker.ranking.wordings import WORDING_RANK, WORDING_SCORE
from ap_ranker.text.stem import check_language
from ap_ranker.text.synonyms import SynonymFile
from ap_ranker.threads import in_thread
from haystack_integrations.document_stores.ap_ranker.documents import (
    DATABASE,
    Documents,
    FolderDocuments,
    Index,
    MemoryDocuments,
)
from haystack_integrations.document_stores.ap_ranker.embeddings import to_array
from haystack_integrations.document_stores.ap_ranker.entries import read_documents
from haystack_integrations.document_stores.ap_ranker.legs import Candidates, Leg, compares_embeddings
from haystack_integrations.document_stores.ap_ranker.metadata import MetadataQueries
from haystack_integrations.document_stores.ap_ranker.versions import Version, keep_version, list_versions
from haystack_integrations.document_stores.ap_ranker.wordings import WordingRows

logger = logging.getLogger(__name__)

_SCALE = 8  # InMemoryDocumentStore's: a score of 8 becomes 0.73
_IMMUTABLE = frozenset({str, int, float, bool, type(None)})  # of what meta holds, most
_WRITTEN = 1024  # documents embedded before they are written: an interrupted run loses as many


class BM25SDocumentStore(MetadataQueries):
    """Documents, a BM25 index over their content and an index of their embeddings, in memory or in a folder.

    `BM25SRetriever` searches the content, `BM25SEmbeddingRetriever` the embeddings, `HybridRetriever` both. A query by
    BM25 takes about a millisecond; `InMemoryBM25Retriever`, which scans every document, takes hundreds. In exchange,
    the first query after a write rebuilds the index.

    The scores are those of Lucene's BM25; a document without content is not found by it. Embeddings are compared by
    their cosine: each is a vector of 8-bit numbers in the index, some 400 bytes, and all of them are scanned. The store
    keeps them as they were written, too. Documents that a query finds have no embedding, unless it asks for it.

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
        self,
        path: str | Path | None = None,
        k1: float = K1,
        b: float = B,
        language: str | None = None,
        documents: str | Path | None = None,
        match: str = DEFAULT_MATCH,
        synonyms: str | Path | None = None,
    ) -> None:
        """Create the store. The first use opens or creates its folder, or reads its `documents`.

        :param path: A folder for the documents and the index, relative to the working directory; both are read from
            there on demand. `None` keeps both in memory.
        :param k1: How much a word's repetitions in a text add; 0 counts each word once.
        :param b: How much longer texts are penalised, from 0 (not at all) to 1.
        :param language: The language of a Snowball stemmer, such as `english`: "parcels" then finds "parcel"; or
            `thai`, which is read as words, too (extra `thai`). A ranker with `fuse_scores` needs the language that its
            checkpoint was trained with. `None` compares whole words, and in scripts without spaces pairs of characters.
        :param documents: What a store in memory begins with: a FAQ file with columns question and answer, a document,
            or a folder of documents and tables, relative to the working directory. Excludes `path`.
        :param match: The text of an entry of `documents` that becomes its content: `both`, `answer` or `question`.
        :param synonyms: A file with other words for what users ask, such as `SAP = payroll system`, or one way,
            `SAP => payroll system`, on each line. A query is also searched with these, and each document has its best
            score. A changed file is read again before the next query.
        :raises InputError: `k1` or `b` is out of range, there is no stemmer for the language, or both `path` and
            `documents` are given.
        :raises ValueError: `match` is unknown.
        """
        if not 0 <= k1 < float("inf"):
            raise InputError(f"Expected a k1 of 0 or more, found {k1}.")
        if not 0 <= b <= 1:
            raise InputError(f"Expected a b from 0 to 1, found {b}.")
        if language is not None:
            check_language(language)
        if path is not None and documents is not None:
            raise InputError(
                f"Expected a path or documents, found both: {path} and {documents}. Leave out documents for a folder "
                "that `ap-ranker index` fills, or path for documents that are read into memory."
            )
        self.path = None if path is None else str(path)
        self.k1 = k1
        self.b = b
        self.language = language
        self.documents = None if documents is None else str(documents)
        self.match = str(Match(match))
        self.synonyms = None if synonyms is None else str(synonyms)
        self._synonyms: SynonymFile | None = None
        self._is_read = False
        self._lock = threading.RLock()
        self._documents: Documents = MemoryDocuments() if self.path is None else FolderDocuments(Path(self.path))
        self._index: tuple[str, Index[BM25]] | None = None
        self._vectors: tuple[str, Index[Vectors]] | None = None
        self._wording_rows: tuple[str, WordingRows] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy of a store in memory has its own documents; a copy of a store with a path reads the same folder."""
        with self._lock:
            is_elsewhere = self.path is not None or (self.documents is not None and not self._is_read)
            return {**self._settings(), "copied": None if is_elsewhere else self.filter_documents()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        copied = state["copied"]
        self.__init__(**{name: value for name, value in state.items() if name != "copied"})  # type: ignore[misc]
        if copied is not None:
            self._is_read = True
            self.write_documents(copied)

    def to_dict(self) -> dict[str, Any]:
        """The store as basic types, without its documents."""
        return default_to_dict(self, **self._settings())

    def _settings(self) -> dict[str, Any]:
        names = ("path", "k1", "b", "language", "documents", "match", "synonyms")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create the store from a dictionary, as made by `to_dict` or read from YAML."""
        return default_from_dict(cls, data)

    def warm_up(self, *, words: bool = True, embeddings: bool = False) -> None:
        """Open the folder and build or load the index unless this is done already, so that no query waits for it.

        :param words: Whether to prepare the index of the content.
        :param embeddings: Whether to prepare the index of the embeddings.
        """
        words, embeddings = words and self._index is None, embeddings and self._vectors is None
        if not (words or embeddings):  # a pipeline asks before each run
            return
        with self._transaction():
            if words:
                self._current_index()
                self._forms("")  # so that a wrong line is found before the first query
            if embeddings:
                self._current_vectors()

    def close(self) -> None:
        """Close the folder's files; the next use opens them again. Documents in memory stay."""
        with self._lock:
            self._index = self._vectors = self._wording_rows = None
            self._documents.close()

    def _forms(self, query: str) -> list[str]:
        """The query, and with the synonyms of its words.

        :raises InputError: The file of synonyms cannot be read.
        """
        if self.synonyms is None:
            return [query]
        known = self._synonyms
        if known is None or (str(known.path), known.language) != (self.synonyms, self.language):
            known = self._synonyms = SynonymFile(self.synonyms, self.language)
        return known.forms(query)

    def count_documents(self) -> int:
        """The number of documents."""
        with self._transaction() as documents:
            return len(documents)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """The documents that match Haystack's filters, or all documents, in the order of writing.

        :raises FilterError: `filters` are invalid.
        """
        with self._transaction() as documents:
            return [_copy(document) for document in (_matching(documents, filters) if filters else documents.read())]

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
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        scale_score: bool = False,
        wordings: Leg | None = None,
    ) -> list[Document]:
        """The documents that share words with a query, best first; ties are in the order of writing.

        :param query: The question of the user; repeated words count repeatedly.
        :param filters: Only documents that match are returned; the statistics of BM25 are still those of all documents.
        :param top_k: The maximum number of documents to return.
        :param scale_score: Whether to map the scores to the interval from 0.5 to 1 as `InMemoryDocumentStore` does, by
            1 / (1 + exp(-score / 8)).
        :param wordings: The scores of documents by known wordings, as for `hybrid_retrieval`; the `top_k` best of these
            are returned, too.
        :returns: Copies with their scores, without embeddings. In the meta of each, `bm25_score` is the score before
            scaling, `bm25_rank` the rank, from 1, and `bm25_language` the language of the stemmer, or `None`. With
            `wordings`, there are `wording_score` and `wording_rank`, too, and a document that was found only by these
            has a `bm25_rank` of `None`.
        :raises ValueError: The query is empty.
        :raises FilterError: `filters` are invalid.
        :raises InputError: The folder at `path` contains something else, or is damaged.
        """
        _check_query(query)
        with self._transaction() as documents:
            legs = {(BM25_SCORE, BM25_RANK): Leg.bm25(self._current_index(), self._forms(query))}
            union = self._union(documents, _with(legs, wordings), filters, top_k)
        return [
            _found(document, meta, expit(meta[BM25_SCORE] / _SCALE) if scale_score else meta[BM25_SCORE])
            for document, meta in _sorted(union, BM25_SCORE)
        ]

    def embedding_retrieval(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        scale_score: bool = False,
        return_embedding: bool | None = False,
    ) -> list[Document]:
        """The documents whose embeddings are most like a query's, best first; ties are in the order of writing.

        :param query_embedding: The embedding of the query, by the model that embedded the documents.
        :param filters: Only documents that match are returned.
        :param top_k: The maximum number of documents to return.
        :param scale_score: Whether to map the cosines to the interval from 0 to 1, by (1 + cosine) / 2.
        :param return_embedding: Whether the documents returned have their embeddings.
        :returns: Copies with their scores: the cosine of the query with the embedding as 8-bit numbers. In the meta of
            each, `embedding_score` is the score before scaling, and `embedding_rank` the rank, from 1. Documents
            without embedding are left out.
        :raises ValueError: `query_embedding` is not a list of finite floats, or is empty.
        :raises FilterError: `filters` are invalid.
        :raises DocumentStoreError: The embeddings differ in size from each other or from the query's.
        :raises InputError: The folder at `path` contains something else, or is damaged.
        """
        query_vector = _checked_embedding(query_embedding)
        with self._transaction() as documents:
            vectors = self._current_vectors()
            if vectors.scorer.is_empty:
                logger.warning("Expected documents with embeddings, found none. Embed them: APDocumentEmbedder.")
                return []
            leg = Leg.dense(vectors, query_vector)
            candidates = Candidates(documents, filters, embedding=bool(return_embedding))
            rows = candidates.best(leg, top_k)
        return [
            _found(
                candidates.documents[row],
                {EMBEDDING_SCORE: score, EMBEDDING_RANK: rank},
                (1 + score) / 2 if scale_score else score,
                return_embedding=bool(return_embedding),
            )
            for rank, (row, score) in enumerate(zip(rows, leg.scores_of(rows), strict=True), start=1)
        ]

    def hybrid_retrieval(
        self,
        query: str,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        rank_all: int = 0,
        wordings: Leg | None = None,
    ) -> list[Document]:
        """The union of what `bm25_retrieval` and `embedding_retrieval` find, each document with the scores of both.

        :param query: The question of the user.
        :param query_embedding: The embedding of the query, by the model that embedded the documents.
        :param filters: Only documents that match are returned.
        :param top_k: The maximum number of documents of each of the two.
        :param rank_all: A store with at most this many documents returns all that have content or an embedding.
        :param wordings: The scores of documents by known wordings (`Leg.wordings`, of an index of the pairs of
            `wording_rows`): the `top_k` best of these are returned, too. Documents deleted since are left out.
        :returns: Copies, the highest `embedding_score` first. It is the `score` of the document, too, and `None` if it
            has no embedding; these come last. `bm25_score` is 0 if it shares no word with the query. `bm25_rank` and
            `embedding_rank` are `None` if the document was not among the `top_k` of BM25 or of the embeddings. With
            `wordings`, `wording_score` and `wording_rank` are likewise; the score is `None` without wordings.
        :raises ValueError: The query is empty, or `query_embedding` is not a list of finite floats, or is empty.
        :raises FilterError: `filters` are invalid.
        :raises DocumentStoreError: The embeddings differ in size from each other or from the query's.
        :raises InputError: The folder at `path` contains something else, or is damaged.
        """
        _check_query(query)
        query_vector = _checked_embedding(query_embedding)
        with self._transaction() as documents:
            legs = {
                (BM25_SCORE, BM25_RANK): Leg.bm25(self._current_index(), self._forms(query)),
                (EMBEDDING_SCORE, EMBEDDING_RANK): Leg.dense(self._current_vectors(), query_vector),
            }
            union = self._union(documents, _with(legs, wordings), filters, top_k, rank_all)
        return [_found(document, meta, meta[EMBEDDING_SCORE]) for document, meta in _sorted(union, EMBEDDING_SCORE)]

    def _union(
        self,
        documents: Documents,
        legs: dict[tuple[str, str], Leg],
        filters: dict[str, Any] | None,
        top_k: int,
        rank_all: int = 0,
    ) -> list[tuple[Document, dict[str, Any]]]:
        """The documents that any of the legs finds, each with its scores and ranks by all of them, for its meta.

        :param legs: The names of a score and of a rank -> the leg.
        """
        candidates = Candidates(documents, filters)
        best = {names: candidates.best(leg, top_k) for names, leg in legs.items()}
        rows = sorted({row for found in best.values() for row in found})
        if max(len(leg.scores) for leg in legs.values()) <= rank_all:
            everything = sorted({row for leg in legs.values() for row in leg.rows.tolist()})
            rows = candidates.matching(everything) if len(everything) <= rank_all else rows
        metas: list[dict[str, Any]] = [{BM25_LANGUAGE: self.language} for _ in rows]
        for (score_name, rank_name), leg in legs.items():
            ranks = {row: rank for rank, row in enumerate(best[score_name, rank_name], start=1)}
            for meta, row, score in zip(metas, rows, leg.scores_of(rows), strict=True):
                meta |= {score_name: score, rank_name: ranks.get(row)}
        return [(candidates.documents[row], meta) for row, meta in zip(rows, metas, strict=True)]

    def wording_rows(self) -> WordingRows:
        """Which documents known wordings ask for; the same object until a document changes."""
        with self._transaction() as documents:
            revision = documents.revision()
            if self._wording_rows is None or self._wording_rows[0] != revision:
                self._wording_rows = revision, WordingRows(documents.by_row())
            return self._wording_rows[1]

    def embed_documents(
        self,
        origin: str,
        embed: Callable[[list[Document]], Sequence[Sequence[float]]],
        *,
        replace_others: bool = True,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> str | None:
        """Embed the documents that have no embedding of this origin, and leave the others alone.

        They are written in batches, so that an interrupted call is continued by the next one. Others may read and write
        meanwhile: a document that they have changed is left out.

        :param origin: What the embeddings come from; it is written into `meta["embedded_by"]`.
        :param embed: A function that returns the embeddings of documents.
        :param replace_others: Whether to replace the embeddings of another origin.
        :param on_progress: Called with the number of embedded documents and their total.
        :returns: The revision of which every document has an embedding of this origin; `None` if one was written or
            changed meanwhile.
        :raises InputError: There are embeddings of another origin, and `replace_others` is false; or as other methods.
        """
        with self._transaction() as documents:
            rows = documents.not_embedded_by(origin)
            if not replace_others:
                self._refuse_others(origin, documents.existing(rows).values())
        for start in range(0, len(rows), _WRITTEN):
            on_progress(start, len(rows))
            with self._transaction() as documents:
                before = documents.existing(rows[start : start + _WRITTEN])
            embeddings = dict(zip(before, embed(list(before.values())), strict=True))
            with self._transaction(write=True) as documents:
                for row, document in documents.existing(before).items():
                    if document is before[row] or document == before[row]:  # in memory it is the same object
                        meta = {**document.meta, EMBEDDED_BY: origin}
                        documents.update(row, replace(document, meta=meta, embedding=list(embeddings[row])))
        if rows:
            on_progress(len(rows), len(rows))
        with self._transaction() as documents:
            return None if documents.not_embedded_by(origin) else documents.revision()

    def document_ids(self) -> set[str]:
        """The ids of all documents."""
        with self._transaction() as documents:
            return {document.id for _, document in documents.by_row()}

    def exchange_documents(self, new: Sequence[Document], removed: Collection[str]) -> None:
        """Write documents and delete others in one step, in memory.

        Queries meet all of the old documents or all of the new ones, and do not wait while the indexes are built.

        :param new: The documents to write; of one that the store has already, the stored one is kept.
        :param removed: The ids of those to delete.
        :raises InputError: The store is a folder; or the embeddings differ in size.
        """
        while True:
            with self._transaction() as before:
                if not isinstance(before, MemoryDocuments):
                    raise InputError(f"{self.path}: expected a store in memory. Use `ap-ranker index` for a folder.")
                revision, after = before.revision(), before.copy()
                words, embeddings = self._index is not None, self._vectors is not None
            for document_id in removed:
                after.remove(document_id)
            for document in map(_checked, new):
                if document.id not in after:
                    after.put(document)
            index = (after.revision(), after.index(self.k1, self.b, self.language)) if words else None
            vectors = (after.revision(), after.vectors()) if embeddings else None
            with self._lock:
                if self._documents is before and before.revision() == revision:  # nobody has written meanwhile
                    self._documents, self._index, self._vectors = after, index, vectors
                    return

    def versions(self) -> list[Version]:
        """The earlier versions of a folder, oldest first.

        :raises InputError: The store is in memory, or a version is damaged.
        """
        return list_versions(self._folder().folder)

    def keep_version(self) -> None:
        """Keep the documents of a folder as they are now, so that `restore_version` can bring them back.

        Only the last five versions are kept; one that equals the last one, or is empty, is not.

        :raises InputError: The store is in memory, or something is damaged.
        """
        folder = self._folder().folder
        with self._transaction(write=True):  # creates the database, or the column that an earlier format lacks
            pass
        keep_version(folder, folder / DATABASE)

    def restore_version(self, number: int | None = None) -> Version:
        """Bring back the documents of an earlier version, with their embeddings, in one step.

        The present ones become a version, too.

        :param number: Of the version; by default the last one that differs from the present documents.
        :returns: The version.
        :raises InputError: There is no such version, the store is in memory, or something is damaged.
        """
        folder = self._folder()
        versions, revision = self.versions(), self.revision()
        found = [each for each in versions if (each.revision != revision if number is None else each.number == number)]
        if not found:
            numbers = ", ".join(str(each.number) for each in versions) or "none"
            wanted = "an earlier version" if number is None else f"version {number}"
            raise InputError(f"{self.path}: expected {wanted}, found {numbers}. `ap-ranker index` keeps the last five.")
        with self._lock:
            keep_version(folder.folder, folder.folder / DATABASE, found[-1])
            folder.restore(found[-1])
        return found[-1]

    def _folder(self) -> FolderDocuments:
        if not isinstance(self._documents, FolderDocuments):
            raise InputError("Expected a store with a path, which keeps versions, found one in memory.")
        return self._documents

    def revision(self) -> str:
        """A text that differs after every change of a document."""
        with self._transaction() as documents:
            return documents.revision()

    def _refuse_others(self, origin: str, documents: Iterable[Document]) -> None:
        others = {document.meta.get(EMBEDDED_BY) for document in documents} - {None}
        if others:
            raise InputError(
                f"{self.path or 'The store in memory'}: expected the embeddings of one checkpoint ({origin[:12]}), "
                f"found that another program has written those of another ({one_line(min(map(str, others)), 12)}). "
                "Restart this program with the new checkpoint, or give each checkpoint a store of its own."
            )

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Documents]:
        with self._lock:
            self._read()
            with self._documents.transaction(write=write):
                yield self._documents

    def _read(self) -> None:
        """Read the file or folder of `documents`, once."""
        if self.documents is not None and not self._is_read:
            for document in read_documents(self.documents, Match(self.match)):
                self._documents.put(document)
            self._is_read = True

    def _current_index(self) -> Index[BM25]:
        """The index of the current documents, built on first use rather than on each write."""
        revision = self._documents.revision()
        if self._index is None or self._index[0] != revision:
            self._index = None  # frees the old one's memory before the new one needs it
            self._index = revision, self._documents.index(self.k1, self.b, self.language)
        return self._index[1]

    def _current_vectors(self) -> Index[Vectors]:
        """As `_current_index`, of the embeddings."""
        revision = self._documents.revision()
        if self._vectors is None or self._vectors[0] != revision:
            self._vectors = None
            self._vectors = revision, self._documents.vectors()
        return self._vectors[1]

    count_documents_async = in_thread(count_documents)
    filter_documents_async = in_thread(filter_documents)
    write_documents_async = in_thread(write_documents)
    delete_documents_async = in_thread(delete_documents)
    delete_all_documents_async = in_thread(delete_all_documents)
    delete_by_filter_async = in_thread(delete_by_filter)
    update_by_filter_async = in_thread(update_by_filter)
    bm25_retrieval_async = in_thread(bm25_retrieval)
    embedding_retrieval_async = in_thread(embedding_retrieval)
    hybrid_retrieval_async = in_thread(hybrid_retrieval)
    embed_documents_async = in_thread(embed_documents)


def _matching(documents: Documents, filters: dict[str, Any]) -> Iterator[Document]:
    if compares_embeddings(filters):
        return (document for document in documents.read() if document_matches_filter(filters, document))
    return documents.read(lambda document: document_matches_filter(filters, document))


def _found(
    document: Document, meta: dict[str, Any], score: float | None, *, return_embedding: bool = False
) -> Document:
    """A fetched document with the meta and the score of a query."""
    found = copy(document)  # `replace` would check its fields again: for a hundred documents, as long as BM25 takes
    embedding = document.embedding if return_embedding else None
    vars(found).update(meta=_copied(document.meta) | meta, score=score, embedding=embedding)
    return found


def _with(legs: dict[tuple[str, str], Leg], wordings: Leg | None) -> dict[tuple[str, str], Leg]:
    """These legs and that of the wordings, of those documents that the others know: it is older than this query."""
    if wordings is None:
        return legs
    known = np.concatenate([leg.rows for leg in legs.values()])
    return {**legs, (WORDING_SCORE, WORDING_RANK): wordings.within(known)}


def _sorted(union: list[tuple[Document, dict[str, Any]]], score: str) -> list[tuple[Document, dict[str, Any]]]:
    """The highest score first; documents without one come last."""
    return sorted(union, key=lambda found: -inf if found[1][score] is None else found[1][score], reverse=True)


def _check_query(query: str) -> None:
    if not query:
        raise ValueError("Query should be a non-empty string")


def _checked_embedding(embedding: Sequence[float]) -> np.ndarray:
    if len(embedding) == 0 or not isinstance(embedding[0], float):
        raise ValueError("query_embedding should be a non-empty list of floats.")
    try:
        return to_array(embedding).astype(np.float64)
    except ValueError as error:
        raise ValueError(f"query_embedding should be a list of finite floats, but is {error}") from error


def _copy(document: Document) -> Document:
    """A copy with its own meta, so that changes outside the store do not reach its documents."""
    return replace(document, meta=_copied(document.meta))


def _checked(document: object) -> Document:
    if not isinstance(document, Document):
        raise ValueError(f"Please provide a list of Documents, not of {type(document).__name__}.")
    try:
        f"{document.id}{document.content}".encode()
    except UnicodeEncodeError as error:  # checked here, because once it is written every query would fail
        raise InputError(f"Document {document.id!r}: expected text that UTF-8 can hold, found {error}.") from error
    try:
        to_array([] if document.embedding is None else document.embedding)
    except ValueError as error:
        raise InputError(f"Document {document.id!r}: expected an embedding of numbers, found {error}.") from error
    return document


def _copied(meta: dict[str, Any]) -> dict[str, Any]:
    """As `deepcopy`, which takes a tenth of the time of a search to copy texts that nobody can change."""
    return {name: value if type(value) in _IMMUTABLE else deepcopy(value) for name, value in meta.items()}
