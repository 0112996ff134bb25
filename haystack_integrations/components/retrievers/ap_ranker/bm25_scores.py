# SPDX-License-Identifier: Apache-2.0
"""BM25's scores of documents that were found otherwise. It is here because Haystack loads YAML only from there."""

from __future__ import annotations

from haystack import Document, component
from haystack.components.retrievers.types import TextRetriever
from pydantic import SkipValidation

from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import BM25_RANK, BM25_SCORE, K1, check_parameters
from haystack_integrations.common.ap_ranker.component import Composed
from haystack_integrations.common.ap_ranker.query_data import (
    check_documents,
    check_query,
    query_data,
    query_key,
    with_query_data,
)
from haystack_integrations.components.retrievers.ap_ranker.lucene_scores import with_lucene_score


@component
class BM25Scores(Composed):
    """
    Adds BM25's scores to documents that an embedding retriever found, for a ranker with `fuse_scores: true`.

    It asks the keyword retriever for the scores of just these documents, by a filter on their ids, which leaves the
    scores as they are. Elasticsearch's are converted as by `LuceneScores`.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.components.retrievers.ap_ranker import BM25Scores, BM25SRetriever
    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

    store = BM25SDocumentStore()
    store.write_documents([Document(content="Open the tracking link of your parcel.")])
    scores = BM25Scores(BM25SRetriever(store))  # or ElasticsearchBM25Retriever(document_store=store, fuzziness="0")
    print(scores.run(query="Where is my parcel?", documents=store.filter_documents())["documents"])
    ```
    """

    parameters = ("retriever", "k1")
    uses = ("retriever",)

    def __init__(self, retriever: SkipValidation[TextRetriever], k1: float = K1) -> None:
        """
        Create the component.

        :param retriever: The keyword retriever, with the settings of the one in the pipeline.
        :param k1: The k1 of the index's BM25 similarity, as of `LuceneScores`.
        :raises InputError: `retriever` has no `run`, or `k1` is out of range.
        """
        check_parameters(k1)
        if not callable(getattr(retriever, "run", None)):
            raise InputError(f"BM25Scores: expected a keyword retriever, found {type(retriever).__name__}.")
        self.retriever = retriever
        self.k1 = k1

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        """
        Add the missing scores.

        :param query: The question of the user, as the keyword retriever gets it.
        :param documents: The candidates of all retrievers.
        :returns: `documents`: in the same order. Those that have `bm25_score` of this query in `meta["ap_ranker"]` are
            unchanged. Copies of the others have it: 0 if the document shares no word with the query. Their `bm25_rank`
            is `None`.
        :raises InputError: `query` is no text, or `documents` are no list of documents.
        """
        check_query(query)
        check_documents(documents)
        key = query_key(query)
        without_score: set[str] = set()
        for document in documents:
            if query_data(document, key).get(BM25_SCORE) is None:
                without_score.add(document.id)
        if not without_score:
            return {"documents": documents}
        filters = {"field": "id", "operator": "in", "value": sorted(without_score)}
        scored = self.retriever.run(query=query, filters=filters, top_k=len(without_score))["documents"]
        scores: dict[str, float | None] = {}
        for document in scored:
            with_score = with_lucene_score(document, self.k1, key)
            scores[document.id] = query_data(with_score, key).get(BM25_SCORE)

        def completed(document: Document) -> Document:
            if query_data(document, key).get(BM25_SCORE) is not None:
                return document
            return with_query_data(
                document, key, {BM25_SCORE: scores.get(document.id) or 0.0, BM25_RANK: None}, document.score
            )

        return {"documents": list(map(completed, documents))}
