"""An embedded document store. It is defined here because Haystack loads YAML only from `haystack_integrations`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from haystack import Document, default_from_dict, default_to_dict
from haystack.utils import expit

from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import BM25, K1, B, check_parameters
from ap_ranker.text.languages import check_language
from ap_ranker.text.synonyms import Synonyms, read_synonyms
from ap_ranker.threads import in_thread
from ap_ranker.watched import Watched
from haystack_integrations.document_stores.ap_ranker.documents import Documents, Index, to_array
from haystack_integrations.document_stores.ap_ranker.entries import read_documents
from haystack_integrations.document_stores.ap_ranker.folder_documents import DATABASE, FolderDocuments
from haystack_integrations.document_stores.ap_ranker.legs import Leg, find
from haystack_integrations.document_stores.ap_ranker.stored_documents import StoredDocuments, checked
from haystack_integrations.document_stores.ap_ranker.versions import Version, keep_version, list_versions

logger = logging.getLogger(__name__)

_SCALE = 8  # InMemoryDocumentStore's: a score of 8 becomes 0.73
T = TypeVar("T")


class BM25SDocumentStore(StoredDocuments):
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
        check_parameters(k1, b)
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
        self._synonyms: Watched[Synonyms] | None = None
        self._is_read = False
        self._lock = threading.RLock()
        self._documents: Documents = Documents() if self.path is None else FolderDocuments(Path(self.path))
        self._computed: dict[Callable[[Documents], Any], tuple[str, Any]] = {}  # from the documents of a revision

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
        words, embeddings = (
            words and self._words not in self._computed,
            embeddings and Documents.vectors not in self._computed,
        )
        if not (words or embeddings):  # a pipeline asks before each run
            return
        with self._transaction():
            if words:
                self._latest(self._words)
                self._forms("")  # so that a wrong line is found before the first query
            if embeddings:
                self._latest(Documents.vectors)

    def close(self) -> None:
        """Close the folder's files; the next use opens them again. Documents in memory stay."""
        with self._lock:
            self._computed = {}
            self._documents.close()

    def _forms(self, query: str) -> list[str]:
        """The query, and with the synonyms of its words."""
        if self.synonyms is None:
            return [query]
        known = self._synonyms
        if known is None or (str(known.path), known.now().language) != (self.synonyms, self.language):
            known = self._synonyms = Watched(self.synonyms, partial(read_synonyms, language=self.language))
        return known.now().forms(query)

    def bm25_retrieval(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        scale_score: bool = False,
        wordings: Leg | None = None,
    ) -> list[Document]:
        """The documents that share words with a query, best first; ties are in the order of writing.

        :param query: The question of the user.
        :param filters: Only documents that match are returned; the statistics of BM25 are still those of all documents.
        :param top_k: The maximum number of documents to return.
        :param scale_score: Whether to map the scores to the interval from 0.5 to 1 as `InMemoryDocumentStore` does, by
            1 / (1 + exp(-score / 8)).
        :param wordings: As for `hybrid_retrieval`.
        :returns: As `BM25SRetriever.run`, like the errors.
        """
        with self._transaction() as documents:
            scale = (lambda score: float(expit(score / _SCALE))) if scale_score else float
            return find(documents, [self._by_words(query)], filters, top_k, wordings=wordings, scale=scale)

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
        :returns: As `BM25SEmbeddingRetriever.run`, like the errors.
        """
        with self._transaction() as documents:
            leg = self._by_meaning(query_embedding)
            if not len(leg.rows):
                logger.warning("Expected documents with embeddings, found none. Embed them: APDocumentEmbedder.")
            scale = (lambda cosine: (1 + cosine) / 2) if scale_score else float
            return find(documents, [leg], filters, top_k, scale=scale, embedding=bool(return_embedding))

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
        :param wordings: The scores of documents by known wordings (`KnownWordings`): the `top_k` best of these are
            returned, too. Documents deleted since are left out.
        :returns: As `HybridRetriever.run`, like the errors; the `score` is `None` without an embedding, and these
            documents come last.
        """
        with self._transaction() as documents:
            legs = [self._by_meaning(query_embedding), self._by_words(query)]
            return find(documents, legs, filters, top_k, wordings=wordings, rank_all=rank_all)

    def _by_words(self, query: str) -> Leg:
        if not query:
            raise ValueError("Query should be a non-empty string")
        return Leg.bm25(self._latest(self._words), self._forms(query))

    def _by_meaning(self, embedding: Sequence[float]) -> Leg:
        if len(embedding) == 0 or not isinstance(embedding[0], float):
            raise ValueError("query_embedding should be a non-empty list of floats.")
        try:
            query = to_array(embedding).astype(float)
        except ValueError as error:
            raise ValueError(f"query_embedding should be a list of finite floats, but is {error}") from error
        return Leg.dense(self._latest(Documents.vectors), query)

    def computed(self, compute: Callable[[Documents], T]) -> T:
        """What a function computes from the documents; the same object until a document changes."""
        with self._transaction():
            return self._latest(compute)

    def exchange_documents(self, new: Sequence[Document], removed: Collection[str]) -> None:
        """Write documents and delete others in one step, in memory.

        Queries meet all of the old documents or all of the new ones, and do not wait while the indexes are built.

        :param new: The documents to write; of one that the store has already, the stored one is kept.
        :param removed: The ids of those to delete.
        :raises InputError: The store is a folder; or the embeddings differ in size.
        """
        while True:
            with self._transaction() as before:
                if isinstance(before, FolderDocuments):
                    raise InputError(f"{self.path}: expected a store in memory. Use `ap-ranker index` for a folder.")
                revision, after = before.revision(), before.copy()
                functions = list(self._computed)
            for document_id in removed:
                after.remove(document_id)
            for document in map(checked, new):
                if document.id not in after:
                    after.put(document)
            computed = {compute: (after.revision(), compute(after)) for compute in functions}
            with self._lock:
                if self._documents is before and before.revision() == revision:  # nobody has written meanwhile
                    self._documents, self._computed = after, computed
                    return

    def versions(self) -> list[Version]:
        """The earlier versions of a folder, oldest first.

        :raises InputError: The store is in memory, or a version is damaged.
        """
        return list_versions(self._folder().folder)

    def keep_version(self) -> None:
        """Keep the documents of a folder as they are now, unless the last version has them; the last five are kept.

        :raises InputError: The store is in memory, or something is damaged.
        """
        folder = self._folder().folder
        self.revision()  # creates the database
        keep_version(folder, folder / DATABASE)

    def restore_version(self, number: int | None = None) -> Version:
        """Bring back the documents of an earlier version in one step; the present ones become a version, too.

        :param number: Of the version; by default the last one that differs from the present documents.
        :returns: The version.
        :raises InputError: There is no such version, the store is in memory, or something is damaged.
        """
        folder, versions, now = self._folder(), self.versions(), self.revision()
        found = [each for each in versions if (each.revision != now if number is None else each.number == number)]
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

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Documents]:
        with self._lock:
            if self.documents is not None and not self._is_read:
                for document in read_documents(self.documents, Match(self.match)):
                    self._documents.put(document)
                self._is_read = True
            with self._documents.transaction(write=write):
                yield self._documents

    def _latest(self, compute: Callable[[Documents], T]) -> T:
        """As `computed`: on first use rather than on each write."""
        revision = self._documents.revision()
        if self._computed.get(compute, ("",))[0] != revision:
            self._computed.pop(compute, None)  # frees the old one's memory before the new one needs it
            self._computed[compute] = revision, compute(self._documents)
        found: T = self._computed[compute][1]
        return found

    def _words(self, documents: Documents) -> Index[BM25]:
        return documents.index(self.k1, self.b, self.language)

    bm25_retrieval_async = in_thread(bm25_retrieval)
    embedding_retrieval_async = in_thread(embedding_retrieval)
    hybrid_retrieval_async = in_thread(hybrid_retrieval)
