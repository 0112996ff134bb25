"""The legs of a query, by words, by meaning and by known wordings: what each finds, and the union of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
from haystack import Document
from haystack.utils.filters import document_matches_filter

from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import BM25, BM25_LANGUAGE, BM25_RANK, BM25_SCORE, best_rows
from ap_ranker.ranking.int8_vectors import EMBEDDING_RANK, EMBEDDING_SCORE, Vectors
from ap_ranker.ranking.wordings import WORDING_RANK
from haystack_integrations.document_stores.ap_ranker.documents import (
    Documents,
    EmbeddingSizeError,
    Index,
    asks_for_embeddings,
    copied,
)

_BATCH = 256  # documents fetched at once


@dataclass(frozen=True)
class Leg:
    """The scores of N documents for one query.

    Attributes:
        rows: (N,) the rows of the documents, ascending.
        scores: (N,) their scores.
        rank_field: the meta field of a document for its rank, from 1, among those that the leg finds.
        score_field: the meta field for its score; `None` writes none.
        above: only documents with a higher score are found.
        absent: the score of a document that the leg does not know.
        meta: further fields for the meta of all documents.
    """

    rows: np.ndarray
    scores: np.ndarray
    rank_field: str = WORDING_RANK
    score_field: str | None = None
    above: float = -inf
    absent: float | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def bm25(cls, index: Index[BM25], queries: Sequence[str]) -> Leg:
        """By words: each document's highest BM25 score with a form of the query; 0 is nothing in common."""
        scores = np.maximum.reduce([index.scorer.scores(query) for query in queries])
        return cls(index.rows, scores, BM25_RANK, BM25_SCORE, 0.0, 0.0, {BM25_LANGUAGE: index.scorer.language})

    @classmethod
    def dense(cls, index: Index[Vectors], query: np.ndarray) -> Leg:
        """By meaning: cosines.

        :raises EmbeddingSizeError: The query has not as many numbers as the documents have.
        """
        size = index.scorer.matrix.shape[1]
        if not index.scorer.is_empty and len(query) != size:
            raise EmbeddingSizeError(
                f"Expected a query embedding of {size} numbers, as the documents' are, found one of "
                f"{len(query)}. Embed the query with the model that embedded the documents."
            )
        scores = np.zeros(0, np.float32) if index.scorer.is_empty else index.scorer.scores(query)
        return cls(index.rows, scores, EMBEDDING_RANK, EMBEDDING_SCORE)

    def best(self, limit: int | None) -> list[int]:
        """At most `limit` rows, the highest score first; ties are in the order of writing."""
        rows: list[int] = self.rows[best_rows(self.scores, limit, above=self.above)].tolist()
        return rows

    def scores_of(self, rows: Sequence[int]) -> list[float | None]:
        """The scores of some rows."""
        places = np.searchsorted(self.rows, rows).tolist()
        return [
            float(self.scores[place]) if place < len(self.scores) and self.rows[place] == row else self.absent
            for row, place in zip(rows, places, strict=True)
        ]


def find(
    stored: Documents,
    legs: Sequence[Leg],
    filters: dict[str, Any] | None,
    top_k: int,
    *,
    wordings: Leg | None = None,
    rank_all: int = 0,
    scale: Callable[[float], float] = lambda score: score,
    embedding: bool = False,
) -> list[Document]:
    """Copies of the documents that any of the legs finds, the highest score of the first leg first.

    :param stored: The documents.
    :param legs: The first gives documents their score, and `None` to those that it does not know, which come last.
    :param filters: Only documents that match are returned.
    :param top_k: The maximum number of documents of each leg.
    :param wordings: A further leg. It is older than this query: only documents that the others know count.
    :param rank_all: At most so many documents are all found.
    :param scale: What becomes of the score, but not of that in the meta.
    :param embedding: Whether the copies have their embeddings.
    """
    if wordings is not None:
        known = np.isin(wordings.rows, np.concatenate([leg.rows for leg in legs]))
        legs = [*legs, replace(wordings, rows=wordings.rows[known], scores=wordings.scores[known])]
    candidates = _Candidates(stored, filters, embedding=embedding)
    best = [candidates.first(leg.best(None if filters else top_k), top_k) for leg in legs]
    rows = sorted(set().union(*best))
    if max(len(leg.rows) for leg in legs) <= rank_all:
        everything = sorted(set().union(*(leg.rows.tolist() for leg in legs)))
        rows = candidates.first(everything, rank_all) if len(everything) <= rank_all else rows
    metas: list[dict[str, Any]] = [{} for _ in rows]
    for leg, first in zip(legs, best, strict=True):
        ranks = {row: rank for rank, row in enumerate(first, start=1)}
        for meta, row, score in zip(metas, rows, leg.scores_of(rows), strict=True):
            meta.update(leg.meta, **{leg.rank_field: ranks.get(row)})
            if leg.score_field:
                meta[leg.score_field] = score
    scores = legs[0].scores_of(rows)
    found = []
    for place in sorted(range(len(rows)), key=lambda row: (scores[row] is not None, scores[row]), reverse=True):
        document, score = candidates.documents[rows[place]], scores[place]
        one = copy(document)  # `replace` would check its fields again: for a hundred documents, as long as BM25 takes
        vars(one).update(
            meta=copied(document.meta) | metas[place],
            score=None if score is None else scale(score),
            embedding=document.embedding if embedding else None,
        )
        found.append(one)
    return found


class _Candidates:
    """The documents that a query has fetched, each once, by row."""

    def __init__(self, stored: Documents, filters: dict[str, Any] | None, *, embedding: bool) -> None:
        self.documents: dict[int, Document] = {}
        self._stored = stored
        self._filters = filters
        self._embedding = embedding or asks_for_embeddings(filters)

    def first(self, rows: Sequence[int], limit: int) -> list[int]:
        """The first of the rows whose documents match, in the same order."""
        matching: list[int] = []
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            new = [row for row in batch if row not in self.documents]
            fetched = self._stored.fetch(new)
            if len(fetched) < len(new):
                missing = min(set(new) - fetched.keys())
                raise InputError(f"{self._stored.place}: damaged: there is no document of row {missing} of the index.")
            self.documents |= self._stored.with_embeddings(fetched) if self._embedding else fetched
            filters, found = self._filters, self.documents
            matching += [row for row in batch if not filters or document_matches_filter(filters, found[row])]
            if len(matching) >= limit:
                break
        return matching[:limit]
