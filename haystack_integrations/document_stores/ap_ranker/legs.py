"""The legs of a query, by words, by meaning and by known wordings: what each finds, and the union of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
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
    copy_of,
)

_BATCH = 256  # documents fetched at once


@dataclass(frozen=True)
class Leg:
    """The (N,) scores of N documents for one query, and their (N,) rows, ascending.

    In the meta of a document, `rank_field` is its rank, from 1, among those that the leg finds, `score_field` its score
    there; the fields of `meta` are those of all. Only what has a higher score than `nothing` is found, which is also
    the score of a document that the leg does not know.
    """

    rows: np.ndarray
    scores: np.ndarray
    rank_field: str = WORDING_RANK
    score_field: str | None = None
    nothing: float | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def bm25(cls, index: Index[BM25], queries: Sequence[str]) -> Leg:
        """By words: each document's highest BM25 score with a form of the query; 0 is nothing in common."""
        scores = np.maximum.reduce([index.scorer.scores(query) for query in queries])
        return cls(index.rows, scores, BM25_RANK, BM25_SCORE, 0.0, {BM25_LANGUAGE: index.scorer.language})

    @classmethod
    def dense(cls, index: Index[Vectors], query: np.ndarray) -> Leg:
        """By meaning: cosines; an `EmbeddingSizeError` if the query has not as many numbers as the documents have."""
        if index.scorer.is_empty:
            return cls(index.rows, np.zeros(0, np.float32), EMBEDDING_RANK, EMBEDDING_SCORE)
        if len(query) != (size := index.scorer.matrix.shape[1]):
            raise EmbeddingSizeError(
                f"Expected a query embedding of {size} numbers, as the documents' are, found one of {len(query)}. "
                "Embed the query with the model that embedded the documents."
            )
        return cls(index.rows, index.scorer.scores(query), EMBEDDING_RANK, EMBEDDING_SCORE)

    def best(self, limit: int | None) -> list[int]:
        """At most `limit` rows, the highest score first; ties are in the order of writing."""
        above = -inf if self.nothing is None else self.nothing
        rows: list[int] = self.rows[best_rows(self.scores, limit, above=above)].tolist()
        return rows

    def scores_of(self, rows: Sequence[int]) -> list[float | None]:
        """The scores of some rows."""
        places = np.searchsorted(self.rows, rows).tolist()
        return [
            float(self.scores[place]) if place < len(self.scores) and self.rows[place] == row else self.nothing
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
    scale: Callable[[float], float] = float,
    embedding: bool = False,
) -> list[Document]:
    """Copies of the documents that any of the legs finds, at most `top_k` each; if `rank_all` or fewer, all documents.

    The first leg gives documents their score, after `scale`, which is `None` for those that it does not know; these
    come last. `wordings` are a further leg, older than this query: only documents that the others know count.
    """
    if wordings is not None:
        known = np.isin(wordings.rows, np.concatenate([leg.rows for leg in legs]))
        legs = [*legs, replace(wordings, rows=wordings.rows[known], scores=wordings.scores[known])]
    found: dict[int, Document] = {}
    read_embeddings = embedding or asks_for_embeddings(filters)

    def first(rows: Sequence[int], limit: int) -> list[int]:
        return list(islice(_matching(rows, stored, filters, found, read_embeddings), limit))

    best = [first(leg.best(None if filters else top_k), top_k) for leg in legs]
    rows = sorted(set().union(*best))
    if max(len(leg.rows) for leg in legs) <= rank_all:
        everything = sorted(set().union(*(leg.rows.tolist() for leg in legs)))
        rows = first(everything, rank_all) if len(everything) <= rank_all else rows
    meta: dict[str, Any] = {}
    columns: dict[str, list[Any]] = {}
    for leg, ranked in zip(legs, best, strict=True):
        ranks = {row: rank for rank, row in enumerate(ranked, start=1)}
        columns[leg.rank_field] = [ranks.get(row) for row in rows]
        if leg.score_field:
            columns[leg.score_field] = leg.scores_of(rows)
        meta |= leg.meta
    scores = legs[0].scores_of(rows)
    copies = []
    for row, score, *values in zip(rows, scores, *columns.values(), strict=True):
        document = found[row]
        copies.append(
            copy_of(
                document,
                meta | dict(zip(columns, values, strict=True)),
                score=None if score is None else scale(score),
                embedding=document.embedding if embedding else None,
            )
        )
    keys = [-inf if score is None else score for score in scores]
    return [copies[place] for place in sorted(range(len(rows)), key=keys.__getitem__, reverse=True)]


def _matching(
    rows: Sequence[int], stored: Documents, filters: dict[str, Any] | None, found: dict[int, Document], embeddings: bool
) -> Iterator[int]:
    """Those of the rows whose documents match; a batch at a time, these are read into `found`."""
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        new = stored.fetch([row for row in batch if row not in found])
        found |= stored.with_embeddings(new) if embeddings else new
        for row in batch:
            if row not in found:
                raise InputError(f"{stored.place}: damaged: there is no document of row {row} of the index.")
            if not filters or document_matches_filter(filters, found[row]):
                yield row
