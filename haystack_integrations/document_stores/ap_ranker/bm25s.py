# SPDX-License-Identifier: Apache-2.0
"""An embedded document store. It is defined here because Haystack loads YAML only from `haystack_integrations`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from haystack import Document, default_from_dict, default_to_dict, logging
from haystack.utils import expit

from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.documents import read_entries
from ap_ranker.errors import InputError
from ap_ranker.kept_results import Latest
from ap_ranker.ranking.bm25 import BM25, BM25_LANGUAGE, BM25_RANK, BM25_SCORE, K1, B, check_parameters
from ap_ranker.ranking.wordings import EMBEDDING_RANK, EMBEDDING_SCORE, Leg
from ap_ranker.settings import checked_arguments
from ap_ranker.text.languages import check_language
from ap_ranker.text.synonyms import SearchedForm, Synonyms, read_synonyms
from ap_ranker.threads import in_thread
from ap_ranker.watched_file import Watched
from haystack_integrations.common.ap_ranker.entries import to_document
from haystack_integrations.common.ap_ranker.query_data import STORED_QUESTION, WORDINGS_COUNT, Found, query_key
from haystack_integrations.document_stores.ap_ranker.documents import (
    Documents,
    EmbeddingSizeError,
    Index,
    find,
    to_array,
)
from haystack_integrations.document_stores.ap_ranker.folder_documents import FolderDocuments
from haystack_integrations.document_stores.ap_ranker.stored_documents import StoredDocuments, checked

logger = logging.getLogger(__name__)

PARAMETERS = ("path", "k1", "b", "language", "documents", "match", "synonyms")
"""Parameters of the store that its copies have, too."""

_SCALE = 8  # InMemoryDocumentStore's: a score of 8 becomes 0.73
T = TypeVar("T")


@cache
def _words(k1: float, b: float, language: str | None) -> Callable[[Documents], Index[BM25]]:
    """What makes the BM25 index of documents; the same for the same settings."""
    return lambda documents: documents.index(k1, b, language)


def _scaled_cosine(cosine: float) -> float:
    return (1 + cosine) / 2


def _query_array(embedding: Sequence[float]) -> np.ndarray:
    """A query's embedding as (C,) numbers; ValueError if it is none."""
    try:
        query = to_array(embedding).astype(float)
    except ValueError as error:
        raise ValueError(f"query_embedding should be a non-empty list of floats, but is {error}.") from error
    if not query.size or not isinstance(embedding[0], float):
        raise ValueError("query_embedding should be a non-empty list of floats.")
    return query


def _scaled_bm25(score: float) -> float:
    return float(expit(score / _SCALE))


class SharedDocuments:
    """
    The documents of one or more stores, what is computed of them, and a lock for both.

    Those in memory have an `index`, their name in this process; they live as long as one of their stores does. A copy,
    also a pickled one, has documents of its own, under a new name, which stores that are copied together share.
    """

    _in_memory: ClassVar[WeakValueDictionary[str, SharedDocuments]] = WeakValueDictionary()
    _naming = threading.Lock()

    def __init__(self, documents: Documents, index: str | None = None) -> None:
        self.documents = documents
        self.index = index
        self.lock = threading.RLock()
        self.computed: dict[Callable[[Documents], Any], Latest[Any]] = {}  # from the documents of a revision
        self.source: str | None = None  # the file of which the documents were read, and what became their content

    @classmethod
    def named(cls, index: str | None) -> SharedDocuments:
        """Those in memory of this name; new ones if there are none, or for `None`, which takes a new name."""
        index = uuid.uuid4().hex if index is None else index
        with cls._naming:
            return cls._in_memory.get(index) or cls._in_memory.setdefault(index, cls(Documents(), index))

    def __reduce__(self) -> tuple[Any, ...]:
        with self.lock:
            return _copied, (self.documents.copy(), self.source)


def _copied(documents: Documents, source: str | None) -> SharedDocuments:
    shared = SharedDocuments.named(None)
    shared.documents = documents
    shared.source = source
    return shared


class BM25SDocumentStore(StoredDocuments):
    """
    Documents, a BM25 index over their content and an index of their embeddings, in memory or in a folder.

    `BM25SRetriever` searches the content, `BM25SEmbeddingRetriever` the embeddings, `HybridRetriever` both. A query
    takes about a millisecond; the first one after a write builds the index anew.

    The scores are those of Lucene's BM25; a document without content is not found by it. Embeddings are compared by
    their cosine, as vectors of 8-bit numbers. The store keeps them as they were written, too. Documents that a query
    finds have no embedding, unless it asks for it.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

    store = BM25SDocumentStore()  # or BM25SDocumentStore("faq-index")
    store.write_documents([Document(content="Open the tracking link ...")])
    ```

    Threads may share a store; they take turns. With a `path`, every write is atomic and durable: it is on disk when the
    method returns. Several stores, also in several processes, may have the same path: each sees the others' writes.
    Every method that reads or writes documents has an async version, `METHOD_async`, which runs in a thread.
    """

    @checked_arguments
    def __init__(
        self,
        path: str | Path | None = None,
        k1: float = K1,
        b: float = B,
        language: str | None = None,
        documents: str | Path | None = None,
        match: str = DEFAULT_MATCH,
        synonyms: str | Path | None = None,
        index: str | None = None,
    ) -> None:
        """
        Create the store. The first use opens or creates its folder, or reads its `documents`.

        :param path: A folder for the documents and the index, which are read on demand. `None` keeps both in memory.
        :param k1: How much a word's repetitions in a text add; 0 counts each word once.
        :param b: How much longer texts are penalised, from 0 (not at all) to 1.
        :param language: The language of a Snowball stemmer, such as `english`: "parcels" then finds "parcel"; or
            `thai`, which is read as words, too (extra `thai`). A ranker with `fuse_scores` needs the language that its
            checkpoint was trained with. `None` compares whole words, and in scripts without spaces pairs of characters.
        :param documents: What a store in memory begins with: a FAQ file with columns question and answer, a document,
            or a folder of documents and tables. Excludes `path`.
        :param match: The text of an entry of `documents` that becomes its content: `both`, `answer` or `question`.
        :param synonyms: A file with other words for what users ask, such as `SAP = payroll system`, or one way,
            `SAP => payroll system`, on each line. A query is also searched with these, and each document has its best
            score. A changed file is read again before the next query.
        :param index: The name of documents in memory, as of `InMemoryDocumentStore`: stores of one name in a process
            have the same documents, as long as one of these stores exists. So have those of a pipeline that was dumped
            and loaded. `None` takes a name that no other store has. Excludes `path`.
        :raises InputError: A value is out of range or unknown, or `path` is given beside `documents` or `index`.
        """
        check_parameters(k1, b)
        check_language(language)
        if path is not None and documents is not None:
            raise InputError(
                "Expected a path (a folder that `ap-ranker index` fills) or documents (read into memory), found both: "
                f"{path} and {documents}."
            )
        if path is not None and index is not None:
            raise InputError(f"Expected a path or an index (in memory), found both: {path} and {index}.")
        self._shared = SharedDocuments.named(index) if path is None else SharedDocuments(FolderDocuments(Path(path)))
        self.path = None if path is None else str(path)
        self.k1 = k1
        self.b = b
        self.language = language
        self.documents = None if documents is None else str(documents)
        self.match = str(Match(match))
        self.synonyms = None if synonyms is None else str(synonyms)
        self.index = self._shared.index
        self._synonyms: Latest[Watched[Synonyms]] = Latest()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a store in memory has its own documents; a copy of a store with a path reads the same folder."""
        settings = tuple(getattr(self, name) for name in PARAMETERS)
        return type(self), settings, self._shared if self.path is None else None

    def __setstate__(self, shared: SharedDocuments) -> None:
        self._shared = shared
        self.index = shared.index

    def twin(self) -> Self:
        """Another store with the same documents in memory: what is written into one does not change the other."""
        shared = SharedDocuments.named(None)
        with self._transaction() as documents:
            shared.documents = documents.copy()
            shared.source = self._shared.source
        settings = {name: getattr(self, name) for name in PARAMETERS} | {"path": None}
        return type(self)(**settings, index=shared.index)

    def to_dict(self) -> dict[str, Any]:
        """The store as basic types, without its documents."""
        return default_to_dict(self, **{name: getattr(self, name) for name in PARAMETERS}, index=self.index)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create the store from a dictionary, as made by `to_dict` or read from YAML."""
        return default_from_dict(cls, data)

    def warm_up(self, *, words: bool = True, embeddings: bool = False) -> None:
        """Build or load the index of the content, or that of the embeddings, or both, so that no query waits for it."""
        with self._transaction():
            if words:
                self._latest(self._words)
                self._forms("")  # so that a wrong line is found before the first query
            if embeddings:
                self._latest(Documents.vectors)

    def leave_folder(self) -> None:
        """Have documents in memory from now on, at first none; the folder stays as it is."""
        self.close()
        self._shared = SharedDocuments.named(None)
        self.path = None
        self.index = self._shared.index

    def close(self) -> None:
        """Close the folder's files; the next use opens them again. Documents in memory stay."""
        with self._shared.lock:
            self._shared.computed.clear()
            self._shared.documents.close()

    close_async = in_thread(close)

    def _forms(self, query: str) -> list[SearchedForm]:
        """The query, and with the synonyms of its words."""
        if self.synonyms is None:
            return [SearchedForm(query)]
        read = partial(read_synonyms, language=self.language)
        watched = self._synonyms.get((self.synonyms, self.language), partial(Watched, self.synonyms, read))
        return watched.now().searched(query)

    def bm25_retrieval(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int = 10, scale_score: bool = False
    ) -> list[Document]:
        """
        As `BM25SRetriever.run`; `scale_score` is by 1 / (1 + exp(-score / 8)), ties are in the order of writing.

        BM25's statistics are those of all documents, whatever the filters.
        """
        return self.find_documents(query, filters, top_k, scale_score=scale_score).copies()

    def embedding_retrieval(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        scale_score: bool = False,
        return_embedding: bool | None = False,
    ) -> list[Document]:
        """As `BM25SEmbeddingRetriever.run`; `scale_score` is by (1 + cosine) / 2, ties are in the order of writing."""
        with self._transaction() as documents:
            [leg] = self._by_meaning([query_embedding])
            if not len(leg.rows) and len(documents):
                logger.warning("Expected documents with embeddings, found none. Embed them: APDocumentEmbedder.")
            scale = _scaled_cosine if scale_score else float
            embedding = bool(return_embedding)
            return self._find([leg], filters, top_k, scale=scale, embedding=embedding).copies()

    def find_documents(
        self,
        query: str,
        filters: dict[str, Any] | None,
        top_k: int,
        *,
        wordings: Leg | None = None,
        stored_questions: bool = False,
        scale_score: bool = False,
    ) -> Found:
        """
        What `bm25_retrieval` finds, before any document is copied.

        `wordings` are the scores of documents by known wordings (`KnownWordings`): the `top_k` best of these are
        returned, too; those deleted since are left out. `stored_questions`: `meta["question"]` and `meta["wordings"]`
        are known to ask for their documents.
        """
        [fetched] = self.find_for_each(
            [query],
            None,
            filters,
            top_k,
            wordings=[wordings],
            stored_questions=stored_questions,
            scale_score=scale_score,
        )
        return fetched

    def find_for_each(
        self,
        queries: Sequence[str],
        embeddings: Sequence[list[float]] | None,
        filters: dict[str, Any] | None,
        top_k: int,
        *,
        rank_all: int = 0,
        wordings: Sequence[Leg | None],
        stored_questions: bool = False,
        scale_score: bool = False,
    ) -> list[Found]:
        """
        As `find_documents`, for each query with its embedding and its scores by known wordings.

        With embeddings, scores are their cosines, and documents without one come last. A store with at most `rank_all`
        documents returns all that have content or an embedding.
        """
        with self._transaction():
            meaning: list[list[Leg]] = [[]] * len(queries)
            if embeddings is not None:
                meaning = [[leg] for leg in self._by_meaning(embeddings)]
            fetched: list[Found] = []
            for query, by_meaning, by_wordings in zip(queries, meaning, wordings, strict=True):
                of_query = self._find(
                    [*by_meaning, self._by_words(query)],
                    filters,
                    top_k,
                    rank_all=rank_all,
                    key=query_key(query),
                    stored_questions=stored_questions,
                    wordings=by_wordings,
                    scale=_scaled_bm25 if scale_score else float,
                )
                fetched.append(of_query)
            return fetched

    def _find(self, legs: Sequence[Leg], *limits: Any, stored_questions: bool = False, **options: Any) -> Found:
        meta = {}
        if stored_questions or self.documents is not None:
            meta = {STORED_QUESTION: True}
        wordings = options.get("wordings")
        if wordings is not None and len(wordings.rows):
            meta[WORDINGS_COUNT] = True
        return find(self._shared.documents, meta, legs, *limits, **options)

    def _by_words(self, query: str) -> Leg:
        if not isinstance(query, str) or not query:
            raise InputError(f"Query should be a non-empty string, but got {query!r}.")
        index = self._latest(self._words)
        scores = index.scorer.best_scores(self._forms(query))
        return Leg(
            index.rows,
            scores,
            rank_field=BM25_RANK,
            score_field=BM25_SCORE,
            nothing=0.0,
            meta={BM25_LANGUAGE: index.scorer.language},
        )

    def _by_meaning(self, embeddings: Sequence[Sequence[float]]) -> list[Leg]:
        """The documents' cosines with each of some queries."""
        queries = list(map(_query_array, embeddings))
        index = self._latest(Documents.vectors)
        if index.scorer.is_empty:
            return [Leg(index.rows, np.zeros(0, np.float32), EMBEDDING_RANK, EMBEDDING_SCORE)] * len(queries)
        size = index.scorer.matrix.shape[1]
        for query in queries:
            if len(query) != size:
                raise EmbeddingSizeError(
                    f"Expected a query embedding of {size} numbers, as the documents' are, found one of {len(query)}. "
                    "Embed the query with the model that embedded the documents."
                )
        legs: list[Leg] = []
        for scores in index.scorer.scores_of_each(np.stack(queries)):
            legs.append(Leg(index.rows, scores, EMBEDDING_RANK, EMBEDDING_SCORE))
        return legs

    def revision(self) -> str:
        """A text that differs after every change of a document."""
        with self._transaction() as documents:
            return documents.revision()

    def computed(self, compute: Callable[[Documents], T]) -> T:
        """What a function computes from the documents; the same object until a document changes."""
        with self._transaction():
            return self._latest(compute)

    def contents(self, limit: int) -> list[str]:
        """The contents of the first `limit` of the documents that have some."""
        with self._transaction() as documents:
            return [content for _, content in islice(documents.contents(), limit)]

    def exchange_documents(self, new: Sequence[Document], removed: Collection[str]) -> None:
        """
        Write those documents that are new, and delete those of some ids, in one step, in memory.

        Queries meet all of the old documents or all of the new ones, and do not wait while the indexes are built.
        """
        while True:
            with self._transaction() as before:
                if isinstance(before, FolderDocuments):
                    raise InputError(
                        f"{self.path}: expected a store in memory, found a folder, which `ap-ranker index` fills."
                    )
                revision = before.revision()
                after = before.copy()
                functions = list(self._shared.computed)
            for document_id in removed:
                after.remove(document_id)
            for document in map(checked, new):
                if document.id not in after:
                    after.put(document)
            computed: dict[Callable[[Documents], Any], Latest[Any]] = {}
            for compute in functions:
                computed[compute] = Latest()
                computed[compute].get(after.revision(), partial(compute, after))
            with self._shared.lock:
                if self._shared.documents is before and before.revision() == revision:  # nobody has written meanwhile
                    self._shared.documents = after
                    self._shared.computed = computed
                    return

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Documents]:
        shared = self._shared
        with shared.lock:
            source = None
            if self.documents is not None:
                source = f"{self.documents} (match: {self.match})"
            if source is not None and shared.source is None:
                documents: dict[str, Document] = {}  # of several with the same id, the last one
                for entry in read_entries(Path(str(self.documents))):
                    document = to_document(entry, Match(self.match))
                    documents[document.id] = document
                for document in documents.values():
                    shared.documents.put(document)
                shared.source = source
            if source not in (None, shared.source):
                raise InputError(
                    f"Index {self.index!r} in memory: expected the documents of {source}, found those of "
                    f"{shared.source}. Give this store another index, or none."
                )
            with shared.documents.transaction(write=write):
                yield shared.documents

    def _latest(self, compute: Callable[[Documents], T]) -> T:
        """As `computed`: on first use rather than on each write."""
        documents = self._shared.documents
        latest: Latest[T] = self._shared.computed.pop(compute, Latest())
        result = latest.get(documents.revision(), partial(compute, documents))
        self._shared.computed[compute] = latest  # once it could be computed: an exchange computes it ahead
        return result

    @property
    def _words(self) -> Callable[[Documents], Index[BM25]]:
        return _words(self.k1, self.b, self.language)

    bm25_retrieval_async = in_thread(bm25_retrieval)
    embedding_retrieval_async = in_thread(embedding_retrieval)
