"""An embedded document store. It is defined here because Haystack loads YAML only from `haystack_integrations`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from haystack import Document, default_from_dict, default_to_dict
from haystack.utils import expit

from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.errors import InputError, one_line
from ap_ranker.ranking.bm25 import K1, B, check_parameters
from ap_ranker.ranking.int8_vectors import EMBEDDED_BY
from ap_ranker.text.stem import check_language
from ap_ranker.text.synonyms import SynonymFile
from ap_ranker.threads import in_thread
from haystack_integrations.document_stores.ap_ranker.contract import StoredDocuments, checked
from haystack_integrations.document_stores.ap_ranker.documents import Documents, MemoryDocuments, to_array
from haystack_integrations.document_stores.ap_ranker.entries import read_documents
from haystack_integrations.document_stores.ap_ranker.folder_documents import FolderDocuments
from haystack_integrations.document_stores.ap_ranker.legs import Leg, find
from haystack_integrations.document_stores.ap_ranker.versions import Version
from haystack_integrations.document_stores.ap_ranker.wordings import WordingRows

logger = logging.getLogger(__name__)

_SCALE = 8  # InMemoryDocumentStore's: a score of 8 becomes 0.73
_WRITTEN = 1024  # documents embedded before they are written: an interrupted run loses as many
_WORDS, _VECTORS, _WORDINGS = "words", "vectors", "wordings"
_EMBEDDED = 256  # documents embedded between two calls that report progress


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
        self._synonyms: SynonymFile | None = None
        self._is_read = False
        self._lock = threading.RLock()
        self._documents: Documents = MemoryDocuments() if self.path is None else FolderDocuments(Path(self.path))
        self._computed: dict[str, tuple[str, Any]] = {}  # from the documents of a revision

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
        words, embeddings = words and _WORDS not in self._computed, embeddings and _VECTORS not in self._computed
        if not (words or embeddings):  # a pipeline asks before each run
            return
        with self._transaction():
            if words:
                self._latest(_WORDS)
                self._forms("")  # so that a wrong line is found before the first query
            if embeddings:
                self._latest(_VECTORS)

    def close(self) -> None:
        """Close the folder's files; the next use opens them again. Documents in memory stay."""
        with self._lock:
            self._computed = {}
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
        :param wordings: As for `hybrid_retrieval`.
        :returns: Copies with their scores, without embeddings. In the meta of each, `bm25_score` is the score before
            scaling, `bm25_rank` the rank, from 1, and `bm25_language` the language of the stemmer, or `None`. A
            document that was found only by `wordings` has a `bm25_rank` of `None`.
        :raises ValueError: The query is empty.
        :raises FilterError: `filters` are invalid.
        :raises InputError: The folder at `path` contains something else, or is damaged.
        """
        with self._transaction() as documents:
            legs = _with([self._by_words(query)], wordings)
            scale = _probability if scale_score else float
            return find(documents, legs, filters, top_k, scale=scale)

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
        with self._transaction() as documents:
            leg = self._by_meaning(query_embedding)
            if not len(leg.rows):
                logger.warning("Expected documents with embeddings, found none. Embed them: APDocumentEmbedder.")
            scale = _share if scale_score else float
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
        :returns: Copies, the highest `embedding_score` first. It is the `score` of the document, too, and `None` if it
            has no embedding; these come last. `bm25_score` is 0 if it shares no word with the query. `bm25_rank` and
            `embedding_rank` are `None` if the document was not among the `top_k` of BM25 or of the embeddings. With
            `wordings`, `wording_rank` is likewise.
        :raises ValueError: The query is empty, or `query_embedding` is not a list of finite floats, or is empty.
        :raises FilterError: `filters` are invalid.
        :raises DocumentStoreError: The embeddings differ in size from each other or from the query's.
        :raises InputError: The folder at `path` contains something else, or is damaged.
        """
        with self._transaction() as documents:
            legs = _with([self._by_meaning(query_embedding), self._by_words(query)], wordings)
            return find(documents, legs, filters, top_k, rank_all=rank_all)

    def _by_words(self, query: str) -> Leg:
        if not query:
            raise ValueError("Query should be a non-empty string")
        return Leg.bm25(self._latest(_WORDS), self._forms(query))

    def _by_meaning(self, embedding: Sequence[float]) -> Leg:
        if len(embedding) == 0 or not isinstance(embedding[0], float):
            raise ValueError("query_embedding should be a non-empty list of floats.")
        try:
            query = to_array(embedding).astype(float)
        except ValueError as error:
            raise ValueError(f"query_embedding should be a list of finite floats, but is {error}") from error
        return Leg.dense(self._latest(_VECTORS), query)

    def wording_rows(self) -> WordingRows:
        """Which documents known wordings ask for; the same object until a document changes."""
        with self._transaction():
            rows: WordingRows = self._latest(_WORDINGS)
            return rows

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
                self._refuse_others(origin, documents.fetch(rows).values())
        for start in range(0, len(rows), _WRITTEN):
            with self._transaction() as documents:
                before = documents.fetch(rows[start : start + _WRITTEN])
            some, embeddings = list(before.values()), []
            for part in range(0, len(some), _EMBEDDED):
                on_progress(start + part, len(rows))
                embeddings += embed(some[part : part + _EMBEDDED])
            with self._transaction(write=True) as documents:
                now = documents.fetch(before)
                for (row, document), embedding in zip(before.items(), embeddings, strict=True):
                    if now.get(row) is document or now.get(row) == document:  # in memory it is the same object
                        meta = {**document.meta, EMBEDDED_BY: origin}
                        documents.update(row, replace(document, meta=meta, embedding=list(embedding)))
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
                kinds = list(self._computed)
            for document_id in removed:
                after.remove(document_id)
            for document in map(checked, new):
                if document.id not in after:
                    after.put(document)
            computed = {kind: (after.revision(), self._compute(kind, after)) for kind in kinds}
            with self._lock:
                if self._documents is before and before.revision() == revision:  # nobody has written meanwhile
                    self._documents, self._computed = after, computed
                    return

    def versions(self) -> list[Version]:
        """The earlier versions of a folder, oldest first.

        :raises InputError: The store is in memory, or a version is damaged.
        """
        return self._folder().versions()

    def keep_version(self) -> None:
        """Keep the documents of a folder as they are now, so that `restore_version` can bring them back.

        Only the last five versions are kept; one that equals the last one, or is empty, is not.

        :raises InputError: The store is in memory, or something is damaged.
        """
        self._folder().keep_version()

    def restore_version(self, number: int | None = None) -> Version:
        """Bring back the documents of an earlier version, with their embeddings, in one step.

        The present ones become a version, too.

        :param number: Of the version; by default the last one that differs from the present documents.
        :returns: The version.
        :raises InputError: There is no such version, the store is in memory, or something is damaged.
        """
        with self._lock:
            return self._folder().restore_version(number)

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

    def _latest(self, kind: str) -> Any:
        """What is computed from the present documents, on first use rather than on each write."""
        revision = self._documents.revision()
        if self._computed.get(kind, ("",))[0] != revision:
            self._computed.pop(kind, None)  # frees the old one's memory before the new one needs it
            self._computed[kind] = revision, self._compute(kind, self._documents)
        return self._computed[kind][1]

    def _compute(self, kind: str, documents: Documents) -> Any:
        if kind == _WORDS:
            return documents.index(self.k1, self.b, self.language)
        return documents.vectors() if kind == _VECTORS else WordingRows(documents.by_row())

    bm25_retrieval_async = in_thread(bm25_retrieval)
    embedding_retrieval_async = in_thread(embedding_retrieval)
    hybrid_retrieval_async = in_thread(hybrid_retrieval)
    embed_documents_async = in_thread(embed_documents)


def _with(legs: list[Leg], wordings: Leg | None) -> list[Leg]:
    """These legs and that of the wordings, of those documents that the others know: it is older than this query."""
    return legs if wordings is None else [*legs, wordings.within(legs)]


def _probability(score: float) -> float:
    return float(expit(score / _SCALE))


def _share(cosine: float) -> float:
    return (1 + cosine) / 2
