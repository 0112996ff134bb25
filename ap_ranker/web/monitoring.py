"""Prometheus metrics of a server. Clients cannot choose the value of any label."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import asdict
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ap_ranker.ranking.outcome import Outcome
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.background_start import Search
from ap_ranker.web.limits import Failure
from ap_ranker.web.served_search import ServedNow, ServedSearch

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)


class QuestionMetrics:
    """What becomes of the questions of the search page."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.outcomes = Counter("ap_ranker_questions", "Questions of the search page.", ["outcome"], registry=registry)
        for outcome in Outcome:
            self.outcomes.labels(outcome)  # is 0 at first
        self.seconds = Histogram(
            "ap_ranker_question_seconds",
            "Seconds from a question of the search page to its answer, or to its failure.",
            buckets=SECONDS,
            registry=registry,
        )


class SearchMetrics(Collector):
    """What a search says of itself, read whenever it is asked for: its cache, its entries, its checkpoint."""

    def __init__(self, search: Search, declared: DeclaredPipeline) -> None:
        self._search = search
        self._served_now = ServedNow(declared)
        self.entries: int | None = None  # as somebody who may wait for the store has counted them

    def served(self) -> ServedSearch | None:
        """The search that answers now; `None` before there is one."""
        return self._served_now() if isinstance(self._search, DeclaredPipeline) else self._search.served

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; none of a cache without one, nor of entries that nobody could count."""
        cache = self._search.cache_info
        if cache is not None:
            yield CounterMetricFamily("ap_ranker_cache_hits", "Texts found in the cache.", cache.hits)
            yield CounterMetricFamily("ap_ranker_cache_misses", "Texts that had to be encoded.", cache.misses)
            help_text = "Answers that had to be encoded here in order to rank them."
            yield CounterMetricFamily("ap_ranker_encoded_answers", help_text, cache.encoded)
            help_text = "Answers whose states came with documents of the store."
            yield CounterMetricFamily("ap_ranker_fetched_states", help_text, cache.fetched)
            yield GaugeMetricFamily("ap_ranker_cache_entries", "Texts in the cache.", cache.entries)
            yield GaugeMetricFamily("ap_ranker_cache_bytes", "Size of the cache.", cache.bytes)
        if self.entries is not None:
            yield GaugeMetricFamily("ap_ranker_entries", "Entries that are searched.", self.entries)
        served = self.served()
        if served is not None:
            labels = asdict(served)
            since = labels.pop("since")
            yield InfoMetricFamily("ap_ranker_search", "The search that answers.", labels)
            help_text = "When that search began to answer, in seconds since 1970."
            yield GaugeMetricFamily("ap_ranker_search_since_seconds", help_text, since)


class Measure:
    """ASGI middleware that measures requests, by route and by status, those that are refused or fail too."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry, routes: Collection[str]) -> None:
        self.app = app
        self.routes = frozenset(routes)
        self.seconds = Histogram(
            "ap_ranker_request_seconds",
            "Seconds from a request's head to the end of its answer.",
            ["route", "status"],
            buckets=SECONDS,
            registry=registry,
        )
        self.in_progress = Gauge(
            "ap_ranker_requests_in_progress", "Requests that are read, wait or are answered.", registry=registry
        )
        self.errors = Counter("ap_ranker_errors", "Requests that the server failed.", ["kind"], registry=registry)
        for kind in Failure:
            self.errors.labels(kind)  # is 0 at first
        build = Info("ap_ranker_build", "The version that runs.", registry=registry)
        build.info({"version": version("ap-ranker")})
        ProcessCollector(registry=registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500

        async def note_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            with self.in_progress.track_inprogress():
                await self.app(scope, receive, note_status)
        finally:
            route = scope["path"] if scope["path"] in self.routes else "other"
            self.seconds.labels(route, str(status)).observe(time.perf_counter() - started)
            if status >= 500:
                kind = scope.get("state", {}).get("failure", Failure.bug)
                self.errors.labels(kind).inc()
