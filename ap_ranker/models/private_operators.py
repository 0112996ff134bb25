"""All private operators of torch that are used: products whose speed no public one has.

Each is tried before it is used, and has a plain fallback: `packed_linear` is compared with the layers themselves by
`FastTransformer.checked`, which leaves texts to transformers if they differ; `int8_products` is compared with numpy by
`multiplies_int8`, without which numbers in int8 are widened to float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor, nn

LARGEST = 127  # absolute value of a rounded number; -128 is not used, as int8 has no 128
_EXACT = 2**24  # sums of whole numbers up to here are exact in float32
_BLOCK = 1024  # rows widened at once: in float32 they fit into the cache of a core


def packed_linear(*layers: nn.Linear, dtype: torch.dtype, activation: str = "none") -> Callable[..., Tensor]:
    """y = f(x W^T + b) of one or several layers, of x in `dtype`, with W in the order in which oneDNN reads it.

    With the activation `add`, f adds the argument `other`, before the result is rounded.
    """
    bias = torch.cat([layer.bias.detach() for layer in layers]).to(dtype)
    weight = torch.cat([layer.weight.detach() for layer in layers]).to(dtype)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    multiply = partial(torch.ops.mkldnn._linear_pointwise, W=packed, B=bias, attr=activation)
    if activation == "add":
        return multiply
    return partial(multiply, scalars=[], algorithm="none")


def int8_products(matrix: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(N, K) dot products of (N, C) and (K, C) numbers in int8, exactly: four times as fast as in float32."""
    return products_with(matrix)(_columns(others)).numpy()


def products_with(matrix: np.ndarray) -> Callable[[Tensor], Tensor]:
    """What multiplies (N, C) numbers in int8 with (C, K) others, as `int8_products`, for many of these."""
    is_able = matrix.size and multiplies_int8()
    if is_able:
        return partial(torch._int_mm, torch.from_numpy(matrix))
    return partial(_widened, matrix)


def _widened(matrix: np.ndarray, columns: Tensor) -> Tensor:
    wide = columns.to(torch.float32 if matrix.shape[1] * LARGEST**2 <= _EXACT else torch.float64).numpy()
    products = np.empty((len(matrix), wide.shape[1]), wide.dtype)
    for start in range(0, len(matrix), _BLOCK):
        products[start : start + _BLOCK] = matrix[start : start + _BLOCK].astype(wide.dtype) @ wide
    return torch.from_numpy(products)


@cache
def multiplies_int8() -> bool:
    """Whether torch multiplies int8 on this CPU, also the largest ones, without an error."""
    matrix = np.resize(np.array([LARGEST, -LARGEST, -LARGEST - 1, 1], np.int8), (64, 515))
    other = np.sign(matrix[3:4]) * np.int8(LARGEST)
    try:
        products = torch._int_mm(torch.from_numpy(matrix), _columns(other)).numpy()
    except (AttributeError, RuntimeError):
        return False
    return bool((products == matrix.astype(np.int64) @ other.T.astype(np.int64)).all())


def _columns(others: np.ndarray) -> Tensor:
    return torch.from_numpy(others.T.copy())  # numpy's stride of a single row may be 0, which is read wrongly
