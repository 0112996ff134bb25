# SPDX-License-Identifier: Apache-2.0
"""The earlier name of `BM25Scores` without a retriever: pipelines in YAML name this module."""

from __future__ import annotations

from haystack import Document, component

from ap_ranker.ranking.bm25 import K1, check_parameters
from haystack_integrations.common.ap_ranker.component import Composed
from haystack_integrations.common.ap_ranker.query_data import check_documents, check_query, query_key
from haystack_integrations.components.retrievers.ap_ranker.bm25_scores import converted_scores


@component
class LuceneScores(Composed):
    """
    Converts the scores of `ElasticsearchBM25Retriever`, as `BM25Scores` without a retriever does: use that.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.components.retrievers.ap_ranker import LuceneScores

    found = [Document(content="Open the tracking link of your parcel.", score=2.2)]  # by ElasticsearchBM25Retriever
    print(LuceneScores().run(documents=found, query="Where is my parcel?")["documents"])
    ```
    """

    parameters = ("k1",)
    uses = ()

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
        :returns: `documents`: as of `BM25Scores`.
        :raises InputError: `query` is no text, or `documents` are no list of documents.
        """
        check_documents(documents)
        if query is None:
            return {"documents": converted_scores(documents, None, self.k1)}
        check_query(query)
        return {"documents": converted_scores(documents, query_key(query), self.k1)}
