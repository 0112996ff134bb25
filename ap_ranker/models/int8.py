"""Products of 8-bit integers, with the integer instructions of a CPU: exact, and four times as fast as float32.

Torch's operator for them is not public, and older CPUs cut large sums off, so it is tried before.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

LARGEST = 127
"""Largest absolute value of a rounded number; -128 is not used, as int8 has no 128."""


@cache
def multiplies_int8() -> bool:
    """Whether torch multiplies int8 on this CPU, also the largest ones, without an error."""
    matrix = np.resize(np.array([LARGEST, -LARGEST, -LARGEST - 1, 1], np.int8), (64, 515))
    vector = np.sign(matrix[3]) * np.int8(LARGEST)
    try:
        products = torch._int_mm(torch.from_numpy(matrix), torch.from_numpy(vector)[:, None]).numpy()[:, 0]
    except (AttributeError, RuntimeError):
        return False
    return bool((products == matrix.astype(np.int64) @ vector.astype(np.int64)).all())
