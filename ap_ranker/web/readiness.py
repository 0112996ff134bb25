"""Whether a server can answer: its search's store and its database are asked, not more often than once a second."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import safe_line
from ap_ranker.threads import in_daemon_thread
from ap_ranker.web.database import Database
from ap_ranker.web.limits import Failure, FailureError
from ap_ranker.web.served_search import ServedSearch

logger = logging.getLogger(__name__)

T = TypeVar("T")

KEPT_SECONDS = 1.0
"""Seconds for which what was answered counts, so that nobody can load a store by asking whether it answers."""

PATIENCE_SECONDS = 2.0
"""Maximum seconds until what was asked must answer."""


class Watch(Generic[T]):
    """Something that answers or does not, asked in a thread of its own, by one question at a time."""

    def __init__(self, name: str, ask: Callable[[], T]) -> None:
        self.name = name
        self._ask = ask
        self._pending: Future[T] | None = None
        self._asked_at = 0.0
        self._answers = True

    async def now(self) -> T | None:
        """What it answered, at most `KEPT_SECONDS` ago; `None` if it failed, or does not answer in time."""
        pending = self._pending
        if pending is None or (pending.done() and time.monotonic() >= self._asked_at + KEPT_SECONDS):
            self._asked_at = time.monotonic()
            pending = in_daemon_thread(self._ask)
            self._pending = pending
        remaining = self._asked_at + PATIENCE_SECONDS - time.monotonic()
        try:
            async with asyncio.timeout(None if pending.done() else max(0.0, remaining)):
                answer = await asyncio.shield(asyncio.wrap_future(pending))
        except Exception as error:  # stores raise any type
            if self._answers:
                self._answers = False
                reason = "no answer in time" if isinstance(error, TimeoutError) else safe_line(error)
                logger.warning("%s does not answer (%s). This warning is not repeated.", self.name, reason)
            return None
        self._answers = True
        return answer


class Readiness:
    """Whether the store behind a search and the database of the website answer, and which search that is."""

    def __init__(
        self, search: DeclaredPipeline, database: Database, describe: Callable[[], ServedSearch | None]
    ) -> None:
        self._search = search
        self._served = Watch("The checkpoint of the search", describe)
        self._store = Watch("The store of the search", self._count_entries)
        self._database = Watch("The database of the server", lambda: database.revision("questions"))

    async def entries(self) -> int | None:
        """How many entries are searched; `None` while their store does not answer."""
        return await self._store.now()

    async def served(self) -> ServedSearch | None:
        """The search that answers; `None` if none does yet, or what it is cannot be told in time."""
        return await self._served.now()

    async def require(self) -> None:
        """FailureError if something does not answer."""
        watches: Sequence[Watch[int]] = (self._store, self._database)
        answers = await asyncio.gather(*(watch.now() for watch in watches))
        for watch, answer in zip(watches, answers, strict=True):
            if answer is None:
                kind = Failure.search if watch is self._store else Failure.database
                raise FailureError(kind, f"{watch.name} does not answer; see the server's log.")

    def _count_entries(self) -> int:
        self._search.check()
        return self._search.count_entries()
