# SPDX-License-Identifier: Apache-2.0
"""BM25's scores of documents that other retrievers found. It is here because Haystack loads YAML only from there."""

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


@component
class BM25Scores(Composed):
    """
    Adds BM25's scores to documents that other retrievers found, for a ranker with `fuse_scores: true`.

    Behind `ElasticsearchBM25Retriever`, and before a joiner, which changes the scores, it needs no `retriever`: it
    converts the scores that are there. Elasticsearch 8 multiplies each word's share of the score by k1 + 1, as Lucene
    did before its version 8 (`LegacyBM25Similarity`). The order is the same, but in a sum of scores BM25 would count
    2.2 times as much.

    Behind an embedding retriever, or a joiner, it asks a keyword `retriever` for the scores that are missing, by a
    filter on the ids of these documents, which leaves the scores as they are.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.components.retrievers.ap_ranker import BM25Scores, BM25SRetriever
    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

    found = [Document(content="Open the tracking link of your parcel.", score=2.2)]  # by ElasticsearchBM25Retriever
    print(BM25Scores().run(query="Where is my parcel?", documents=found)["documents"])

    store = BM25SDocumentStore()
    store.write_documents([Document(content="Open the tracking link of your parcel.")])
    scores = BM25Scores(BM25SRetriever(store))  # or ElasticsearchBM25Retriever(document_store=store, fuzziness="0")
    print(scores.run(query="Where is my parcel?", documents=store.filter_documents())["documents"])
    ```
    """

    parameters = ("retriever", "k1")
    uses = ("retriever",)

    def __init__(self, retriever: SkipValidation[TextRetriever] | None = None, k1: float = K1) -> None:
        """
        Create the component.

        :param retriever: The keyword retriever, with the settings of the one in the pipeline. `None` converts the
            scores of the documents, which are those of `ElasticsearchBM25Retriever`.
        :param k1: The k1 in the settings of the index's BM25 similarity; 0 takes the scores as they are, for a server
            that does not multiply them, such as OpenSearch since 3.0.
        :raises InputError: `retriever` has no `run`, or `k1` is out of range.
        """
        check_parameters(k1)
        if retriever is not None and not callable(getattr(retriever, "run", None)):
            raise InputError(f"BM25Scores: expected a keyword retriever, found {type(retriever).__name__}.")
        self.retriever = retriever
        self.k1 = k1

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        """
        Add the missing scores.

        :param query: The question of the user, as the keyword retriever gets it.
        :param documents: The candidates of all retrievers; without a `retriever`, the best first.
        :returns: `documents`: in the same order. Those that have `bm25_score` of this query in `meta["ap_ranker"]` are
            unchanged. Copies of the others have it: 0 if the document shares no word with the query. Their `bm25_rank`
            is `None`. Without a `retriever`, the converted score is that of the copy, too, `bm25_rank` is the rank,
            from 1, and documents without a score are unchanged.
        :raises InputError: `query` is no text, or `documents` are no list of documents.
        """
        check_query(query)
        check_documents(documents)
        key = query_key(query)
        if self.retriever is None:
            return {"documents": converted_scores(documents, key, self.k1)}
        without_score: set[str] = set()
        for document in documents:
            if query_data(document, key).get(BM25_SCORE) is None:
                without_score.add(document.id)
        if not without_score:
            return {"documents": documents}
        filters = {"field": "id", "operator": "in", "value": sorted(without_score)}
        scored = self.retriever.run(query=query, filters=filters, top_k=len(without_score))["documents"]
        scores: dict[str, float | None] = {}
        for document in converted_scores(scored, key, self.k1):
            scores[document.id] = query_data(document, key).get(BM25_SCORE)
        completed: list[Document] = []
        for document in documents:
            if query_data(document, key).get(BM25_SCORE) is not None:
                completed.append(document)
                continue
            data = {BM25_SCORE: scores.get(document.id) or 0.0, BM25_RANK: None}
            completed.append(with_query_data(document, key, data, document.score))
        return {"documents": completed}


def converted_scores(documents: list[Document], key: str | None, k1: float) -> list[Document]:
    """Copies with Elasticsearch's scores as Lucene's; those without a score, or with BM25's, are unchanged."""
    converted: list[Document] = []
    for rank, document in enumerate(documents, start=1):
        if document.score is None or query_data(document, key).get(BM25_SCORE) is not None:
            converted.append(document)
            continue
        score = document.score / (k1 + 1)
        converted.append(with_query_data(document, key, {BM25_SCORE: score, BM25_RANK: rank}, score))
    return converted
