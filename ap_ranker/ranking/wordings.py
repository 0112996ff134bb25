"""Scores an entry by its best known wording beside its answer.

    w(q, e) = max(cos(q, answer), max_i cos(q, wording_i))      vectors of whole texts
    s'(q, e) = (s(q, e) + v w(q, e)) / (1 + v)

An entry without wordings has w = cos(q, answer), so that it loses nothing beside entries with many. v is fitted on the
dev questions (`evaluation/fusion.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ap_ranker.ranking.vectors import RoundedVectors

WORDINGS, MATCHED = "wordings", "matched_wording"
"""Meta fields of a document: its further wordings and, once it is ranked, the one that the query was found by."""

DEFAULT_WEIGHT = 0.3
"""v where nothing shows which is best, because the training data has one question for each answer: on the example FAQ's
dev questions all v from 0.2 to 0.5 were about as good."""

LARGEST_TABLE = 100_000
"""Maximum number of vectors kept; then all are dropped. 384 numbers each are 39 MB."""


@dataclass(frozen=True)
class BestWordings:
    """The best wording of each of N entries for one question.

    Attributes:
        cosines: (N,) its cosine; -1 for an entry without wordings.
        texts: the wording; `None` for an entry without any.
    """

    cosines: NDArray[np.float32]
    texts: list[str | None]


class WordingVectors:
    """The vectors of wordings in int8, each text encoded once. Threads may share them.

    Args:
        encode: (B, C) vectors of B texts as questions, of length 1.
    """

    def __init__(self, encode: Callable[[Sequence[str]], Tensor]) -> None:
        self._encode = encode
        self._table = RoundedVectors.of(np.empty((0, 0)))
        self._rows: dict[str, int] = {}
        self._rows_of: dict[tuple[str, ...], NDArray[np.int64]] = {}  # of all wordings of an entry
        self._lock = threading.Lock()

    def best(self, question: NDArray[np.float32], wordings: Sequence[Sequence[str]]) -> BestWordings:
        """Find each entry's wording that is most like the question.

        Args:
            question: (C,) the question's vector, of length 1.
            wordings: the wordings of N entries.
        """
        cosines = np.full(len(wordings), -1.0, dtype=np.float32)
        texts: list[str | None] = [None] * len(wordings)
        entries = [entry for entry, each in enumerate(wordings) if each]
        if entries:
            table, rows = self._find([tuple(wordings[entry]) for entry in entries])
            scores = table.cosines(np.concatenate(rows), question)
            ends = np.cumsum([len(each) for each in rows])
            for entry, start, end in zip(entries, [0, *ends.tolist()], ends.tolist(), strict=False):
                best = int(scores[start:end].argmax())
                cosines[entry], texts[entry] = scores[start + best], wordings[entry][best]
        return BestWordings(cosines, texts)

    def nbytes(self, texts: Iterable[str]) -> int:
        """Bytes of the vectors of these texts, which are encoded if they are new."""
        table, (rows,) = self._find([tuple(dict.fromkeys(texts))])
        return len(rows) * table.bytes_each

    def _find(self, wordings: Sequence[tuple[str, ...]]) -> tuple[RoundedVectors, list[NDArray[np.int64]]]:
        """All vectors, and the rows of these texts among them."""
        with self._lock:
            if not all(each in self._rows_of for each in wordings):
                self._add(dict.fromkeys(text for each in wordings for text in each))
                for each in wordings:
                    self._rows_of[each] = np.array([self._rows[text] for text in each], dtype=np.int64)
            return self._table, [self._rows_of[each] for each in wordings]

    def _add(self, texts: Iterable[str]) -> None:
        needed = list(texts)
        new = [text for text in needed if text not in self._rows]
        if max(len(self._rows) + len(new), len(self._rows_of)) > LARGEST_TABLE:
            self._rows, self._rows_of, new = {}, {}, needed
        if new:
            new.sort(key=len)  # texts of similar length need little padding
            encoded = RoundedVectors.of(self._encode(new).numpy())
            self._table = self._table.extended(encoded) if self._rows else encoded
            self._rows |= {text: row for row, text in enumerate(new, start=len(self._rows))}


Scores = TypeVar("Scores", Tensor, NDArray[np.float64])


def add_wordings(scores: Scores, cosines: Scores, weight: float) -> Scores:
    """s', as above, from the (N,) scores of the model and w."""
    return (scores + weight * cosines) / (1 + weight)
