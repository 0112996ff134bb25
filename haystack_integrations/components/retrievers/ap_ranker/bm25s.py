"""The retriever of `BM25SDocumentStore`. It is defined here because Haystack loads YAML only from this namespace."""

from __future__ import annotations

from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict, tracing
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from ap_ranker.errors import InputError
from ap_ranker.threads import in_thread
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore


@component
class BM25SRetriever:
    """Finds the documents that share words with a query, by BM25.

    A drop-in replacement for `InMemoryBM25Retriever`: same arguments, same behaviour, but on a `BM25SDocumentStore`. If
    Haystack's tracing is on, a run's span has the tags `ap_ranker.top_k` and `ap_ranker.found` (number of documents).

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
    ) -> None:
        """Create the component.

        :param document_store: The store to search.
        :param filters: Haystack filters on the documents' meta; only documents that match are returned.
        :param top_k: The maximum number of documents to return.
        :param scale_score: Whether to map the scores to the interval from 0.5 to 1, which keeps their order.
        :param filter_policy: Whether filters given to `run` replace the component's filters or are merged with them.
        :raises TypeError: `document_store` is another kind of store.
        :raises ValueError: `top_k` is not positive.
        """
        if not isinstance(document_store, BM25SDocumentStore):
            raise TypeError(f"document_store must be a BM25SDocumentStore, but got {type(document_store).__name__}")
        if top_k <= 0:
            raise ValueError(f"top_k must be greater than 0, but got {top_k}")
        self.document_store = document_store
        self.filters = filters
        self.top_k = top_k
        self.scale_score = scale_score
        self.filter_policy = filter_policy
        self._is_from_dict = False

    def warm_up(self) -> None:
        """Open the store and build or load its index unless this is done already, so that no query waits for it.

        :raises InputError: The store's folder contains something else, or is damaged.
        """
        self.document_store.warm_up()

    warm_up_async = in_thread(warm_up)
    """As `warm_up`, in a thread, so that the event loop stays free."""

    def close(self) -> None:
        """Close the store's files; a later `run` opens them again."""
        self.document_store.close()

    def to_dict(self) -> dict[str, Any]:
        """The component as basic types."""
        return default_to_dict(
            self,
            document_store=self.document_store,
            filters=self.filters,
            top_k=self.top_k,
            scale_score=self.scale_score,
            filter_policy=self.filter_policy.value,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create the component from a dictionary, as made by `to_dict` or read from YAML."""
        parameters = dict(data.get("init_parameters", {}))
        if "filter_policy" in parameters:
            parameters["filter_policy"] = FilterPolicy.from_str(parameters["filter_policy"])
        retriever = default_from_dict(cls, {**data, "init_parameters": parameters})
        retriever._is_from_dict = True
        return retriever

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
        :param filters: Haystack filters on the documents' meta; only documents that match are returned. The component's
            `filter_policy` says whether they replace the component's filters or are merged with them.
        :param top_k: The maximum number of documents to return; may be 0. By default, the component's `top_k`.
        :param scale_score: Whether to map the scores to the interval from 0.5 to 1. By default, the component's
            `scale_score`.
        :returns: `documents`: copies with their scores, best first, without those that share no word with the query.
            In the meta of each, `bm25_score` is the score before scaling, `bm25_rank` the rank, from 1, and
            `bm25_language` the language of the store's stemmer, or `None`.
        :raises ValueError: The query is empty, or `top_k` is negative.
        :raises FilterError: `filters` are invalid.
        :raises InputError: The store's folder contains something else, or is damaged; or the store is empty and the
            component was loaded from YAML.
        """
        top_k = self.top_k if top_k is None else top_k
        if top_k < 0:
            raise ValueError(f"top_k must be greater than or equal to 0, but got {top_k}")
        scale_score = self.scale_score if scale_score is None else scale_score
        filters = apply_filter_policy(self.filter_policy, self.filters, filters)
        documents = self.document_store.bm25_retrieval(query, filters, top_k, scale_score)
        # A program may query before it writes, but the user of a served pipeline cannot see that its store is empty.
        if not documents and self._is_from_dict and not self.document_store.count_documents():
            raise InputError(
                "BM25SRetriever: expected documents in the store, found none. In the pipeline's file, give the "
                "document_store a path, and run `ap-ranker index FAQ.csv --pipeline FILE`; or serve the pipeline with "
                "`ap-ranker serve --pipeline FILE --documents FAQ.csv`."
            )
        if (span := tracing.tracer.current_span()) is not None:
            span.set_tags({"ap_ranker.top_k": top_k, "ap_ranker.found": len(documents)})
        return {"documents": documents}

    run_async = in_thread(run)
    """As `run`, in a thread, so that the event loop stays free."""
