"""What the retrievers of `BM25SDocumentStore` have in common."""

from __future__ import annotations

from typing import Any

from haystack import Document, tracing
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from ap_ranker.errors import InputError
from ap_ranker.threads import in_thread
from haystack_integrations.components.rankers.ap_ranker.checkpoint import BasicTypes
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore


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
        """The output of a run."""
        # A program may query before it writes, but the user of a served pipeline cannot see that its store is empty.
        if not documents and self._is_from_dict and not self.document_store.count_documents():
            raise InputError(
                f"Expected documents in the store ({self.document_store.path or 'in memory'}), found none. In the "
                "pipeline's file, give the document_store documents, or a path, which `ap-ranker index` fills."
            )
        if (span := tracing.tracer.current_span()) is not None:
            span.set_tags({"ap_ranker.top_k": top_k, "ap_ranker.found": len(documents)})
        return {"documents": documents}
