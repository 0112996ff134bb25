"""All private operators of torch that are used: products whose speed no public one has.

Each is tried before it is used, and has a plain fallback: `packed_linear` is compared with the layers themselves by
`FastBert.checked`, which leaves texts to `Bert` if they differ; `int8_product` is compared with numpy by
`multiplies_int8`, without which numbers in int8 are widened to float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

LARGEST = 127
"""Largest absolute value of a rounded number; -128 is not used, as int8 has no 128."""


def packed_linear(*layers: nn.Linear, dtype: torch.dtype) -> Callable[..., Tensor]:
    """y = f(x W^T + b) of one or several layers, with W in the order in which oneDNN reads it: f(x, activation)."""
    bias = torch.cat([layer.bias.detach() for layer in layers]).to(dtype)
    weight = torch.cat([layer.weight.detach() for layer in layers]).to(dtype)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)

    def multiply(x: Tensor, activation: str = "none") -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x.to(dtype), packed, bias, activation, [], "none")
        return y

    return multiply


def int8_product(first: Tensor, second: Tensor) -> Tensor:
    """The exact int32 product of two int8 matrices, four times as fast as in float32; if `multiplies_int8`."""
    return torch._int_mm(first, second)


@cache
def multiplies_int8() -> bool:
    """Whether torch multiplies int8 on this CPU, also the largest ones, without an error: older CPUs cut sums off."""
    matrix = np.resize(np.array([LARGEST, -LARGEST, -LARGEST - 1, 1], np.int8), (64, 515))
    vector = np.sign(matrix[3]) * np.int8(LARGEST)
    try:
        products = int8_product(torch.from_numpy(matrix), torch.from_numpy(vector)[:, None]).numpy()[:, 0]
    except (AttributeError, RuntimeError):
        return False
    return bool((products == matrix.astype(np.int64) @ vector.astype(np.int64)).all())
