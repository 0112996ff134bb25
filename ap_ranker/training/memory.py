"""Freed memory kept for the next step."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the numbers that glibc's malloc.h gives them


def keep_freed_memory() -> None:
    """Let the process keep what it frees, where the C library can.

    A training step makes and frees the same large tensors again and again. By default the largest go back to the
    system, which clears every page when the next step asks for it: a sixth of an epoch of AP-CNN on InsuranceQA.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not Linux with glibc
        return
    mallopt(_MMAP_THRESHOLD, 2**30)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
