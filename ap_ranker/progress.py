"""What a run tells: how far it is with what takes minutes, and nothing of the libraries that it uses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]
"""Callback that takes the task in words, the number of texts or steps that are done, and their total."""


def untold(task: str, done: int, total: int) -> None:
    """A `Progress` that tells nobody."""


@contextmanager
def quiet(library: str) -> Iterator[None]:
    """Silence the log of a library, but for its errors."""
    log = logging.getLogger(library)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
