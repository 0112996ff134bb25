"""Vectors of whole texts in int8: a scan of all finds what means the same as a question, and entries by known wordings.

An entry is found by its wordings word for word, or by their cosines (`rule.py`).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import chain, islice
from math import inf, sqrt
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ap_ranker.data.wordings import NO_WORDINGS, EntryRows, Name, NamedRows, WordingFiles, Wordings
from ap_ranker.kept_results import Latest
from ap_ranker.models.private_operators import LARGEST, products_with
from ap_ranker.ranking.bm25 import best_rows
from ap_ranker.ranking.rule import SOFTNESS
from ap_ranker.text.question_keys import keys_of_questions, question_keys

EMBEDDING_SCORE = "embedding_score"
EMBEDDING_RANK = "embedding_rank"
"""Meta fields of a document for its cosine with the question, and for its rank by that, from 1."""

EMBEDDED_BY = "embedded_by"
"""Meta field of a document: what its embedding comes from, because vectors of two checkpoints cannot be compared."""

_DIGIT = 128
"""A query's numbers are whole numbers of two digits to this base, each of which fits into int8."""

_MOST_SCORES = 2**23
"""Scores of several queries that are computed at once: their products are 64 MB."""

_BLOCK = 1024
"""Vectors rounded at once: in float32 they fit into the cache of a core."""

_MATRIX = "vectors.npy"
_SCALES = "scales.npy"


@dataclass(frozen=True)
class Vectors:
    """N vectors of C numbers in int8, (N, C), the largest number of each as 127; and (N,) what makes their length 1."""

    matrix: np.ndarray
    scales: np.ndarray

    @classmethod
    def of(cls, vectors: Iterable[np.ndarray]) -> Vectors:
        """Round vectors of any length, all of the same size, read once and not kept."""
        remaining = iter(vectors)
        blocks = [np.zeros((0, 0), np.int8)]
        while block := list(islice(remaining, _BLOCK)):
            numbers = np.stack(block)
            largest = np.abs(numbers).max(axis=1, initial=0, keepdims=True).astype(np.float64)
            rounded = np.rint(numbers / np.where(largest, largest, 1) * LARGEST)
            blocks.append(rounded.astype(np.int8))
        matrix = np.concatenate(blocks[1:] or blocks)
        lengths = np.sqrt(np.einsum("nc,nc->n", matrix, matrix, dtype=np.int64))
        # Of the rounded vectors; one of zeros is like nothing.
        scales = np.divide(1, lengths, out=np.zeros(len(lengths)), where=lengths > 0).astype(np.float32)
        return cls(matrix, scales)

    @cached_property
    def _times(self) -> Callable[[Tensor], Tensor]:
        return products_with(self.matrix)

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to save."""
        return not len(self)

    def extended(self, others: Vectors) -> Vectors:
        """These vectors and then the others."""
        return Vectors(np.concatenate([self.matrix, others.matrix]), np.concatenate([self.scales, others.scales]))

    def scores(self, query: np.ndarray) -> np.ndarray:
        """(N,) cosines with a query (C,), from -1 to 1; 0 for a vector of zeros.

        The query is rounded, too, to whole numbers of 15 bits, and all is added up exactly: equal vectors have equal
        scores, wherever they stand. 27,413 vectors of 384 numbers take 0.2 ms.
        """
        [scores] = self.scores_of_each(query[None])
        return scores

    def scores_of_each(self, queries: np.ndarray) -> Iterator[np.ndarray]:
        """The scores, for each of B queries (B, C): the same as of it alone, in an eighth of the time."""
        at_once = max(1, _MOST_SCORES // max(1, len(self)))
        for start in range(0, len(queries), at_once):
            together = queries[start : start + at_once]
            largest = np.abs(together).max(axis=1, initial=0, keepdims=True)
            whole = np.rint(together / np.where(largest, largest, 1) * (LARGEST * _DIGIT))
            high = np.rint(whole / _DIGIT)
            digits = np.concatenate([high, whole - high * _DIGIT]).T.astype(np.int8, order="C")
            products = self._times(torch.from_numpy(digits)).numpy()
            for number, numbers in enumerate(whole):
                scores = products[:, number] * float(_DIGIT) + products[:, len(together) + number]
                yield (scores * self.scales / (sqrt(numbers @ numbers) or 1)).astype(np.float32)

    def save(self, folder: Path) -> None:
        """Write the vectors into a folder, as arrays."""
        np.save(folder / _MATRIX, self.matrix, allow_pickle=False)
        np.save(folder / _SCALES, self.scales, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> Vectors:
        """Map saved vectors into memory; an exception of almost any class if they cannot be read."""
        matrix = np.load(folder / _MATRIX, mmap_mode="c", allow_pickle=False)
        scales = np.load(folder / _SCALES, mmap_mode="c", allow_pickle=False)
        return cls(matrix, scales)


WORDINGS = "wordings"
MATCHED = "matched_wording"
"""Meta fields of a document: its further wordings and, once it is ranked, the one that the query was found by."""

WORDING_RANK = "wording_rank"
"""Meta field of a document for its rank by the cosine of its best wording with the question, from 1."""

DEFAULT_WEIGHT = 0.3
"""The weight of wordings, v in `rule.py`, where nothing shows which is best, because each answer has one question, or
there are too few: on the example FAQ's dev questions all v from 0.2 to 0.5 were about as good."""

LARGEST_TABLE = 1_000_000
"""Number of vectors from which on they begin anew, with those that are needed. 384 numbers each are 388 MB."""

Encode = Callable[[Sequence[str]], Tensor]
"""B texts -> (B, C) their vectors as questions, of length 1."""


@lru_cache(maxsize=50_000)  # every question is compared with the same wordings
def _keys(wordings: tuple[str, ...]) -> frozenset[str]:
    return keys_of_questions(wordings)


def is_exact_match(question: str, wordings: Sequence[Iterable[str]]) -> list[bool]:
    """Whether a question is a known wording of each of N entries, whatever its case, white space, final punctuation."""
    asked = question_keys(question)
    return [not _keys(tuple(texts)).isdisjoint(asked) for texts in wordings]


class WordingVectors:
    """The vectors of wordings in int8, each text encoded once. Threads and the components of a process may share them.

    `encode` is an argument of each call, so that these vectors do not keep a model alive that nobody uses any more.
    """

    def __init__(self) -> None:
        self._table = Vectors.of(np.empty((0, 0)))
        self._rows: dict[str, int] = {}
        self._lock = threading.Lock()
        self._together: Latest[tuple[NDArray[Any], ...] | None] = Latest()  # the vectors of lists of wordings

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy begins without any: it encodes them itself."""
        return WordingVectors, ()

    def best(
        self, question: NDArray[np.float32], wordings: Sequence[tuple[str, ...]], encode: Encode
    ) -> tuple[NDArray[np.float32], list[str | None]]:
        """(N,) the soft maximum (`rule.py`) of the cosines of a question (C,) with each entry's wordings, -1 without
        any; and the best wording."""
        # Often those of the question before: a small FAQ is compared as a whole.
        together = self._together.get(wordings, partial(self._joined, wordings, encode))
        cosines = np.full(len(wordings), -1.0, dtype=np.float32)
        texts: list[str | None] = [None] * len(wordings)
        if together is not None:
            vectors, scales, entries, starts, of_entry = together
            scores = (vectors @ question) * scales
            best = np.maximum.reduceat(scores, starts)
            near = np.add.reduceat(np.exp((scores - best[of_entry]) / SOFTNESS), starts)
            cosines[entries] = best + SOFTNESS * np.log(near)
            places = np.flatnonzero(scores == best[of_entry])
            _, first = np.unique(of_entry[places], return_index=True)
            for entry, place in zip(entries.tolist(), (places[first] - starts).tolist(), strict=True):
                texts[entry] = wordings[entry][place]
        return cosines, texts

    def best_of_each(
        self, questions: NDArray[np.float32], wordings: Sequence[str], encode: Encode
    ) -> NDArray[np.float32]:
        """(Q,) the soft maximum of the cosines of each of Q questions (Q, C) with one entry's wordings, -1 without."""
        if not wordings:
            return np.full(len(questions), -1.0, dtype=np.float32)
        table, rows = self.find(wordings, encode)
        cosines = questions @ table.matrix[rows].astype(np.float32).T * table.scales[rows]
        best = cosines.max(axis=1)
        return best + SOFTNESS * np.log(np.exp((cosines - best[:, None]) / SOFTNESS).sum(axis=1))

    def _joined(self, wordings: Sequence[tuple[str, ...]], encode: Encode) -> tuple[NDArray[Any], ...] | None:
        """Of P wordings of E entries that have any: (P, C) vectors, (P,) scales, (E,) the entries, (E,) where those of
        each begin, (P,) the place among these of each one's entry."""
        entries = [entry for entry, texts in enumerate(wordings) if texts]
        if not entries:
            return None
        texts = list(chain.from_iterable(wordings[entry] for entry in entries))
        table, rows = self.find(texts, encode)
        sizes = np.array([len(wordings[entry]) for entry in entries])
        vectors = table.matrix[rows].astype(np.float32)
        scales = table.scales[rows]
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
            self._rows = {}
            new = list(texts)
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
    def of(cls, rows_and_texts: Iterable[tuple[int, str]], vectors: WordingVectors, encode: Encode) -> Self:
        """Index pairs of an entry's number and a wording of it, in any order."""
        numbers: list[int] = []  # of each wording's entry, ascending
        texts: list[str] = []
        for number, text in sorted(rows_and_texts, key=lambda pair: pair[0]):
            numbers.append(number)
            texts.append(text)
        table, wordings = vectors.find(texts, encode)
        rows, starts = np.unique(np.array(numbers, np.int64), return_index=True)
        return cls(rows, table, wordings, starts)

    def scores(self, question: NDArray[np.float32]) -> NDArray[np.float32]:
        """(N,) the cosine of each entry's best wording with a question (C,)."""
        [scores] = self.scores_of_each(question[None])
        return scores

    def scores_of_each(self, questions: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
        """The scores, for each of B questions (B, C)."""
        if not len(self.rows):
            yield from [np.zeros(0, np.float32)] * len(questions)
            return
        # All vectors are scanned: those of other entries are few, and to gather the others takes longer.
        for scores in self.vectors.scores_of_each(questions):
            yield np.maximum.reduceat(scores[self.wordings], self.starts)


@dataclass(frozen=True)
class Leg:
    """
    The (N,) scores of N documents for one query, and their (N,) rows, ascending.

    Of a document's query data, `rank_field` is its rank, from 1, among those that the leg finds, `score_field` its
    score there; the fields of `meta` are those of all. Only what has a higher score than `nothing` is found, which is
    also the score of a document that the leg does not know.
    """

    rows: np.ndarray
    scores: np.ndarray
    rank_field: str = WORDING_RANK
    score_field: str | None = None
    nothing: float | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def best(self, limit: int | None) -> list[int]:
        """At most `limit` rows, the highest score first; ties are in the order of writing."""
        above = -inf if self.nothing is None else self.nothing
        return self.rows[best_rows(self.scores, limit, above=above)].tolist()

    def scores_of(self, rows: np.ndarray) -> list[float | None]:
        """The scores of some rows."""
        if not len(self.rows):
            return [self.nothing] * len(rows)
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        is_scored = self.rows[places] == rows
        scores = self.scores[places].tolist()
        for place in np.flatnonzero(~is_scored).tolist():
            scores[place] = self.nothing
        return scores


class WordingEncoder(Protocol):
    """What encodes wordings: a `TextEncoder`."""

    @property
    def wording_vectors(self) -> WordingVectors:
        """Those that are encoded already."""

    def embed_wordings(self, texts: Sequence[str]) -> Tensor:
        """(B, C) vectors of B texts."""


class KnownWordings:
    """
    The known wordings of a search's entries: those of files (`paths`), which are followed, and the entries' own.

    A model reads them, as it does a question, between `prefix` and `suffix`. Threads may share it. InputError if a file
    cannot be read.
    """

    def __init__(self, paths: list[str] | None, prefix: str = "", suffix: str = "") -> None:
        self.paths = paths
        self.prefix = prefix
        self.suffix = suffix
        self._files = WordingFiles()
        self._index: Latest[WordingIndex] = Latest()
        self._rows_of_keys: Latest[dict[str, set[int]]] = Latest()

    def add(self, path: str | Path) -> None:
        """Follow one more file."""
        paths = list(dict.fromkeys([*(self.paths or []), str(path)]))
        self._files.now(paths)
        self.paths = paths

    def of_files(self) -> Wordings:
        """The wordings of the files as they are now."""
        return self._files.now(self.paths) if self.paths else NO_WORDINGS

    def similar(self, rows: EntryRows, question: np.ndarray, encoder: WordingEncoder) -> Leg:
        """The cosine of each entry's best wording with a question (C,); new wordings are encoded first."""
        [leg] = self.similar_to_each(rows, question[None], encoder)
        return leg

    def similar_to_each(self, rows: EntryRows, questions: np.ndarray, encoder: WordingEncoder) -> list[Leg]:
        """As `similar`, of each of B questions (B, C)."""
        index = self.index(rows, encoder)
        return [Leg(index.rows, scores) for scores in index.scores_of_each(questions)]

    def index(self, rows: EntryRows, encoder: WordingEncoder) -> WordingIndex:
        """The index of all wordings."""
        files = self.of_files()
        vectors = encoder.wording_vectors

        def make() -> WordingIndex:
            rows_and_texts = ((row, self.prefix + text + self.suffix) for row, text in rows.pairs(files))
            return WordingIndex.of(rows_and_texts, vectors, encoder.embed_wordings)

        return self._index.get((rows, files, vectors), make)

    def exact_match(self, rows: EntryRows, question: str) -> Leg | None:
        """The entries of which a question, without prefix and suffix, is a known wording, word for word."""
        files = self.of_files()
        rows_of_keys = self._rows_of_keys.get((rows, files), partial(_rows_of_keys, rows, files))
        matching_rows: set[int] = set()
        for key in question_keys(question):
            matching_rows.update(rows_of_keys.get(key, ()))
        if not matching_rows:
            return None
        return Leg(np.array(sorted(matching_rows), np.int64), np.ones(len(matching_rows), np.float32))

    def named(
        self, rows: NamedRows, question: str, vector: np.ndarray | None, encoder: WordingEncoder, *, limit: int
    ) -> list[Name]:
        """The names of the entries whose wordings in files are most like a question, the same ones first.

        Without the question's vector (C,), only those of which it is a wording, word for word.
        """
        if not self.paths:
            return []
        exact = self.exact_match(rows, question)
        nearest = [] if exact is None else exact.best(limit)
        if vector is not None:
            nearest += self.similar(rows, vector, encoder).best(limit)
        distinct = list(dict.fromkeys(nearest))
        return [rows.names[row] for row in distinct[:limit]]

    def close(self) -> None:
        """Forget what was read and encoded, until the next use."""
        self._files = WordingFiles()
        self._index.forget()
        self._rows_of_keys.forget()


def _rows_of_keys(rows: EntryRows, files: Wordings) -> dict[str, set[int]]:
    rows_of_keys: defaultdict[str, set[int]] = defaultdict(set)
    for row, text in rows.pairs(files):
        for key in question_keys(text):
            rows_of_keys[key].add(row)
    return dict(rows_of_keys)
