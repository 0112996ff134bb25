"""The retrievers of `BM25SDocumentStore`. They are here because Haystack loads YAML only from this namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from haystack import Document, component, tracing
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from ap_ranker.errors import InputError
from ap_ranker.threads import in_thread
from haystack_integrations.components.rankers.ap_ranker.checkpoint import BasicTypes, file_list
from haystack_integrations.components.retrievers.ap_ranker.known_wordings import KnownWordings
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore
from haystack_integrations.document_stores.ap_ranker.documents import Leg


class StoreRetriever(BasicTypes):
    """Retrieves from a `BM25SDocumentStore`, with filters. `METHOD_async` is a method in a thread.

    An `InputError` says that the store's folder contains something else or is damaged, that a file of wordings cannot
    be read, or that the store of a component from YAML is empty.
    """

    def _search(
        self,
        document_store: BM25SDocumentStore,
        filters: dict[str, Any] | None,
        top_k: int,
        filter_policy: FilterPolicy | str,
    ) -> None:
        """Check and keep the parameters that all retrievers have."""
        if not isinstance(document_store, BM25SDocumentStore):
            raise TypeError(f"document_store must be a BM25SDocumentStore, but got {type(document_store).__name__}")
        if top_k <= 0:
            raise ValueError(f"top_k must be greater than 0, but got {top_k}")
        self.document_store = document_store
        self.filters = filters
        self.top_k = top_k
        self.filter_policy = FilterPolicy.from_str(filter_policy) if isinstance(filter_policy, str) else filter_policy

    def warm_up(self) -> None:
        """Open the store and build or load its index unless this is done already, so that no query waits for it."""
        self.document_store.warm_up()

    warm_up_async = in_thread(warm_up)

    def close(self) -> None:
        """Close the store's files; a later `run` opens them again."""
        self.document_store.close()

    def _limits(self, filters: dict[str, Any] | None, top_k: int | None) -> tuple[dict[str, Any] | None, int]:
        """The filters and the `top_k` of a run, from its arguments and the component's."""
        top_k = self.top_k if top_k is None else top_k
        if top_k < 0:
            raise ValueError(f"top_k must be greater than or equal to 0, but got {top_k}")
        return apply_filter_policy(self.filter_policy, self.filters, filters), top_k

    def _result(self, documents: list[Document], top_k: int) -> dict[str, list[Document]]:
        # A program may query before it writes, but the user of a served pipeline cannot see that its store is empty.
        if not documents and self._is_from_dict and not self.document_store.count_documents():
            raise InputError(
                f"Expected documents in the store ({self.document_store.path or 'in memory'}), found none. In the "
                "pipeline's file, give the document_store documents, or a path, which `ap-ranker index` fills."
            )
        if (span := tracing.tracer.current_span()) is not None:
            span.set_tags({"ap_ranker.top_k": top_k, "ap_ranker.found": len(documents)})
        return {"documents": documents}


@component
class BM25SRetriever(StoreRetriever):
    """Finds the documents that share words with a query, by BM25.

    A drop-in replacement for `InMemoryBM25Retriever`: same arguments, same behaviour, but on a `BM25SDocumentStore`,
    and the documents have no embeddings. If Haystack's tracing is on, a run's span has the tags `ap_ranker.top_k` and
    `ap_ranker.found` (number of documents), as those of the other retrievers.

    ```python
    from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever

    BM25SRetriever(store, top_k=100).run(query="Where is my parcel?")["documents"]
    ```
    """

    def __init__(
        self,
        document_store: BM25SDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        scale_score: bool = False,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
        wordings: str | Path | list[str] | None = None,
    ) -> None:
        """Create the component.

        :param document_store: The store to search.
        :param filters: Haystack filters on the documents' meta; only documents that match are returned.
        :param top_k: The maximum number of documents to return.
        :param scale_score: Whether to map the scores to the interval from 0.5 to 1, which keeps their order.
        :param filter_policy: Whether filters given to `run` replace the component's filters or are merged with them.
        :param wordings: Files of known wordings, as of `AnswerRanker`. Documents of which the query is one of these,
            `meta["question"]` or one of `meta["wordings"]`, word for word, are then returned beside the `top_k`. With
            `[]` those of the meta alone; with `None` BM25 alone.
        """
        self._search(document_store, filters, top_k, filter_policy)
        self.scale_score = scale_score
        self.wordings = None if wordings is None else file_list(wordings)
        self._wordings = KnownWordings([] if self.wordings is None else self.wordings)

    def add_wordings(self, path: str | Path) -> None:
        """Use the wordings of one more file, unless `wordings` is `None`."""
        if self.wordings is not None:
            self._wordings.add(path)

    def close(self) -> None:
        """Forget the wordings and close the store's files; a later `run` reads and opens them again."""
        self._wordings.close()
        StoreRetriever.close(self)  # no super(): @component recreates the class

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scale_score: bool | None = None,
    ) -> dict[str, list[Document]]:
        """Find documents.

        :param query: The question of the user. Must not be empty.
        :param filters: Replace the component's, or are merged with them, as its `filter_policy` says.
        :param top_k: By default, the component's, as of `scale_score`; may be 0.
        :param scale_score: Whether to map the scores to the interval from 0.5 to 1.
        :returns: `documents`: copies with their scores, best first, without those that share no word with the query.
            In the meta of each, `bm25_score` is the score before scaling, `bm25_rank` the rank, from 1, and
            `bm25_language` the language of the store's stemmer, or `None`. A document that was found only by a known
            wording has a `bm25_rank` of `None`.
        """
        filters, top_k = self._limits(filters, top_k)
        scale_score = self.scale_score if scale_score is None else scale_score
        documents = self.document_store.bm25_retrieval(query, filters, top_k, scale_score, self._leg(query))
        return self._result(documents, top_k)

    run_async = in_thread(run)

    def _leg(self, query: str) -> Leg | None:
        """What known wordings find."""
        return None if self.wordings is None else self._wordings.verbatim(self.document_store, query)


@component
class BM25SEmbeddingRetriever(StoreRetriever):
    """Finds the documents whose embeddings are most like a query's, by their cosine.

    A drop-in replacement for `InMemoryEmbeddingRetriever`: same arguments, same behaviour, but on a
    `BM25SDocumentStore`, which scans vectors of 8-bit numbers. The embeddings may be of any embedder.

    ```python
    from haystack_integrations.components.embedders.ap_ranker import APTextEmbedder
    from haystack_integrations.components.retrievers.ap_ranker import BM25SEmbeddingRetriever

    query = APTextEmbedder(model="checkpoints/faq").run("Where is my parcel?")["embedding"]
    BM25SEmbeddingRetriever(store, top_k=100).run(query_embedding=query)["documents"]
    ```
    """

    def __init__(
        self,
        document_store: BM25SDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        scale_score: bool = False,
        return_embedding: bool = False,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        """Create the component. Parameters that are not named here are those of `BM25SRetriever`.

        :param scale_score: Whether to map the cosines to the interval from 0 to 1, which keeps their order.
        :param return_embedding: Whether the documents returned have their embeddings.
        """
        self._search(document_store, filters, top_k, filter_policy)
        self.scale_score = scale_score
        self.return_embedding = return_embedding

    def warm_up(self) -> None:
        """As `BM25SRetriever.warm_up`, with the index of embeddings."""
        self.document_store.warm_up(words=False, embeddings=True)

    @component.output_types(documents=list[Document])
    def run(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scale_score: bool | None = None,
        return_embedding: bool | None = None,
    ) -> dict[str, list[Document]]:
        """Find documents. Parameters that are not named here are those of the component, by default as it has them.

        :param query_embedding: The embedding of the query, a list of finite floats.
        :param top_k: The maximum number of documents to return; may be 0.
        :returns: `documents`: copies with their scores, best first, without those that have no embedding. Each score is
            the cosine of the query with the embedding as 8-bit numbers. In the meta, `embedding_score` is the score
            before scaling, and `embedding_rank` the rank, from 1.
        :raises DocumentStoreError: The embeddings differ in size from each other or from the query's.
        """
        filters, top_k = self._limits(filters, top_k)
        scale_score = self.scale_score if scale_score is None else scale_score
        return_embedding = self.return_embedding if return_embedding is None else return_embedding
        find = self.document_store.embedding_retrieval
        return self._result(find(query_embedding, filters, top_k, scale_score, return_embedding), top_k)

    run_async = in_thread(run)
