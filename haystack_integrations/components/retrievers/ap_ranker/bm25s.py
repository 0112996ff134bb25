# SPDX-License-Identifier: Apache-2.0
"""The retrievers of `BM25SDocumentStore`. They are here because Haystack loads YAML only from this namespace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from haystack import Document, component
from haystack.document_stores.types import FilterPolicy

from ap_ranker.ranking.wordings import KnownWordings
from haystack_integrations.common.ap_ranker.component import file_list
from haystack_integrations.common.ap_ranker.query_data import Found, check_query
from haystack_integrations.components.retrievers.ap_ranker.hybrid import StoreRetriever, WordingRetriever
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore


@component
class BM25SRetriever(WordingRetriever):
    """
    Finds the documents that share words with a query, by BM25.

    A drop-in replacement for `InMemoryBM25Retriever`: same arguments, same behaviour, but on a `BM25SDocumentStore`,
    and the documents have no embeddings. If Haystack's tracing is on, a run's span has the tags `ap_ranker.top_k` and
    `ap_ranker.found` (number of documents), as those of the other retrievers.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever
    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

    store = BM25SDocumentStore()
    store.write_documents([Document(content="Open the tracking link of your parcel.")])
    print(BM25SRetriever(store, top_k=100).run(query="Where is my parcel?")["documents"])
    ```
    """

    parameters = (*StoreRetriever.parameters, "scale_score", "wordings")
    uses = ("document_store", "_known")

    def __init__(
        self,
        document_store: BM25SDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        scale_score: bool = False,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
        wordings: str | Path | Sequence[str | Path] | None = None,
    ) -> None:
        """
        Create the component.

        :param document_store: The store to search.
        :param filters: Haystack filters on the documents' meta. Only documents that match are returned.
        :param top_k: The maximum number of documents to return.
        :param scale_score: Whether to map the scores to the interval from 0.5 to 1, which keeps their order.
        :param filter_policy: Whether filters given to `run` replace the component's filters or are merged with them.
        :param wordings: Files of known wordings, as for `AnswerRanker`. If the query is one of these, word for word,
            its document is among the `top_k` returned; so it is with `meta["question"]` and `meta["wordings"]` of a
            document. With `[]` those of the meta alone count, with `None` none.
        :raises ValueError: A number is out of range, there is no policy of this name, or it is another store.
        """
        self._search(document_store, filters, top_k, filter_policy)
        self.scale_score = scale_score
        self._known = KnownWordings(None if wordings is None else file_list(wordings))

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scale_score: bool | None = None,
    ) -> dict[str, list[Document]]:
        """
        Find documents.

        :param query: The question of the user. Must not be empty.
        :param filters: Replace the component's, or are merged with them, as its `filter_policy` says.
        :param top_k: By default, the component's, as of `scale_score`; may be 0.
        :param scale_score: Whether to map the scores to the interval from 0.5 to 1.
        :returns: `documents`: copies with their scores, best first, without those that share no word with the query.
            In `meta["ap_ranker"]` of each, `bm25_score` is the score before scaling, `bm25_rank` the rank, from 1, and
            `bm25_language` the language of the store's stemmer, or `None`. A document that was found only by a known
            wording has a `bm25_rank` of `None`.
        :raises InputError: The query is empty; and as of `StoreRetriever`.
        """
        return {"documents": self.find(query, filters, top_k, scale_score).copies()}

    def find(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scale_score: bool | None = None,
    ) -> Found:
        """As `run`, before any document is copied."""
        check_query(query)
        filters, top_k = self._limits(filters, top_k)
        wordings = None
        has_wordings = self._known.paths is not None
        if has_wordings:
            wordings = self._by_exact_wording(query)
        fetched = self._fetch(
            query,
            filters,
            top_k,
            wordings=wordings,
            stored_questions=has_wordings,
            scale_score=self.scale_score if scale_score is None else scale_score,
        )
        return fetched.first(top_k)  # without those that known wordings find beyond it


@component
class BM25SEmbeddingRetriever(StoreRetriever):
    """
    Finds the documents whose embeddings are most like a query's, by their cosine.

    A drop-in replacement for `InMemoryEmbeddingRetriever`: same arguments, same behaviour, but on a
    `BM25SDocumentStore`, which scans vectors of 8-bit numbers. The embeddings may be of any embedder.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder, APTextEmbedder
    from haystack_integrations.components.retrievers.ap_ranker import BM25SEmbeddingRetriever
    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

    store, embedder = BM25SDocumentStore(), APDocumentEmbedder(model="checkpoints/faq")
    store.write_documents(embedder.run([Document(content="Open the tracking link ...")])["documents"])
    query = APTextEmbedder(model="checkpoints/faq").run("Where is my parcel?")["embedding"]
    print(BM25SEmbeddingRetriever(store, top_k=100).run(query_embedding=query)["documents"])
    ```
    """

    parameters = (*StoreRetriever.parameters, "scale_score", "return_embedding")

    def __init__(
        self,
        document_store: BM25SDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        scale_score: bool = False,
        return_embedding: bool = False,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        """
        Create the component.

        :param document_store: The store to search.
        :param filters: Haystack filters on the documents' meta. Only documents that match are returned.
        :param top_k: The maximum number of documents to return.
        :param scale_score: Whether to map the cosines to the interval from 0 to 1, which keeps their order.
        :param return_embedding: Whether the documents returned have their embeddings.
        :param filter_policy: Whether filters given to `run` replace the component's filters or are merged with them.
        :raises ValueError: A number is out of range, there is no policy of this name, or it is another store.
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
        """
        Find documents.

        :param query_embedding: The embedding of the query, a list of finite floats.
        :param filters: Replace the component's, or are merged with them, as its `filter_policy` says.
        :param top_k: The maximum number of documents to return; may be 0. By default, the component's.
        :param scale_score: Whether to map the cosines to the interval from 0 to 1. By default, as the component.
        :param return_embedding: Whether the documents returned have their embeddings. By default, as the component.
        :returns: `documents`: copies with their scores, best first, without those that have no embedding. Each score is
            the cosine of the query with the embedding as 8-bit numbers. In `meta["ap_ranker"]`, `embedding_score` is
            the score before scaling, and `embedding_rank` the rank, from 1.
        :raises DocumentStoreError: The embeddings differ in size from each other or from the query's.
        """
        filters, top_k = self._limits(filters, top_k)
        scale_score = self.scale_score if scale_score is None else scale_score
        return_embedding = self.return_embedding if return_embedding is None else return_embedding
        find = self.document_store.embedding_retrieval
        documents = find(query_embedding, filters, top_k, scale_score, return_embedding)
        self._note(len(documents), top_k)
        return {"documents": documents}
