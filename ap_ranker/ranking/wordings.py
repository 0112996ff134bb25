"""Scores an entry by its best known wording beside its answer.

    w(q, e) = max(cos(q, answer), max_i cos(q, wording_i))      vectors of whole texts
    s'(q, e) = (s(q, e) + v w(q, e)) / (1 + v)

An entry without wordings has w = cos(q, answer), so that it loses nothing beside entries with many. v is fitted on the
dev questions (`evaluation/fusion.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

WORDINGS, MATCHED = "wordings", "matched_wording"
"""Meta fields of a document: its further wordings and, once it is ranked, the one that the query was found by."""

DEFAULT_WEIGHT = 0.3
"""v where nothing shows which is best, because the training data has one question for each answer: on the example FAQ's
dev questions all v from 0.2 to 0.5 were about as good."""

LARGEST_TABLE = 100_000
"""Maximum number of vectors kept; then all are dropped. 384 numbers each are 150 MB."""


class WordingVectors:
    """The vectors of wordings, each encoded once. Threads may share them.

    Args:
        encode: (B, C) vectors of B texts as questions, of length 1.
    """

    def __init__(self, encode: Callable[[Sequence[str]], Tensor]) -> None:
        self._encode = encode
        self._rows: dict[str, int] = {}
        self._table = np.empty((0, 0), dtype=np.float32)
        self._lock = threading.Lock()

    def of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, C) vectors of N texts."""
        with self._lock:
            new = [text for text in dict.fromkeys(texts) if text not in self._rows]
            if len(self._rows) + len(new) > LARGEST_TABLE:
                self._rows.clear()
                new = list(dict.fromkeys(texts))
            if new:
                new.sort(key=len)  # texts of similar length need little padding
                kept, vectors = self._table[: len(self._rows)], self._encode(new).numpy()
                self._table = np.concatenate([kept, vectors]) if len(kept) else vectors
                self._rows |= {text: row for row, text in enumerate(new, start=len(self._rows))}
            return self._table[[self._rows[text] for text in texts]]


@dataclass(frozen=True)
class BestWordings:
    """The best wording of each of N entries for one question.

    Attributes:
        cosines: (N,) its cosine; -1 for an entry without wordings.
        texts: the wording; `None` for an entry without any.
    """

    cosines: NDArray[np.float32]
    texts: list[str | None]


def best_wordings(
    question: NDArray[np.float32], wordings: Sequence[Sequence[str]], vectors: WordingVectors
) -> BestWordings:
    """Find each entry's wording that is most like the question.

    Args:
        question: (C,) the question's vector.
        wordings: the wordings of N entries.
        vectors: of the wordings.
    """
    cosines = np.full(len(wordings), -1.0, dtype=np.float32)
    texts: list[str | None] = [None] * len(wordings)
    flat = [text for each in wordings for text in each]
    if flat:
        scores = vectors.of(flat) @ question
        end = 0
        for entry, each in enumerate(wordings):
            start, end = end, end + len(each)
            if each:
                best = start + int(scores[start:end].argmax())
                cosines[entry], texts[entry] = scores[best], flat[best]
    return BestWordings(cosines, texts)


Scores = TypeVar("Scores", Tensor, NDArray[np.float64])


def add_wordings(scores: Scores, cosines: Scores, weight: float) -> Scores:
    """s', as above, from the (N,) scores of the model and w."""
    return (scores + weight * cosines) / (1 + weight)
