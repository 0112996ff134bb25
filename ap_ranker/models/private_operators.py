"""All private operators of torch that are used: products whose speed no public one has.

Each is tried before it is used, and has a plain fallback: `packed_linear` is compared with the layers themselves by
`FastBert.checked`, which leaves texts to `Bert` if they differ; `int8_products` is compared with numpy by
`multiplies_int8`, without which numbers in int8 are widened to float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

LARGEST = 127  # absolute value of a rounded number; -128 is not used, as int8 has no 128
_EXACT = 2**24  # sums of whole numbers up to here are exact in float32
_BLOCK = 1024  # rows widened at once: in float32 they fit into the cache of a core


def packed_linear(*layers: nn.Linear, dtype: torch.dtype) -> Callable[..., Tensor]:
    """y = f(x W^T + b) of one or several layers, with W in the order in which oneDNN reads it: f(x, activation)."""
    bias = torch.cat([layer.bias.detach() for layer in layers]).to(dtype)
    weight = torch.cat([layer.weight.detach() for layer in layers]).to(dtype)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)

    def multiply(x: Tensor, activation: str = "none") -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x.to(dtype), packed, bias, activation, [], "none")

    return multiply


def int8_products(matrix: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(N, K) dot products of (N, C) and (K, C) numbers in int8, exactly: four times as fast as in float32."""
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
    return torch._int_mm(torch.from_numpy(matrix), columns).numpy()
