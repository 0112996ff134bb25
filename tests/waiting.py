"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def sleep() -> None:
    time.sleep(0.02)


def wait_until(is_so: Callable[[], bool], seconds: float = 60.0, pause: Callable[[], object] = sleep) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come true in time"
        pause()
