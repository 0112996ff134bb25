"""What may take so many seconds on a machine that has time for it, measured on one that may have less."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

WORK = 0.3
"""Seconds of processor time of the work by which the machine is measured."""

BUSIEST = 2.0
"""How many times as long as alone that work may take: beyond it, a limit of seconds would prove nothing."""


def slowdown() -> float:
    """How many times as long as its processor time some work takes: 1 where no other program wants the processor."""
    start = time.monotonic()
    used = time.thread_time()
    while time.thread_time() - used < WORK:
        pass
    return (time.monotonic() - start) / WORK


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What happens within must not take longer, as measured against work before and after; skips on a busy machine.

    It is the last step of a test, as a skip ends that.
    """
    before = slowdown()
    start = time.monotonic()
    yield
    taken = time.monotonic() - start
    factor = max(before, slowdown())
    measured = f"{taken:.2f} s, while work takes {factor:.1f} times its processor time"
    print(measured)
    if factor > BUSIEST:
        pytest.skip(f"the machine is too busy to tell: {measured}")
    assert taken <= seconds * factor, measured
