# SPDX-License-Identifier: Apache-2.0
"""Conversion of Elasticsearch's scores to the scale of Lucene's BM25, to which training fits `fuse_scores`."""

from __future__ import annotations

from haystack import Document, component

from ap_ranker.ranking.bm25 import BM25_RANK, BM25_SCORE, K1, check_parameters
from haystack_integrations.common.ap_ranker.component import CopiedByParameters
from haystack_integrations.common.ap_ranker.query_data import (
    check_documents,
    check_query,
    query_data,
    query_key,
    with_query_data,
)


@component
class LuceneScores(CopiedByParameters):
    """
    Converts scores between `ElasticsearchBM25Retriever` and a ranker with `fuse_scores: true`.

    Elasticsearch 8 multiplies each word's share of the score by k1 + 1, as Lucene did before its version 8
    (`LegacyBM25Similarity`). The order is the same, but in a sum of scores BM25 would count 2.2 times as much.

    It stands before a joiner, which changes the scores.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.components.retrievers.ap_ranker import LuceneScores

    found = [Document(content="Open the tracking link of your parcel.", score=2.2)]  # by ElasticsearchBM25Retriever
    print(LuceneScores().run(documents=found, query="Where is my parcel?")["documents"])
    ```
    """

    parameters = ("k1",)

    def __init__(self, k1: float = K1) -> None:
        """
        Create the component.

        :param k1: The k1 in the settings of the index's BM25 similarity.
        :raises InputError: It is out of range.
        """
        check_parameters(k1)
        self.k1 = k1

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document], query: str | None = None) -> dict[str, list[Document]]:
        """
        Divide the documents' scores by k1 + 1.

        :param documents: The results of `ElasticsearchBM25Retriever`, best first.
        :param query: The question of the user. Without it, a ranker takes the scores for those of any query, so that
            such documents must not be written back into a store.
        :returns: `documents`: copies in the same order. In `meta["ap_ranker"]` of each, `bm25_score` is its score,
            which a ranker with `fuse_scores` reads, and `bm25_rank` its rank, from 1. A document without a score, or
            with a `bm25_score` of this query already, is unchanged.
        :raises InputError: `query` is no text, or `documents` are no list of documents.
        """
        check_documents(documents)
        if query is not None:
            check_query(query)
        key = None if query is None else query_key(query)
        ranked = enumerate(documents, start=1)
        return {"documents": [with_lucene_score(document, self.k1, key, rank) for rank, document in ranked]}


def with_lucene_score(document: Document, k1: float, key: str | None, rank: int | None = None) -> Document:
    """A copy of a document with Elasticsearch's score as Lucene's, in its meta, too; unchanged as said by `run`."""
    if document.score is None or query_data(document, key).get(BM25_SCORE) is not None:
        return document
    score = document.score / (k1 + 1)
    return with_query_data(document, key, {BM25_SCORE: score, BM25_RANK: rank}, score)
