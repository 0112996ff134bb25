"""The legs of a query, by words, by meaning and by known wordings: which documents each finds, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from haystack import Document
from haystack.utils.filters import document_matches_filter

from ap_ranker.ranking.bm25 import BM25, best_rows
from ap_ranker.ranking.int8_vectors import Vectors
from ap_ranker.ranking.wordings import WordingIndex
from haystack_integrations.document_stores.ap_ranker.documents import Documents, EmbeddingSizeError, Index

_BATCH = 256
"""Documents fetched at once."""


@dataclass(frozen=True)
class Leg:
    """The scores of N documents for one query.

    Attributes:
        rows: (N,) the rows of the documents, ascending.
        scores: (N,) their scores.
        by_words: whether a score of 0 means that there is nothing in common, so that the document is not found.
    """

    rows: np.ndarray
    scores: np.ndarray
    by_words: bool = False

    @classmethod
    def bm25(cls, index: Index[BM25], queries: Sequence[str]) -> Leg:
        """By words: each document's highest BM25 score with a form of the query."""
        scores = np.maximum.reduce([index.scorer.scores(query) for query in queries])
        return cls(index.rows, scores, by_words=True)

    @classmethod
    def dense(cls, index: Index[Vectors], query: np.ndarray) -> Leg:
        """By meaning: cosines.

        :raises EmbeddingSizeError: The query has not as many numbers as the documents have.
        """
        if index.scorer.is_empty:
            return cls(index.rows, np.zeros(0, np.float32))
        if len(query) != index.scorer.size:
            raise EmbeddingSizeError(
                f"Expected a query embedding of {index.scorer.size} numbers, as the documents' are, found one of "
                f"{len(query)}. Embed the query with the model that embedded the documents."
            )
        return cls(index.rows, index.scorer.scores(query))

    @classmethod
    def wordings(cls, index: WordingIndex, query: np.ndarray) -> Leg:
        """By the best known wording of each document: cosines."""
        return cls(index.rows, index.scores(query))

    def within(self, rows: np.ndarray) -> Leg:
        """The leg of those documents whose rows are among these."""
        known = np.isin(self.rows, rows)
        return Leg(self.rows[known], self.scores[known], self.by_words)

    def best(self, limit: int | None) -> list[int]:
        """At most `limit` rows, the highest score first; ties are in the order of writing."""
        order = best_rows(self.scores, limit, above=0 if self.by_words else -inf)
        rows: list[int] = self.rows[order].tolist()
        return rows

    def scores_of(self, rows: Sequence[int]) -> list[Any]:
        """The scores of some rows; of a row that the leg lacks 0 if it is one of words, and otherwise `None`."""
        places = np.searchsorted(self.rows, rows).tolist()
        absent = 0.0 if self.by_words else None
        return [
            float(self.scores[place]) if place < len(self.scores) and self.rows[place] == row else absent
            for row, place in zip(rows, places, strict=True)
        ]


class Candidates:
    """The documents that a query has fetched, each once, and which of them match its filters.

    Attributes:
        documents: the fetched documents by row.
    """

    def __init__(self, stored: Documents, filters: dict[str, Any] | None, *, embedding: bool = False) -> None:
        self.documents: dict[int, Document] = {}
        self._stored = stored
        self._filters = filters
        self._embedding = embedding or compares_embeddings(filters)

    def best(self, leg: Leg, top_k: int) -> list[int]:
        """The first `top_k` rows of a leg whose documents match."""
        return self.matching(leg.best(None if self._filters else top_k), top_k, content=leg.by_words)

    def matching(self, rows: Sequence[int], limit: int | None = None, *, content: bool = False) -> list[int]:
        """The first of the rows whose documents match, in the same order."""
        matching: list[int] = []
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            new = [row for row in batch if row not in self.documents]
            fetched = self._stored.fetch(new, content=content, embedding=self._embedding)
            self.documents.update(zip(new, fetched, strict=True))
            matching += [row for row in batch if self._matches(self.documents[row])]
            if limit is not None and len(matching) >= limit:
                break
        return matching[:limit]

    def _matches(self, document: Document) -> bool:
        return not self._filters or document_matches_filter(self._filters, document)


def compares_embeddings(filters: object) -> bool:
    """Whether filters may ask for embeddings, which are read only then; what they are is checked when they are used."""
    return "'embedding'" in repr(filters)
