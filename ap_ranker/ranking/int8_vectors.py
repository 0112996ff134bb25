"""One vector per text, in int8: a scan of all of them finds the texts that mean what a question means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from math import sqrt
from pathlib import Path

import numpy as np
import torch

from ap_ranker.errors import InputError, one_line
from ap_ranker.models.private_operators import LARGEST, int8_product, multiplies_int8

EMBEDDING_SCORE, EMBEDDING_RANK = "embedding_score", "embedding_rank"
"""Meta fields of a document for its cosine with the question, and for its rank by that, from 1."""

EMBEDDED_BY = "embedded_by"
"""Meta field of a document: what its embedding comes from, because vectors of two checkpoints cannot be compared."""

_DIGIT = 128
"""A query's numbers are whole numbers of two digits to this base, each of which fits into int8."""

_EXACT = 2**24
"""Sums of whole numbers up to here are exact in float32."""

_BLOCK = 1024
"""Vectors scanned or rounded at once: in float32 they fit into the cache of a core."""

_MATRIX, _SCALES = "vectors.npy", "scales.npy"


class Vectors:
    """N vectors of C numbers, each divided by its largest number and rounded to int8.

    Args:
        embeddings: the vectors, read once and not kept; of any length but zero, all of the same size.
    """

    def __init__(self, embeddings: Iterable[np.ndarray]) -> None:
        remaining = iter(embeddings)
        blocks = []
        while block := list(islice(remaining, _BLOCK)):
            blocks.append(_rounded(np.stack(block)))
        self._matrix = np.concatenate(blocks) if blocks else np.zeros((0, 0), np.int8)
        self._scales = _scales(self._matrix)

    def __len__(self) -> int:
        return len(self._matrix)

    @property
    def is_empty(self) -> bool:
        """Whether there are no vectors, and nothing to save."""
        return not len(self)

    @property
    def size(self) -> int:
        """C, the numbers of a vector."""
        return int(self._matrix.shape[1])

    def scores(self, query: np.ndarray) -> np.ndarray:
        """(N,) cosines with a query (C,), from -1 to 1; 0 for a vector of zeros."""
        return _scan(self._matrix, self._scales, query)

    def save(self, folder: Path) -> None:
        """Write the vectors into a folder, as arrays."""
        np.save(folder / _MATRIX, self._matrix, allow_pickle=False)
        np.save(folder / _SCALES, self._scales, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> Vectors:
        """Map saved vectors into memory.

        Raises:
            InputError: a file is missing or damaged.
        """
        loaded = cls(())
        try:
            matrix, scales = (np.load(folder / name, mmap_mode="c", allow_pickle=False) for name in (_MATRIX, _SCALES))
            if matrix.dtype != np.int8 or matrix.ndim != 2 or scales.dtype != np.float32:
                raise ValueError(f"arrays of {matrix.dtype}{list(matrix.shape)} and {scales.dtype}")
            if scales.shape != matrix.shape[:1]:
                raise ValueError(f"{len(scales)} scales of {len(matrix)} vectors")
            if not ((scales >= 0) & (scales <= 1)).all():
                raise ValueError("scales that are not from 0 to 1")
        except Exception as error:  # numpy raises almost anything for a damaged header
            raise InputError(
                f"{folder}: expected saved vectors, found damaged ones ({one_line(error, 200)}). Delete the folder "
                f"{folder}; the next query builds it again."
            ) from error
        loaded._matrix, loaded._scales = matrix, scales
        return loaded


@dataclass(frozen=True)
class RoundedVectors:
    """N vectors of C numbers in memory, rounded as those of `Vectors`, to which others may be added.

    Attributes:
        matrix: (N, C) int8.
        scales: (N,) what makes the length of each 1.
    """

    matrix: np.ndarray
    scales: np.ndarray

    @classmethod
    def of(cls, vectors: np.ndarray) -> RoundedVectors:
        """Round (N, C) vectors of any length."""
        matrix = _rounded(vectors)
        return cls(matrix, _scales(matrix))

    def extended(self, others: RoundedVectors) -> RoundedVectors:
        """These vectors and then the others."""
        return RoundedVectors(*(np.concatenate(pair) for pair in zip(self.arrays, others.arrays, strict=True)))

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Both arrays."""
        return self.matrix, self.scales

    @property
    def bytes_each(self) -> int:
        """Bytes of one vector."""
        return int(sum(array[:1].nbytes for array in self.arrays))

    def selected(self, rows: np.ndarray) -> RoundedVectors:
        """The vectors in these rows."""
        return RoundedVectors(*(array[rows] for array in self.arrays))

    def scores(self, query: np.ndarray) -> np.ndarray:
        """(N,) cosines of all vectors with a query (C,), as `Vectors.scores`."""
        return _scan(self.matrix, self.scales, query)

    def cosines(self, rows: np.ndarray, query: np.ndarray) -> np.ndarray:
        """(R,) cosines of the vectors in these rows with a query (C,) of length 1."""
        cosines: np.ndarray = (self.matrix[rows].astype(np.float32) @ query) * self.scales[rows]
        return cosines


def _scan(matrix: np.ndarray, scales: np.ndarray, query: np.ndarray) -> np.ndarray:
    """(N,) cosines of (N, C) rounded vectors with a query (C,).

    The query is rounded, too, to whole numbers of 15 bits, and all is added up exactly: equal vectors have equal
    scores, wherever they stand.
    """
    largest = np.abs(query).max(initial=0) or 1
    whole = np.rint(query / largest * (LARGEST * _DIGIT))
    high = np.rint(whole / _DIGIT)
    scores = _products(matrix, high.astype(np.int8)) * np.float64(_DIGIT)
    scores += _products(matrix, (whole - high * _DIGIT).astype(np.int8))
    cosines: np.ndarray = (scores * scales / (sqrt(whole @ whole) or 1)).astype(np.float32)
    return cosines


def _products(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """(N,) dot products of (N, C) and (C,), both int8, exactly.

    The integer instructions of a CPU are four times as fast as float32, and need no copy: 27,413 vectors of 384 numbers
    take 0.2 ms.
    """
    if multiplies_int8() and matrix.size:
        products: np.ndarray = int8_product(torch.from_numpy(matrix), torch.from_numpy(vector)[:, None]).numpy()[:, 0]
        return products
    is_exact = matrix.shape[1] * LARGEST**2 <= _EXACT
    exact = vector.astype(np.float32 if is_exact else np.float64)
    products = np.empty(len(matrix), exact.dtype)
    for start in range(0, len(matrix), _BLOCK):
        products[start : start + _BLOCK] = matrix[start : start + _BLOCK].astype(exact.dtype) @ exact
    return products


def _scales(matrix: np.ndarray) -> np.ndarray:
    """(B,) one over the length of each vector, after rounding; a vector of zeros is like nothing."""
    lengths = np.sqrt(np.einsum("nc,nc->n", matrix, matrix, dtype=np.int64))
    return np.divide(1, lengths, out=np.zeros(len(lengths)), where=lengths > 0).astype(np.float32)


def _rounded(vectors: np.ndarray) -> np.ndarray:
    """(B, C) vectors in int8, the largest number of each as 127."""
    largest = np.abs(vectors).max(axis=1, initial=0, keepdims=True).astype(np.float64)
    return np.rint(vectors / np.where(largest, largest, 1) * LARGEST).astype(np.int8)
