"""Searches in processes of their own, so that a server uses more than one core.

The threads of one process hardly search side by side: a search is half Python, of which one thread runs at a time. The
server's own process speaks HTTP and hands searches to processes that are free, those that wait several at a time: their
questions are encoded together, which takes a transformer little more than half of the time.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ap_ranker.errors import InputError
from ap_ranker.ranking.cache import CacheInfo
from ap_ranker.ranking.loaded_checkpoints import TOGETHER
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.search.setup import SearchSetup
from ap_ranker.search.watch_documents import follow

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

    from haystack import Document

    from ap_ranker.ranking.explanation import Explanation

logger = logging.getLogger(__name__)

FAILED = "a search process failed; its traceback is above"
ENDED = "a search process ended while it searched, perhaps for lack of memory; others take the place of all"

TRIES = 2
"""How often a search is tried whose process ends: it may be the reason, and would end one after the other."""

Request = tuple[str, Any]  # a question, and the limits of a search or the document to explain


class _State(NamedTuple):
    """What a process says of itself with its answers."""

    process: int
    cache: CacheInfo | None
    calibrated: bool


@dataclass(eq=False)
class _Job:
    request: Request
    answer: Future[Any] = field(default_factory=Future)
    tries: int = 0


class SearchWorkers:
    """Searches in several processes, which end with this one. Threads may share it."""

    def __init__(self, setup: SearchSetup, count: int) -> None:
        self.count = count
        self._setup = setup
        self._lock = threading.RLock()
        self._waiting: deque[_Job] = deque()
        self._busy = 0  # number of processes that search
        self._closed = False
        self._states: dict[int, _State] = {}
        self._pool = self._start()
        try:
            for ready in [self._pool.submit(_begin) for _ in range(count)]:
                self._remember(ready.result())
        except BaseException as error:
            self.close()
            if isinstance(error, BrokenProcessPool):
                raise InputError("Expected search processes to start, found that one ended.") from error
            raise

    def close(self) -> None:
        """End the processes once they have answered; searches that wait fail."""
        with self._lock:
            self._closed = True
            waiting, pool = list(self._waiting), self._pool
            self._waiting.clear()
        self._fail(waiting)
        pool.shutdown()

    def run(self, question: str, limits: Mapping[str, float | None] = MappingProxyType({})) -> list[Document]:
        """As `DeclaredPipeline.run`, but for vectors and blobs of the documents."""
        found: list[Document] = self._ask((question, dict(limits)))
        return found

    def explain(self, question: str, document: Document) -> tuple[str, str, Explanation]:
        """As `DeclaredPipeline.explain`."""
        found: tuple[str, str, Explanation] = self._ask((question, document))
        return found

    @property
    def cache_info(self) -> CacheInfo | None:
        """The sums over all processes; `None` without a cache."""
        counts = [astuple(state.cache) for state in list(self._states.values()) if state.cache]
        return CacheInfo(*map(sum, zip(*counts, strict=True))) if counts else None

    @property
    def calibrated(self) -> bool:
        """As `DeclaredPipeline.calibrated`."""
        return any(state.calibrated for state in list(self._states.values()))

    def _start(self) -> ProcessPoolExecutor:
        self._states.clear()
        context = multiprocessing.get_context("spawn")  # a fork would copy locks that threads hold
        return ProcessPoolExecutor(self.count, context, _load, (self._setup, context.Barrier(self.count)))

    def _remember(self, state: _State) -> None:
        self._states[state.process] = state

    def _ask(self, request: Request) -> Any:
        job = _Job(request)
        with self._lock:
            if self._closed:
                raise InputError("Expected search processes, found that the server is about to end.")
            self._waiting.append(job)
            self._hand_out()
        return job.answer.result()

    def _hand_out(self) -> None:
        """Give each free process its share of what waits; the lock is held."""
        while self._waiting and self._busy < self.count:
            share = min(TOGETHER, -(-len(self._waiting) // self.count))
            jobs = [self._waiting.popleft() for _ in range(share)]
            try:
                found = self._pool.submit(_answer, [job.request for job in jobs])
            except BrokenProcessPool:  # while nobody searched
                self._waiting.extendleft(reversed(jobs))
                self._pool = self._start()
                continue
            self._busy += 1
            found.add_done_callback(partial(self._settle, self._pool, jobs))

    def _settle(self, pool: ProcessPoolExecutor, jobs: Sequence[_Job], found: Future[Any]) -> None:
        """Pass answers on; if a process has ended, which ends its pool, let another pool search again."""
        error = found.exception()
        with self._lock:
            self._busy -= 1
            if isinstance(error, BrokenProcessPool):
                self._try_again(pool, jobs)
            self._hand_out()
        if error is None:
            state, answers = found.result()
            self._remember(state)
            for job, answer in zip(jobs, answers, strict=True):
                if isinstance(answer, InputError):
                    job.answer.set_exception(answer)
                else:
                    job.answer.set_result(answer)
        elif not isinstance(error, BrokenProcessPool):
            for job in jobs:
                job.answer.set_exception(error)

    def _try_again(self, pool: ProcessPoolExecutor, jobs: Sequence[_Job]) -> None:
        if pool is self._pool and not self._closed:
            logger.error("%s: %s.", self._setup.pipeline, ENDED)
            self._pool = self._start()
        for job in jobs:
            job.tries += 1
        self._waiting.extendleft(job for job in reversed(jobs) if job.tries < TRIES and not self._closed)
        self._fail([job for job in jobs if job.tries >= TRIES or self._closed])

    def _fail(self, jobs: Sequence[_Job]) -> None:
        for job in jobs:
            job.answer.set_exception(InputError(f"{self._setup.pipeline}: {ENDED}."))


# What runs in a search process.


class _Loaded(NamedTuple):
    search: DeclaredPipeline | InputError
    all_begun: Barrier


_loaded: _Loaded


def _load(setup: SearchSetup, all_begun: Barrier) -> None:
    """Get ready; what is wrong with the setup is the answer to each request."""
    global _loaded  # noqa: PLW0603  a pool hands nothing else to its jobs
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C goes to all; the server first answers what was asked
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    try:
        search, documents = setup.load()
        setup.warm_up(search, documents)
        logging.getLogger("ap_ranker.search.watch_documents").setLevel(logging.CRITICAL)  # the server's process says it
        logging.getLogger("ap_ranker.data").setLevel(logging.CRITICAL)
        follow(search, setup)
        _loaded = _Loaded(search, all_begun)
    except InputError as error:
        _loaded = _Loaded(error, all_begun)


def _end_with_the_server() -> None:
    server = multiprocessing.parent_process()
    assert server is not None
    server.join()
    os._exit(1)


def _begin() -> _State:
    """Wait until as many processes have begun, so that each is asked once."""
    _loaded.all_begun.wait()
    return _answer([])[0]


def _answer(requests: Sequence[Request]) -> tuple[_State, list[Any]]:
    """The answer to each request, or an InputError."""
    search = _loaded.search
    if isinstance(search, InputError):
        raise search
    search.encode_ahead([question for question, _ in requests])
    answers = [_answer_one(search, *request) for request in requests]
    return _State(os.getpid(), search.cache_info, search.calibrated), answers


def _answer_one(search: DeclaredPipeline, question: str, more: Any) -> Any:
    try:
        with report_store_errors(search.path, search.place):
            if not isinstance(more, dict):
                return search.explain(question, more)
            found = search.run(question, more)
            return [replace(document, blob=None, embedding=None, sparse_embedding=None) for document in found]
    except InputError as error:
        return error
    except Exception:
        logger.exception("%s: %s.", search.path, FAILED)
        return InputError(f"{search.path}: {FAILED}.")
