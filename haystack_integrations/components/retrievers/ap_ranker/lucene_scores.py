"""Conversion of Elasticsearch's scores to the scale of Lucene's BM25, to which training fits `fuse_scores`."""

from __future__ import annotations

from dataclasses import replace

from haystack import Document, component

from ap_ranker.ranking.bm25 import BM25_RANK, BM25_SCORE, K1, check_parameters


@component
class LuceneScores:
    """Converts scores between `ElasticsearchBM25Retriever` and a ranker with `fuse_scores: true`.

    Elasticsearch 8 multiplies each word's share of the score by k1 + 1, as Lucene did before its version 8
    (`LegacyBM25Similarity`). The order is the same, but in a sum of scores BM25 would count 2.2 times as much.

    It stands before a joiner, which changes the scores.
    """

    def __init__(self, k1: float = K1) -> None:
        """Create the component for an index of which the settings of the BM25 similarity have this `k1`."""
        check_parameters(k1)
        self.k1 = k1

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Divide the documents' scores by k1 + 1.

        :param documents: The results of `ElasticsearchBM25Retriever`, best first.
        :returns: `documents`: copies in the same order. `meta["bm25_score"]` of each is its score, which a ranker with
            `fuse_scores` reads, and `meta["bm25_rank"]` its rank, from 1. A document without a score, or with a
            `bm25_score` already, is unchanged.
        """
        return {"documents": [with_lucene_score(one, self.k1, rank) for rank, one in enumerate(documents, start=1)]}


def with_lucene_score(document: Document, k1: float, rank: int | None = None) -> Document:
    """A copy of a document with Elasticsearch's score as Lucene's, in its meta, too; unchanged as said by `run`."""
    if document.score is None or document.meta.get(BM25_SCORE) is not None:
        return document
    score = document.score / (k1 + 1)
    return replace(document, score=score, meta={**document.meta, BM25_SCORE: score, BM25_RANK: rank})
