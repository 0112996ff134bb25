"""Searches in processes of their own, so that a server uses more than one core.

The threads of one process hardly search side by side: a search is half Python, of which one thread runs at a time. The
server's own process speaks HTTP and hands each search to a process that is free, together with those that wait: their
questions are encoded together. With 16 of them a search takes a fifth less time. So each process is a pool of its own,
since a pool of several hands over one job at a time.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ap_ranker.errors import InputError
from ap_ranker.ranking.cache import TOGETHER, CacheInfo
from ap_ranker.search.declared_pipeline import NO_LIMITS, DeclaredPipeline, Limits
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.search.setup import SearchSetup
from ap_ranker.search.watch_search import SearchWatcher

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from haystack import Document

    from ap_ranker.ranking.decision import Decision
    from ap_ranker.ranking.explanation import Explanation

logger = logging.getLogger(__name__)

FAILED = "a search process failed; its traceback is above"
ENDED = "a search process ended while it searched, perhaps for lack of memory; another one takes its place"

RETRY_SECONDS = 5.0
"""Between two attempts to start a process in place of one that has ended."""

Request = tuple[str, Any]  # a question, and the limits of a search or the document to explain


class _Job(NamedTuple):
    request: Request
    answer: Future[Any]


class SearchWorkers:
    """Searches in several processes, which end with this one. Threads may share it."""

    def __init__(self, setup: SearchSetup, count: int) -> None:
        self.count = count
        self._setup = setup
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._caches: dict[int, CacheInfo | None] = {}  # of each process, as it told last
        begun: list[Future[None]] = [Future() for _ in range(count)]  # they load at the same time
        self._threads = [threading.Thread(target=self._hand_out, args=each, daemon=True) for each in enumerate(begun)]
        for thread in self._threads:
            thread.start()
        try:
            for one in begun:
                one.result()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes, once they have answered what they were asked; requests that wait fail."""
        with self._changed:
            self._closed = True
            self._fail(self._jobs)
            self._jobs.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def answer(self, question: str, limits: Limits = NO_LIMITS) -> tuple[list[Document], Decision]:
        """As `DeclaredPipeline.answer`, but for vectors and blobs of the documents."""
        found: tuple[list[Document], Decision] = self._ask((question, dict(limits)))
        return found

    def explain(self, question: str, document: Document) -> tuple[str, str, Explanation]:
        """As `DeclaredPipeline.explain`."""
        found: tuple[str, str, Explanation] = self._ask((question, document))
        return found

    @property
    def cache_info(self) -> CacheInfo | None:
        """The sums over all processes; `None` without a cache."""
        counts = [astuple(info) for info in list(self._caches.values()) if info]
        return CacheInfo(*map(sum, zip(*counts, strict=True))) if counts else None

    def _ask(self, request: Request) -> Any:
        job = _Job(request, Future())
        with self._changed:
            if self._closed:
                raise InputError("Expected search processes, found that the server is about to end.")
            self._jobs.append(job)
            self._changed.notify()
        return job.answer.result()

    def _hand_out(self, number: int, begun: Future[None]) -> None:
        """Let a process answer, and another one in its place if it ends, until all end."""
        while not self._closed:
            jobs: list[_Job] = []
            try:
                # A fork would copy locks that threads hold.
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                    self._caches[number] = process.submit(_begin, self._setup).result()
                    if not begun.done():
                        begun.set_result(None)
                    while jobs := self._next():
                        asked = process.submit(_search, [job.request for job in jobs])
                        answers, self._caches[number] = asked.result()
                        for job, answer in zip(jobs, answers, strict=True):
                            if isinstance(answer, InputError):
                                job.answer.set_exception(answer)
                            else:
                                job.answer.set_result(answer)
            except Exception as error:  # of the process, which may fail in any way while it loads
                self._fail(jobs)
                has_ended = isinstance(error, BrokenProcessPool)
                reason = InputError(f"{self._setup.pipeline}: {ENDED}.") if has_ended else error
                if not begun.done():
                    begun.set_exception(reason)
                    return
                if not self._closed:
                    logger.error("%s", reason)
                    time.sleep(0 if has_ended else RETRY_SECONDS)

    def _next(self) -> list[_Job]:
        """Wait for jobs, and take a process' share of them; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            share = min(TOGETHER, -(-len(self._jobs) // self.count))
            return [self._jobs.popleft() for _ in range(share)]

    def _fail(self, jobs: Iterable[_Job]) -> None:
        for job in jobs:
            job.answer.set_exception(InputError(f"{self._setup.pipeline}: {ENDED}."))


# What runs in a search process.

_searches: list[DeclaredPipeline] = []
"""The one search of the process."""


def _begin(setup: SearchSetup) -> CacheInfo | None:
    """Load the search; returns the counts of its cache."""
    for each in (signal.SIGINT, signal.SIGTERM):  # may be sent to all; the server first answers what was asked
        signal.signal(each, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    search, documents = setup.load()
    setup.warm_up(search, documents)
    for name in ("search.watch_search", "data"):  # the server's process says it
        logging.getLogger(f"ap_ranker.{name}").setLevel(logging.CRITICAL)
    SearchWatcher(search, setup)
    _searches.append(search)
    return search.cache_info


def _end_with_the_server() -> None:
    """A pool ends its processes, but not if its own process is killed."""
    if (server := multiprocessing.parent_process()) is not None:
        server.join()
        os._exit(0)


def _search(requests: Sequence[Request]) -> tuple[list[Any], CacheInfo | None]:
    """The answers, InputErrors among them, and the counts of the cache."""
    [search] = _searches
    search.encode_ahead([question for question, _ in requests])
    return [_answer(search, *request) for request in requests], search.cache_info


def _answer(search: DeclaredPipeline, question: str, more: Any) -> Any:
    try:
        with report_store_errors(search.path, search.place):
            if not isinstance(more, dict):
                return search.explain(question, more)
            found, decision = search.answer(question, more)
            return [replace(one, blob=None, embedding=None, sparse_embedding=None) for one in found], decision
    except InputError as error:
        return InputError(str(error))
    except Exception:
        logger.exception("%s: %s.", search.path, FAILED)
        return InputError(f"{search.path}: {FAILED}.")
