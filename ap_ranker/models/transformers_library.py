"""Where the transformers library is asked: by one thread at a time, and its errors are InputErrors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ap_ranker.errors import library_errors

_lock = threading.Lock()
"""Held wherever transformers is asked for a class: its modules replace themselves while they are imported, and threads
that import them at once find half of them."""


@contextmanager
def transformers_errors(expected: str) -> Iterator[None]:
    """Where transformers is asked: one thread at a time, without its progress bar, and its errors are InputErrors."""
    with _lock, library_errors(expected):
        from transformers.utils import logging

        was_enabled = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            if was_enabled:
                logging.enable_progress_bar()
