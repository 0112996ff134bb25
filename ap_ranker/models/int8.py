"""Products of 8-bit integers, with the integer instructions of a CPU: exact, and four times as fast as float32.

Torch's operator for them is not public, and older CPUs cut large sums off, so it is tried before.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

LARGEST = 127
"""Largest absolute value of a rounded number; -128 is not used, as int8 has no 128."""

_EXACT = 2**24
"""Sums of whole numbers up to here are exact in float32."""

_BLOCK = 1024
"""Rows widened at once: in float32 they fit into the cache of a core."""


def int8_products(matrix: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(N, K) dot products of (N, C) and (K, C) numbers in int8, exactly."""
    if matrix.size and multiplies_int8():
        return _multiplied(matrix, others)
    wide = others.astype(np.float32 if matrix.shape[1] * LARGEST**2 <= _EXACT else np.float64)
    products = np.empty((len(matrix), len(others)), wide.dtype)
    for start in range(0, len(matrix), _BLOCK):
        products[start : start + _BLOCK] = matrix[start : start + _BLOCK].astype(wide.dtype) @ wide.T
    return products


@cache
def multiplies_int8() -> bool:
    """Whether torch multiplies int8 on this CPU, also the largest ones, without an error."""
    matrix = np.resize(np.array([LARGEST, -LARGEST, -LARGEST - 1, 1], np.int8), (64, 515))
    other = np.sign(matrix[3:4]) * np.int8(LARGEST)
    try:
        products = _multiplied(matrix, other)
    except (AttributeError, RuntimeError):
        return False
    return bool((products == matrix.astype(np.int64) @ other.T.astype(np.int64)).all())


def _multiplied(matrix: np.ndarray, others: np.ndarray) -> np.ndarray:
    columns = torch.from_numpy(others.T.copy())  # numpy's stride of a single row may be 0, which is read wrongly
    products: np.ndarray = torch._int_mm(torch.from_numpy(matrix), columns).numpy()
    return products
