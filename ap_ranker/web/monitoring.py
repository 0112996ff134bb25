"""Prometheus metrics of a server. Clients cannot choose the value of any label."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ap_ranker.web.background_start import Search

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)


class CacheMetrics(Collector):
    """The counts that a search keeps of its cache, read whenever they are asked for."""

    def __init__(self, search: Search) -> None:
        self._search = search

    def collect(self) -> Iterator[Metric]:
        """Yield them; none without a cache."""
        if (cache := self._search.cache_info) is not None:
            yield CounterMetricFamily("ap_ranker_cache_hits", "Texts found in the cache.", cache.hits)
            yield CounterMetricFamily("ap_ranker_cache_misses", "Texts that had to be encoded.", cache.misses)
            yield GaugeMetricFamily("ap_ranker_cache_entries", "Texts in the cache.", cache.entries)
            yield GaugeMetricFamily("ap_ranker_cache_bytes", "Size of the cache.", cache.bytes)


class Measure:
    """ASGI middleware that measures requests, by route and by status, those that are refused or fail too."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry, routes: Collection[str]) -> None:
        self.app, self.routes = app, frozenset(routes)
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
        build = Info("ap_ranker_build", "The version that runs.", registry=registry)
        build.info({"version": version("ap-ranker")})
        ProcessCollector(registry=registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

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
