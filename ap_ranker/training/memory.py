"""Makes the C library keep freed memory for the next training step."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as defined in glibc's malloc.h


def keep_freed_memory() -> None:
    """Keep freed memory in the process, if the C library can.

    Training steps allocate and free large tensors of the same sizes. By default the largest are returned to the system,
    which clears every page at the next allocation: a sixth of the time of an epoch of AP-CNN on InsuranceQA.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not Linux with glibc
        return
    mallopt(_MMAP_THRESHOLD, 2**30)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
