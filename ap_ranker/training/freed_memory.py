"""What the C library does with memory while a model learns."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory in the process, if the C library can; return it, often a gigabyte, when training has ended.

    Training steps allocate and free large tensors of the same sizes. By default the largest are returned to the system,
    which clears every page at the next allocation: a sixth of the time of an epoch of AP-CNN on InsuranceQA.
    """
    # As defined in glibc's malloc.h.
    trim_threshold = -1
    mmap_threshold = -3
    with suppress(OSError, AttributeError, TypeError):  # not Linux with glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(mmap_threshold, 2**30)
        mallopt(trim_threshold, 2**31 - 1)
    yield
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
