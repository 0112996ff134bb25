"""Begins a search before its answers are encoded: until they are, BM25 answers, so that no visitor waits for them."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeAlias

import torch
from haystack import Document

from ap_ranker.errors import InputError
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.cache import CacheInfo
from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.explanation import Explanation
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.rule import Basis
from ap_ranker.search.declared_pipeline import NO_LIMITS, DeclaredPipeline, Limits
from ap_ranker.search.load_pipeline import components_of, find_stores, report_store_errors
from ap_ranker.search.setup import SearchSetup
from ap_ranker.threads import leave_what_lives, use_one_thread
from ap_ranker.web.gathered_search import GatheredSearch
from ap_ranker.web.served_search import ServedNow, ServedSearch
from ap_ranker.web.workers import SearchWorkers
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

logger = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that a start waits for the answers: those of a small FAQ, or of an earlier run, are encoded by then."""

REPORT_SECONDS = 5.0
"""Between two lines of the log about how far it is."""

LOOK_SECONDS = 0.2
"""Between two looks at how far it is, while the start waits."""


class BackgroundStart:
    """A search whose answers, the documents in its stores, are encoded in a thread of its own. Threads may share it.

    With more than one of the `workers`, processes search instead of this one. An InputError within `PATIENCE` is
    raised; a later one is logged. So is how far it is, of which `on_progress` is told until then.
    """

    def __init__(
        self,
        search: DeclaredPipeline,
        setup: SearchSetup,
        documents: Sequence[Document],
        workers: int,
        on_progress: Progress = untold,
    ) -> None:
        self.count = workers
        self._search = search
        self._setup = setup
        self._documents = documents
        self._gathered = GatheredSearch(search)
        self._ranks: DeclaredPipeline | SearchWorkers | None = None
        self._reported = time.monotonic()
        self._encoded = (0, len(documents))  # how many, and of how many
        self._closed = False
        self._started = time.time()
        stores = find_stores(search.pipeline)
        self._store = next((store for store in stores if isinstance(store, BM25SDocumentStore)), None)
        self._thread = ThreadPoolExecutor(1, "background start")
        self._thread.submit(torch.get_num_threads).result()  # as many as the machine has, for this thread
        use_one_thread()  # the other threads; that one takes what is left of the machine
        self._preparing = self._thread.submit(self._prepare)
        self._wait_for_answers(on_progress)
        if self._preparing.done():
            self._preparing.result()
        else:
            logger.info("The answers are being encoded. Until then, BM25 alone finds answers.")
        self._preparing.add_done_callback(self._tell_end)

    def answer(self, question: str, limits: Limits = NO_LIMITS) -> tuple[list[Document], Decision]:
        """As `DeclaredPipeline.answer`; before the answers are encoded, the best by BM25, each of them a maybe."""
        if self.processes is not None:
            return self.processes.answer(question, limits)
        if self._ranks is not None:
            return self._gathered.answer(question, limits)
        assert self._store is not None, "the start waits for any other"
        ranker = self._search.ranker()
        top_k = ranker.top_k if ranker else 5
        with report_store_errors(self._search.path, self._search.place, question):
            documents: list[Document] = self._store.bm25_retrieval(question, top_k=top_k)
            outcome = Outcome.MAYBE if documents else Outcome.NONE
            return documents, Decision(outcome, None, basis=Basis.NOTHING)

    @property
    def processes(self) -> SearchWorkers | None:
        """The processes that search, if there are some, and they have begun."""
        return self._ranks if isinstance(self._ranks, SearchWorkers) else None

    def explain(self, question: str, document: Document) -> tuple[str, str, Explanation]:
        """As `DeclaredPipeline.explain`."""
        return (self._ranks or self._search).explain(question, document)

    def close(self) -> None:
        """Encode no more, and wait: a process whose threads compute when it ends may be aborted."""
        self._closed = True
        self._thread.shutdown()
        if self.processes is not None:
            self.processes.close()

    @property
    def served(self) -> ServedSearch | None:
        """What answers now: BM25 alone, until the answers are encoded."""
        if self._ranks is None:
            return ServedSearch(self._search.path.stem, self._started)
        return self._served_now() if self.processes is None else self.processes.served

    @property
    def cache_info(self) -> CacheInfo | None:
        """As `DeclaredPipeline.cache_info`."""
        return (self._ranks or self._search).cache_info

    def _prepare(self) -> None:
        search = self._search
        setup = self._setup
        logger.info("%s", search.describe_decisions(setup.limits))
        if self.count == 1 or setup.keep:  # for processes, so that each finds them in the user's cache
            with report_store_errors(search.path, search.place):
                search.encode(self._documents[:1], setup.limits)  # says what is wrong with the limits, first
                search.embed_documents(self._report)
                search.encode(self._documents, setup.limits, on_progress=self._report, seconds=float("inf"))
            setup.warm_up(search, self._documents)
        leave_what_lives()
        if self.count == 1:
            self._served_now = ServedNow(search)
            self._ranks = search
            return
        self._ranks = SearchWorkers(setup, self.count)
        for part in components_of(search.pipeline):
            if hasattr(part, "close"):
                part.close()  # this process needs the memory for nothing

    def _wait_for_answers(self, on_progress: Progress) -> None:
        """Wait for the answers, of a store that finds none without a model until they are encoded."""
        end = time.monotonic() + (math.inf if self._store is None else PATIENCE)
        while not self._preparing.done() and time.monotonic() < end:
            on_progress("encoding the answers", *self._encoded)
            wait([self._preparing], LOOK_SECONDS)

    def _report(self, done: int, total: int) -> None:
        if self._closed:
            raise RuntimeError("the server ends")
        self._encoded = done, total
        if time.monotonic() - self._reported > REPORT_SECONDS:
            self._reported = time.monotonic()
            logger.info("Encoded %s of %s answers.", f"{done:,}", f"{total:,}")

    def _tell_end(self, preparing: Future[None]) -> None:
        error = preparing.exception()
        if error is None:
            logger.info("The answers are encoded, and ranked by the model.")
        elif self._closed:
            logger.info("The server ends before all answers are encoded.")
        elif isinstance(error, InputError):
            logger.error("%s BM25 alone finds answers.", error)
        else:
            logger.error("The answers could not be encoded. BM25 alone finds answers.", exc_info=error)


Search: TypeAlias = DeclaredPipeline | SearchWorkers | BackgroundStart
