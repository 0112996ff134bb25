"""Conversion of Elasticsearch's scores to the scale of Lucene's BM25, to which training fits `fuse_scores`."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
from haystack import Document, component

from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import BM25_RANK, BM25_SCORE, K1

logger = logging.getLogger(__name__)

_K = 61
"""The constant of `DocumentJoiner`: a document at rank r of a list, from 0, gets 61 / (61 + r) from it."""

_CHECKED = 10
"""The highest scores are looked at."""


@component
class LuceneScores:
    """Converts scores between `ElasticsearchBM25Retriever` and a ranker with `fuse_scores: true`.

    Elasticsearch 8 multiplies each word's share of the score by k1 + 1, as Lucene did before its version 8
    (`LegacyBM25Similarity`). The order is the same, but in a sum of scores BM25 would count 2.2 times as much.

    It stands before a joiner. Scores of reciprocal rank fusion are recognised: they are left as they are, and a warning
    is logged once.
    """

    def __init__(self, k1: float = K1) -> None:
        """Create the component.

        :param k1: The k1 of the index's BM25 similarity: 1.2 unless its settings differ.
        :raises InputError: `k1` is out of range.
        """
        check_k1(k1)
        self.k1 = k1
        self._has_warned = False

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Divide the documents' scores by k1 + 1.

        :param documents: The results of `ElasticsearchBM25Retriever`, best first.
        :returns: `documents`: copies in the same order. `meta["bm25_score"]` of each is its score, which a ranker with
            `fuse_scores` reads, and `meta["bm25_rank"]` its rank, from 1. A document without a score, or with a
            `bm25_score` already, is unchanged; so are all if their scores are those of reciprocal rank fusion.
        """
        given = [one.score for one in documents if one.score is not None and one.meta.get(BM25_SCORE) is None]
        if _are_fused(given):
            self._warn(given)
            return {"documents": documents}
        return {"documents": [with_lucene_score(one, self.k1, rank) for rank, one in enumerate(documents, start=1)]}

    def _warn(self, scores: list[float]) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "LuceneScores: expected the scores of ElasticsearchBM25Retriever, found those of reciprocal rank "
                "fusion (%.6f, ...), which are not taken for BM25's. Connect LuceneScores between that retriever and "
                "the joiner, and BM25Scores behind the joiner. This warning is not repeated.",
                max(scores),
            )


def with_lucene_score(document: Document, k1: float, rank: int | None = None) -> Document:
    """A copy of a document with Elasticsearch's score as Lucene's, in its meta, too; unchanged as said by `run`."""
    if document.score is None or document.meta.get(BM25_SCORE) is not None:
        return document
    score = document.score / (k1 + 1)
    return replace(document, score=score, meta={**document.meta, BM25_SCORE: score, BM25_RANK: rank})


def check_k1(k1: float) -> None:
    """Check a k1.

    :raises InputError: It is out of range.
    """
    if not 0 <= k1 < float("inf"):
        raise InputError(f"Expected a k1 of 0 or more, found {k1}.")


def _are_fused(scores: list[float]) -> bool:
    """Whether the scores are those of reciprocal rank fusion of two or three lists of equal weight.

    Scores of BM25 may be below 1, too, but they are no sums of such fractions.
    """
    highest = sorted(set(scores), reverse=True)[:_CHECKED]
    if len(highest) < 2 or highest[0] > 1 or highest[-1] <= 0:  # one number alone may be anything
        return False
    return any(all(_is_sum(score * lists, lists) for score in highest) for lists in (2, 3))


def _is_sum(total: float, lists: int) -> bool:
    """Whether a number is a sum of 61 / (61 + r), each r a whole number, for at most as many lists."""
    shares = np.append(0, _K / (_K + np.arange(1000 if lists == 2 else 300)))
    rest = total - shares if lists == 2 else (total - shares[:, None] - shares).reshape(-1)
    ranks = _K / rest[rest > 1e-3] - _K
    return bool(((abs(ranks - ranks.round()) < 1e-9) & (ranks > -0.5)).any())
