"""Finds an entry by its known wordings: word for word, or by the cosine of the best one's vector (`rule.py`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import is_
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ap_ranker.ranking.int8_vectors import Vectors
from ap_ranker.text.keys import question_key

WORDINGS, MATCHED = "wordings", "matched_wording"
"""Meta fields of a document: its further wordings and, once it is ranked, the one that the query was found by."""

WORDING_RANK = "wording_rank"
"""Meta field of a document for its rank by the cosine of its best wording with the question, from 1."""

DEFAULT_WEIGHT = 0.3
"""The weight of wordings, v in `rule.py`, where nothing shows which is best, because the training data has one question
for each answer: on the example FAQ's dev questions all v from 0.2 to 0.5 were about as good."""

LARGEST_TABLE = 1_000_000
"""Number of vectors from which on they begin anew, with those that are needed. 384 numbers each are 388 MB."""

Encode = Callable[[Sequence[str]], Tensor]
"""B texts -> (B, C) their vectors as questions, of length 1."""


@lru_cache(maxsize=50_000)  # every question is compared with the same wordings
def _keys(wordings: tuple[str, ...]) -> frozenset[str]:
    return frozenset(filter(None, map(question_key, wordings)))


def is_exact_match(question: str, wordings: Sequence[Iterable[str]]) -> list[bool]:
    """Whether a question is a known wording of each of N entries, whatever its case, white space, final punctuation."""
    asked = question_key(question)
    return [asked in _keys(tuple(texts)) for texts in wordings]


class WordingVectors:
    """The vectors of wordings in int8, each text encoded once. Threads and the components of a process may share them.

    `encode` is an argument of each call, so that these vectors do not keep a model alive that nobody uses any more.
    """

    def __init__(self) -> None:
        self._table = Vectors.of(np.empty((0, 0)))
        self._rows: dict[str, int] = {}
        self._lock = threading.Lock()
        self._last: tuple[Sequence[tuple[str, ...]], Any] = (), None  # lists of wordings, and their vectors together

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy begins without any: it encodes them itself."""
        return WordingVectors, ()

    def best(
        self, question: NDArray[np.float32], wordings: Sequence[tuple[str, ...]], encode: Encode
    ) -> tuple[NDArray[np.float32], list[str | None]]:
        """(N,) the cosine of a question (C,) with each entry's best wording, -1 without any; and that wording."""
        known, together = self._last  # often those of the question before: a small FAQ is compared as a whole
        if len(known) != len(wordings) or not all(map(is_, known, wordings)):
            together = self._joined(wordings, encode)
            self._last = wordings, together
        cosines = np.full(len(wordings), -1.0, dtype=np.float32)
        texts: list[str | None] = [None] * len(wordings)
        if together is not None:
            vectors, scales, entries, starts, of_entry = together
            scores = (vectors @ question) * scales
            cosines[entries] = best = np.maximum.reduceat(scores, starts)
            places = np.flatnonzero(scores == best[of_entry])
            _, first = np.unique(of_entry[places], return_index=True)
            for entry, place in zip(entries.tolist(), (places[first] - starts).tolist(), strict=True):
                texts[entry] = wordings[entry][place]
        return cosines, texts

    def _joined(self, wordings: Sequence[tuple[str, ...]], encode: Encode) -> tuple[NDArray[Any], ...] | None:
        """Of P wordings of E entries that have any: (P, C) vectors, (P,) scales, (E,) the entries, (E,) where those of
        each begin, (P,) the place among these of each one's entry."""
        entries = [entry for entry, each in enumerate(wordings) if each]
        if not entries:
            return None
        table, rows = self.find([text for entry in entries for text in wordings[entry]], encode)
        sizes = np.array([len(wordings[entry]) for entry in entries])
        vectors, scales = table.matrix[rows].astype(np.float32), table.scales[rows]
        return vectors, scales, np.array(entries), np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)

    def nbytes(self, texts: Iterable[str], encode: Encode) -> int:
        """Bytes of the vectors of these texts, which are encoded if they are new."""
        table, rows = self.find(list(dict.fromkeys(texts)), encode)
        return table.matrix[rows].nbytes + table.scales[rows].nbytes

    def find(self, texts: Sequence[str], encode: Encode) -> tuple[Vectors, NDArray[np.int64]]:
        """All vectors, and the (B,) rows of B texts among them; new texts are encoded."""
        with self._lock:
            if any(text not in self._rows for text in texts):
                self._add(dict.fromkeys(texts), encode)
            return self._table, np.array([self._rows[text] for text in texts], dtype=np.int64)

    def _add(self, texts: Iterable[str], encode: Encode) -> None:
        new = [text for text in texts if text not in self._rows]
        if len(self._rows) + len(new) > LARGEST_TABLE:
            self._rows, new = {}, list(texts)
        new.sort(key=len)  # texts of similar length need little padding
        encoded = Vectors.of(encode(new).numpy())
        self._table = self._table.extended(encoded) if self._rows else encoded
        self._rows |= {text: row for row, text in enumerate(new, start=len(self._rows))}


@dataclass(frozen=True)
class WordingIndex:
    """The wordings of many entries, to find the entries that a question is most like.

    `rows` (N,) are the numbers of the entries that have wordings, ascending; `wordings` (P,) the positions in `vectors`
    of those of the first entry, then of the second one ...; `starts` (N,) where those of each entry begin.
    """

    rows: NDArray[np.int64]
    vectors: Vectors
    wordings: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, known: Iterable[tuple[int, str]], vectors: WordingVectors, encode: Encode) -> Self:
        """Index pairs of an entry's number and a wording of it, in any order."""
        pairs = sorted(known, key=lambda pair: pair[0])
        table, wordings = vectors.find([text for _, text in pairs], encode)
        rows, starts = np.unique(np.array([row for row, _ in pairs], np.int64), return_index=True)
        return cls(rows, table, wordings, starts)

    def scores(self, question: NDArray[np.float32]) -> NDArray[np.float32]:
        """(N,) the cosine of each entry's best wording with a question (C,)."""
        if not len(self.rows):
            return np.zeros(0, np.float32)
        # All vectors are scanned: those of other entries are few, and to gather the others takes longer.
        best: NDArray[np.float32] = np.maximum.reduceat(self.vectors.scores(question)[self.wordings], self.starts)
        return best
