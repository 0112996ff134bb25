"""Threads that tell how much they have to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class CountingThreads(ThreadPoolExecutor):
    """An executor that counts its jobs.

    Attributes:
        waiting: jobs that nobody has begun or given up.
        running: jobs that are being done.
    """

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, name)
        self.waiting = self.running = 0
        self._counts = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As the executor does."""

        def job() -> Any:
            self._count(waiting=-1, running=1)
            try:
                return fn(*args, **kwargs)
            finally:
                self._count(running=-1)

        self._count(waiting=1)
        try:
            future = super().submit(job)
        except RuntimeError:  # it takes no more
            self._count(waiting=-1)
            raise
        future.add_done_callback(lambda done: self._count(waiting=-1) if done.cancelled() else None)
        return future

    def _count(self, waiting: int = 0, running: int = 0) -> None:
        with self._counts:
            self.waiting += waiting
            self.running += running
