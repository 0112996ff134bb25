"""Threads in which a server works on texts, so that its event loop is always free to answer and to keep time.

No thread of Python can be stopped: work whose request has ended goes on, and keeps its thread until it is done. So the
number of threads is bounded, what nobody waits for any more is not begun, and what waits is bounded, too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from ap_ranker.web.limits import TOO_MANY, Failure, FailureError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

MOST_UNFINISHED = 1000
"""Maximum number of works of one pool that are running or wait, those of requests that have ended among them."""


_pools: WeakSet[WorkThreads] = WeakSet()


def unfinished_works() -> int:
    """How many works of all pools of this process are running or wait."""
    return sum(pool.unfinished for pool in list(_pools))


class WorkThreads:
    """Some threads for one kind of work, so that one kind never waits for another. Threads may share it."""

    def __init__(self, count: int, name: str) -> None:
        _pools.add(self)
        self._executor = ThreadPoolExecutor(count, name)
        self._lock = threading.Lock()
        self.unfinished = 0

    async def run(
        self, work: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """What `work` returns or raises; FailureError if too much is unfinished.

        If the request ends before, the work is not begun; if it has begun, it goes on, and nobody gets its result.
        """
        abandoned = threading.Event()

        def begin() -> Result:
            try:
                if abandoned.is_set():
                    raise RuntimeError("nobody waits for this")
                return work(*arguments, **named)
            finally:
                with self._lock:
                    self.unfinished -= 1

        with self._lock:
            if self.unfinished >= MOST_UNFINISHED:
                raise FailureError(Failure.busy, TOO_MANY)
            self.unfinished += 1
        future = asyncio.wrap_future(self._executor.submit(begin))
        try:
            # Shielded: a future that is cancelled would stay in the pool's queue, and not be counted any more.
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            abandoned.set()
            raise
