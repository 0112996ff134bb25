"""Numbers of a server for Prometheus. No label has a value that a client chooses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Receive, Scope, Send

from ap_ranker.serving.search import DeclaredPipeline

if TYPE_CHECKING:
    from ap_ranker.serving.connections import Connections

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)


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


class Metrics:
    """Of one server.

    Args:
        search: whose ranker has a cache.
        threads: that search.
        connections: of the server, if it tells them.
    """

    def __init__(self, search: DeclaredPipeline, threads: CountingThreads, connections: Connections | None) -> None:
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "ap_ranker_request_seconds",
            "From a request's head to the end of its answer.",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._refusals = Counter(
            "ap_ranker_refusals", "Requests that were not answered as asked.", ["reason"], registry=self._registry
        )
        Info("ap_ranker_build", "What runs.", registry=self._registry).info({"version": version("ap-ranker")})
        ProcessCollector(registry=self._registry)
        self._registry.register(_State(search, threads, connections))

    def refused(self, reason: str) -> None:
        """Count a refusal."""
        self._refusals.labels(reason).inc()

    def answered(self, route: str, seconds: float) -> None:
        """Count an answer."""
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self._registry)


class _State(Collector):
    """What others count, read when it is asked for."""

    def __init__(self, search: DeclaredPipeline, threads: CountingThreads, connections: Connections | None) -> None:
        self._search = search
        self._threads = threads
        self._connections = connections

    def collect(self) -> Iterator[Metric]:
        """See the base."""
        yield GaugeMetricFamily("ap_ranker_searches_waiting", "Searches in the queue.", self._threads.waiting)
        yield GaugeMetricFamily("ap_ranker_searches_running", "Searches at work.", self._threads.running)
        if self._connections is not None:
            yield GaugeMetricFamily("ap_ranker_connections", "Open connections.", len(self._connections.open))
            closed = CounterMetricFamily("ap_ranker_connections_closed", "By the server.", labels=["reason"])
            for reason in ("slow", "crowded", "refused"):
                closed.add_metric([reason], self._connections.closed[reason])
            yield closed
        ranker = self._search.ranker()
        if ranker is not None and (cache := ranker.cache_info) is not None:
            yield CounterMetricFamily("ap_ranker_cache_hits", "Texts that the cache held.", cache.hits)
            yield CounterMetricFamily("ap_ranker_cache_misses", "Texts that had to be encoded.", cache.misses)
            yield GaugeMetricFamily("ap_ranker_cache_entries", "Texts in the cache.", cache.entries)
            yield GaugeMetricFamily("ap_ranker_cache_bytes", "What they take.", cache.bytes)


class Measured:
    """ASGI middleware that measures how long answers take."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Collection[str]) -> None:
        self.app = app
        self.metrics = metrics
        self.routes = frozenset(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        try:
            await self.app(scope, receive, send)
        finally:
            route = scope["path"] if scope["path"] in self.routes else "other"
            self.metrics.answered(route, time.perf_counter() - started)
