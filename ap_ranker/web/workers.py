"""Searches in processes of their own, so that a server uses more than one core.

The threads of one process hardly search side by side: a search is half Python, of which one thread runs at a time. The
server's own process speaks HTTP and hands each search to a process that is free, together with those that wait: their
questions are encoded together. With 16 questions at once a search takes a fifth less time, so this is no pool of the
standard library, which hands over one job at a time.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import signal
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import astuple, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from operator import attrgetter
from typing import Any, NamedTuple

from haystack import Document
from tqdm import tqdm

from ap_ranker.errors import InputError
from ap_ranker.ranking.cache import TOGETHER, CacheInfo
from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.explanation import Explanation
from ap_ranker.search.declared_pipeline import NO_LIMITS, DeclaredPipeline, Limits
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.search.setup import SearchSetup
from ap_ranker.search.watch_search import SearchWatcher
from ap_ranker.threads import leave_what_lives
from ap_ranker.web import limits as web_limits
from ap_ranker.web.gathered_search import Answer, answers_or_errors
from ap_ranker.web.presented_search import Presentation, PresentedSearch
from ap_ranker.web.served_search import ServedNow, ServedSearch

logger = logging.getLogger(__name__)

FAILED = "a search process failed; its traceback is above"
CLOSED = "Expected search processes, found that the server is about to end."
ENDED = "a search process ended, perhaps for lack of memory; another one takes its place"
OVERDUE = "a search process took too long, and was ended; another one takes its place"
NOT_SEARCHED = "no search process was free in time"

RETRY_SECONDS = 5.0
"""Seconds before another process is started in place of one that ended before it could search."""

OVERDUE_SECONDS = 60.0
"""Seconds after which a process that has not answered is ended.

Nobody waits longer. Less time would not do: a process that encodes many answers at first would never get to the end.
"""

HEARTBEAT_SECONDS = 15.0
"""Seconds after which a process without questions is asked what it searches with, and whether it is there."""


class _SearchTask(NamedTuple):
    """The limits of a search, and how to present what it finds, if at all."""

    limits: dict[str, float | None]
    presentation: Presentation | None


Request = tuple[str, Any]  # a question, and a `_SearchTask` or the document to explain


class _Job(NamedTuple):
    request: Request
    answer: Future[Any]


class _Reply(NamedTuple):
    """What a process sends: its answers, InputErrors among them, the counts of its cache, and what it searches with."""

    answers: list[Any]
    cache: CacheInfo | None
    served: ServedSearch


class SearchWorkers:
    """Searches in several processes, which end with this one. Threads may share it."""

    def __init__(self, setup: SearchSetup, count: int) -> None:
        self.count = count
        self._setup = setup
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._processes: dict[int, BaseProcess] = {}
        self._replies: dict[int, _Reply] = {}  # the last of each process
        self._threads: list[threading.Thread] = []
        first_starts: list[Future[None]] = []
        for number in range(count):  # they load at the same time
            first_start: Future[None] = Future()
            thread = threading.Thread(target=self._keep_running, args=(number, first_start), daemon=True)
            first_starts.append(first_start)
            self._threads.append(thread)
        for thread in self._threads:
            thread.start()
        # What was registered last is called first: this, and then multiprocessing's own function, which would wait for
        # ever for processes that leave SIGTERM to the server.
        atexit.register(self.close)
        try:
            for first_start in first_starts:
                first_start.result()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes; requests that wait fail."""
        with self._changed:
            self._closed.set()
            _fail(_begin(self._jobs), CLOSED)
            self._jobs.clear()
            self._changed.notify_all()
        for process in list(self._processes.values()):
            process.kill()
        for thread in self._threads:
            thread.join()
        atexit.unregister(self.close)

    def answer(self, question: str, limits: Limits = NO_LIMITS) -> tuple[list[Document], Decision]:
        """As `DeclaredPipeline.answer`, but for vectors and blobs of the documents."""
        return self._ask((question, _SearchTask(dict(limits), None)))

    def answer_presented(self, question: str, limits: Limits, presentation: Presentation) -> PresentedSearch:
        """As `answer`, with what visitors see of it."""
        return self._ask((question, _SearchTask(dict(limits), presentation)))

    def explain(self, question: str, document: Document) -> tuple[str, str, Explanation]:
        """As `DeclaredPipeline.explain`."""
        return self._ask((question, document))

    @property
    def cache_info(self) -> CacheInfo | None:
        """The sums over all processes; `None` without a cache."""
        replies = list(self._replies.values())
        counts = [astuple(reply.cache) for reply in replies if reply.cache]
        if not counts:
            return None
        sums = [sum(column) for column in zip(*counts, strict=True)]
        return CacheInfo(*sums)

    @property
    def served(self) -> ServedSearch | None:
        """The search of the process that has the latest one; the others follow within seconds."""
        replies = list(self._replies.values())
        searches = [reply.served for reply in replies]
        return max(searches, key=attrgetter("since"), default=None)

    def _ask(self, request: Request) -> Any:
        job = _Job(request, Future())
        with self._changed:
            if self._closed.is_set():
                raise InputError(CLOSED)
            self._jobs.append(job)
            self._changed.notify()
        try:
            return job.answer.result(web_limits.ANSWER_SECONDS)
        except TimeoutError:
            job.answer.cancel()  # nobody waits for it: if no process has it yet, none will
            raise InputError(f"{self._setup.pipeline}: {NOT_SEARCHED}.") from None

    def _keep_running(self, number: int, first_start: Future[None]) -> None:
        """Let a process answer, and another one in its place if it ends, until all end.

        `first_start` tells whether the first one can search.
        """
        while not self._closed.is_set():
            can_search = False
            try:
                with self._process(number) as (process, pipe):
                    self._replies[number] = _receive(pipe)  # without answers: it is ready
                    can_search = True
                    if not first_start.done():
                        first_start.set_result(None)
                    while not self._closed.is_set():
                        self._hand_out(number, process, pipe)
            except Exception as error:  # of any type: without this thread, no process would take the place of this one
                reason = self._reason(error)
                if not first_start.done():
                    first_start.set_exception(reason)
                    return
                if not self._closed.is_set():
                    logger.error("%s", reason)
                if not can_search:  # nor would another one, perhaps
                    self._closed.wait(RETRY_SECONDS)

    def _hand_out(self, number: int, process: BaseProcess, pipe: Connection) -> None:
        """Wait for jobs, and let a process do its share of them; without any, see whether it is there."""
        jobs = self._next()
        if not process.is_alive():  # it ended while it had nothing to do: another one does them
            self._put_back(jobs)
            raise EOFError
        begun = _begin(jobs)
        try:
            reply = self._exchange(pipe, begun)
        except Exception as error:
            reason = self._reason(error)
            _fail(begun, str(reason))
            raise reason from error
        self._replies[number] = reply
        _set_answers(begun, reply.answers)

    def _reason(self, error: Exception) -> InputError:
        """What is said of a process that had to end, or of one that could not start."""
        if isinstance(error, InputError):
            return error
        if isinstance(error, OSError | EOFError):
            return InputError(f"{self._setup.pipeline}: {ENDED}.")
        logger.error("%s: %s.", self._setup.pipeline, FAILED, exc_info=error)
        return InputError(f"{self._setup.pipeline}: {FAILED}.")

    def _put_back(self, jobs: Sequence[_Job]) -> None:
        """Let other processes have jobs, before all that came after them."""
        with self._changed:
            if self._closed.is_set():
                _fail(_begin(jobs), CLOSED)
            else:
                self._jobs.extendleft(reversed(jobs))
                self._changed.notify(len(jobs))

    def _exchange(self, pipe: Connection, jobs: Iterable[_Job]) -> _Reply:
        """Send the requests of jobs to a process; InputError if it has no reply in time."""
        pipe.send([job.request for job in jobs])
        if not pipe.poll(OVERDUE_SECONDS):
            raise InputError(f"{self._setup.pipeline}: {OVERDUE}.")
        return _receive(pipe)

    @contextmanager
    def _process(self, number: int) -> Iterator[tuple[BaseProcess, Connection]]:
        """Within, a process runs at the other end of the pipe."""
        if sys.platform == "linux":  # not by a fork of the server, which would copy locks that threads hold
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload([__name__])  # what takes seconds to import is imported once
        else:  # on macOS, the system's own libraries must not be forked
            context = multiprocessing.get_context("spawn")
        pipe, pipe_of_process = context.Pipe()
        with pipe:
            process = context.Process(target=_run, args=(self._setup, pipe_of_process), daemon=True)
            with pipe_of_process:
                process.start()
            try:
                self._processes[number] = process
                if self._closed.is_set():  # `close` may have killed all processes just before this one was among them
                    raise InputError(CLOSED)
                yield process, pipe
            finally:
                process.kill()
                process.join()

    def _next(self) -> list[_Job]:
        """Wait for jobs, and take a process' share of them; none at the end, nor after `HEARTBEAT_SECONDS` without."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed.is_set(), HEARTBEAT_SECONDS)
            share = min(TOGETHER, -(-len(self._jobs) // self.count))
            return [self._jobs.popleft() for _ in range(share)]


def _begin(jobs: Iterable[_Job]) -> list[_Job]:
    """The jobs that somebody still waits for; from now on, nobody can cancel them."""
    return [job for job in jobs if job.answer.set_running_or_notify_cancel()]


def _fail(begun: Iterable[_Job], message: str) -> None:
    for job in begun:
        job.answer.set_exception(InputError(message))


def _set_answers(jobs: Sequence[_Job], answers: Sequence[Any]) -> None:
    for job, answer in zip(jobs, answers, strict=True):
        if isinstance(answer, InputError):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)


def _receive(pipe: Connection) -> _Reply:
    """InputError if the process cannot search, OSError or EOFError if it has ended."""
    reply: _Reply | InputError = pipe.recv()
    if isinstance(reply, InputError):
        raise reply
    return reply


# What runs in a search process.


def _run(setup: SearchSetup, pipe: Connection) -> None:
    """Answer the requests that come through a pipe until it is closed."""
    # A terminal sends these to all processes; the server ends this one, once what was asked is answered.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Else it would make a semaphore of the system, which a process that is killed leaves behind, as a warning says.
    tqdm.set_lock(threading.RLock())
    try:
        search, documents = setup.load()
        setup.warm_up(search, documents)
        leave_what_lives()
        for name in ("ap_ranker.search.watch_search", "ap_ranker.data"):  # the server's process logs the same
            logging.getLogger(name).setLevel(logging.CRITICAL)
        SearchWatcher(search, setup, write=False)  # its thread goes on
        served = ServedNow(search)
        served()  # here, because the first description reads the checkpoint, which may fail
    except InputError as error:
        pipe.send(error)
        return
    answers: list[Any] = []  # none in the first reply, which says that this process can search
    while True:
        try:
            pipe.send(_Reply(answers=answers, cache=search.cache_info, served=served()))
            requests = pipe.recv()
        except (OSError, EOFError):  # the server has ended
            return
        if requests:
            search.encode_ahead([question for question, _ in requests])
        searched = _search_together(search, requests)
        answers = [_answer(search, request, searched.get(place)) for place, request in enumerate(requests)]


def _search_together(search: DeclaredPipeline, requests: Sequence[Request]) -> dict[int, Answer | Exception]:
    """What the searches among the requests find, by their places; those with the same limits are one."""
    places: defaultdict[tuple[tuple[str, float | None], ...], list[int]] = defaultdict(list)
    for place, (_, task) in enumerate(requests):
        if isinstance(task, _SearchTask):
            places[tuple(sorted(task.limits.items()))].append(place)
    searched: dict[int, Answer | Exception] = {}
    for limits, places_of_limits in places.items():
        questions = [requests[place][0] for place in places_of_limits]
        searched |= zip(places_of_limits, answers_or_errors(search, questions, dict(limits)), strict=True)
    return searched


def _answer(search: DeclaredPipeline, request: Request, searched: Answer | Exception | None) -> Any:
    """The reply to a request; of a search, what was found."""
    question, task = request
    try:
        with report_store_errors(search.path, search.place, question):
            if searched is None:
                return search.explain(question, task)
            if isinstance(searched, Exception):
                raise searched
            documents, decision = searched
            small_documents = []
            for document in documents:
                small_documents.append(replace(document, blob=None, embedding=None, sparse_embedding=None))
            if task.presentation is None:
                return small_documents, decision
            return task.presentation.of(question, small_documents, decision=decision)
    except InputError as error:
        return InputError(str(error))  # one of another class may not come through the pipe as it was
    except Exception:
        logger.exception("%s: %s.", search.path, FAILED)
        return InputError(f"{search.path}: {FAILED}.")
