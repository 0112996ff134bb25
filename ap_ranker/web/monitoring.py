"""Prometheus metrics of a server. Clients cannot choose the value of any label."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Receive, Scope, Send

from ap_ranker.search.declared_pipeline import DeclaredPipeline

if TYPE_CHECKING:
    from ap_ranker.web.background_start import BackgroundStart
    from ap_ranker.web.workers import SearchWorkers

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)


class Metrics(Collector):
    """The metrics of one server: of its requests and its cache."""

    def __init__(self, search: DeclaredPipeline | SearchWorkers | BackgroundStart) -> None:
        self._search = search
        self._registry = registry = CollectorRegistry()
        self._seconds = Histogram(
            "ap_ranker_request_seconds",
            "Seconds from a request's head to the end of its answer.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self._refusals = Counter(
            "ap_ranker_refusals", "Requests that were refused or failed.", ["reason"], registry=registry
        )
        self.in_progress = Gauge(
            "ap_ranker_requests_in_progress", "Requests that are read, wait or are answered.", registry=registry
        )
        build = Info("ap_ranker_build", "The version that runs.", registry=registry)
        build.info({"version": version("ap-ranker")})
        ProcessCollector(registry=registry)
        registry.register(self)

    def refused(self, reason: str) -> None:
        """Count a refused request."""
        self._refusals.labels(reason).inc()

    def answered(self, route: str, seconds: float) -> None:
        """Record the duration of a request."""
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield those that other objects keep, read at each scrape."""
        if (cache := self._search.cache_info) is not None:
            yield CounterMetricFamily("ap_ranker_cache_hits", "Texts found in the cache.", cache.hits)
            yield CounterMetricFamily("ap_ranker_cache_misses", "Texts that had to be encoded.", cache.misses)
            yield GaugeMetricFamily("ap_ranker_cache_entries", "Texts in the cache.", cache.entries)
            yield GaugeMetricFamily("ap_ranker_cache_bytes", "Size of the cache.", cache.bytes)


class MeasureTime:
    """ASGI middleware that measures the duration of requests."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Collection[str]) -> None:
        self.app, self.metrics, self.routes = app, metrics, frozenset(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        try:
            with self.metrics.in_progress.track_inprogress():
                await self.app(scope, receive, send)
        finally:
            route = scope["path"] if scope["path"] in self.routes else "other"
            self.metrics.answered(route, time.perf_counter() - started)
