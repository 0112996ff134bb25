"""Searches in processes of their own, so that a server uses more than one core.

The threads of one process hardly search side by side: a search is half Python, of which one thread runs at a time. The
server's own process speaks HTTP and hands each search to a process that is free, together with those that wait: their
questions are encoded together. Both directions of the pipe carry JSON.
"""

from __future__ import annotations

import atexit
import json
import logging
import multiprocessing
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import astuple
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ap_ranker.errors import InputError
from ap_ranker.ranking.cache import TOGETHER
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.search.setup import SearchSetup
from ap_ranker.search.watch_documents import follow

if TYPE_CHECKING:
    from haystack import Document

    from ap_ranker.ranking.cache import CacheInfo
    from ap_ranker.ranking.explanation import Explanation

logger = logging.getLogger(__name__)

FAILED = "a search process failed; its traceback is above"
ENDED = "a search process ended while it searched, perhaps for lack of memory; another one takes its place"

FIELDS = ("id", "content", "meta", "score")
"""Fields of a document that are sent: the page uses no others, and some are large."""

GRACE_SECONDS = 2.0
"""For a process to end by itself, which it does between two searches."""

RETRY_SECONDS = 5.0
"""Between two attempts to start a process in place of one that has ended."""


class _Job(NamedTuple):
    request: dict[str, Any]
    answer: Future[Any]


class SearchWorkers:
    """Searches in several processes, which end with this one. Threads may share it."""

    def __init__(self, setup: SearchSetup, count: int) -> None:
        self.count = count
        self._setup = setup
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        atexit.register(self.close)  # before multiprocessing waits for them
        self._workers = [_Worker(setup) for _ in range(count)]  # they load at the same time
        try:
            for worker in self._workers:
                worker.wait_until_ready()
        except BaseException:
            self.close()
            raise
        for number in range(count):
            threading.Thread(target=self._dispatch, args=(number,), name=f"worker-{number}", daemon=True).start()

    def close(self) -> None:
        """End the processes; requests that wait fail."""
        with self._changed:
            self._closed = True
            self._fail(self._jobs)
            self._jobs.clear()
            self._changed.notify_all()
        for worker in self._workers:
            worker.close()
        atexit.unregister(self.close)

    def run(self, question: str, limits: Mapping[str, float | None] = MappingProxyType({})) -> list[Document]:
        """As `DeclaredPipeline.run`."""
        from haystack import Document

        found = self._ask({"question": question, "limits": dict(limits)})
        return [Document(**document) for document in found]

    def explain(self, question: str, document: Document) -> tuple[str, str, Explanation]:
        """As `DeclaredPipeline.explain`."""
        from ap_ranker.ranking.explanation import Explanation

        asked, answered, explanation = self._ask({"question": question, "explain": document.to_dict(flatten=False)})
        return asked, answered, Explanation.from_dict(explanation)

    @property
    def cache_info(self) -> CacheInfo | None:
        """The sums over all processes; `None` without a cache."""
        from ap_ranker.ranking.cache import CacheInfo

        counts = [worker.cache for worker in self._workers if worker.cache]
        return CacheInfo(*map(sum, zip(*counts, strict=True))) if counts else None

    @property
    def calibrated(self) -> bool:
        """As `DeclaredPipeline.calibrated`."""
        return any(worker.calibrated for worker in self._workers)

    def _ask(self, request: dict[str, Any]) -> Any:
        job = _Job(request, Future())
        with self._changed:
            if self._closed:
                raise InputError("Expected search processes, found that the server is about to end.")
            self._jobs.append(job)
            self._changed.notify()
        return job.answer.result()

    def _dispatch(self, number: int) -> None:
        """Hand waiting jobs to one of the processes, until the end."""
        while jobs := self._next():
            try:
                answers = self._workers[number].ask([job.request for job in jobs])
            except (OSError, EOFError):
                self._fail(jobs)
                self._replace(number)
                continue
            for job, answer in zip(jobs, answers, strict=True):
                if "error" in answer:
                    job.answer.set_exception(InputError(answer["error"]))
                else:
                    job.answer.set_result(answer["result"])

    def _next(self) -> list[_Job]:
        """Wait for jobs, and take a process' share of them; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if self._closed:
                return []
            share = min(TOGETHER, -(-len(self._jobs) // self.count))
            return [self._jobs.popleft() for _ in range(share)]

    def _fail(self, jobs: Iterable[_Job]) -> None:
        for job in jobs:
            job.answer.set_exception(InputError(f"{self._setup.pipeline}: {ENDED}."))

    def _replace(self, number: int) -> None:
        """Start another process in place of one that has ended."""
        while not self._closed:
            logger.error("%s: %s.", self._setup.pipeline, ENDED)
            self._workers[number].close()
            self._workers[number] = _Worker(self._setup)
            try:
                self._workers[number].wait_until_ready()
            except InputError as error:
                logger.error("%s", error)
                time.sleep(RETRY_SECONDS)
            else:
                return


class _Worker:
    """One process, as the server's process sees it; `cache` has the fields of its `CacheInfo` when it last answered."""

    def __init__(self, setup: SearchSetup) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks that threads hold
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_search, args=(setup, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.cache: list[int] = []
        self.calibrated = False

    def wait_until_ready(self) -> None:
        try:
            self._receive()
        except (OSError, EOFError) as error:
            raise InputError(f"Expected a search process to start, found that it ended ({error!r}).") from error

    def ask(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answer of each request, its `result` or `error`; an OSError or EOFError if the process has ended."""
        self._pipe.send_bytes(json.dumps(requests).encode())
        return self._receive()

    def _receive(self) -> list[dict[str, Any]]:
        message = json.loads(self._pipe.recv_bytes())
        if "error" in message:
            raise InputError(message["error"])
        self.cache, self.calibrated = message["cache"], message["calibrated"]
        answers: list[dict[str, Any]] = message["answers"]
        return answers

    def close(self) -> None:
        self._pipe.close()  # ends a process that has nothing to do
        self._process.join(GRACE_SECONDS)
        self._process.kill()
        self._process.join()


# What runs in a search process.


def _search(setup: SearchSetup, pipe: Connection) -> None:
    """Answer the requests that come through a pipe until it is closed."""
    for each in (signal.SIGINT, signal.SIGTERM):  # may be sent to all; the server first answers what was asked
        signal.signal(each, signal.SIG_IGN)
    try:
        search, documents = setup.load()
        setup.warm_up(search, documents)
        logging.getLogger("ap_ranker.search.watch_documents").setLevel(logging.CRITICAL)  # the server's process says it
        logging.getLogger("ap_ranker.data").setLevel(logging.CRITICAL)
        live = follow(search, setup)
    except InputError as error:
        pipe.send_bytes(json.dumps({"error": str(error)}).encode())
        return
    answers: list[dict[str, Any]] = []
    while True:
        cache = search.cache_info
        counts = astuple(cache) if cache else ()
        message = {"answers": answers, "cache": counts, "calibrated": search.calibrated}
        pipe.send_bytes(json.dumps(message, default=str).encode())
        try:
            requests = json.loads(pipe.recv_bytes())
        except (OSError, EOFError):  # the server has ended
            break
        search.encode_ahead([request["question"] for request in requests])
        answers = [_answer(search, request) for request in requests]
    for following in live:
        following.close()


def _answer(search: DeclaredPipeline, request: dict[str, Any]) -> dict[str, Any]:
    from haystack import Document

    try:
        with report_store_errors(search.path, search.place):
            if "explain" in request:
                *texts, explanation = search.explain(request["question"], Document.from_dict(request["explain"]))
                return {"result": [*texts, explanation.to_dict()]}
            documents = search.run(request["question"], request["limits"])
            return {"result": [{name: getattr(document, name) for name in FIELDS} for document in documents]}
    except InputError as error:
        return {"error": str(error)}
    except Exception:
        logger.exception("%s: %s.", search.path, FAILED)
        return {"error": f"{search.path}: {FAILED}."}
