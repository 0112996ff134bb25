"""A tracer that keeps its spans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from haystack import tracing
from haystack.tracing import Span, Tracer


class SpyingSpan(Span):
    def __init__(self, operation: str, tags: dict[str, Any] | None) -> None:
        self.operation = operation
        self.tags = dict(tags or {})

    def set_tag(self, key: str, value: Any) -> None:
        self.tags[key] = value

    @property
    def ours(self) -> dict[str, Any]:
        """The tags of ap-ranker."""
        return {key: value for key, value in self.tags.items() if key.startswith("ap_ranker.")}


class SpyingTracer(Tracer):
    """Knows the current span of each task and thread, as real tracers do."""

    def __init__(self) -> None:
        self.spans: list[SpyingSpan] = []
        self._current: ContextVar[SpyingSpan | None] = ContextVar("span", default=None)

    @contextmanager
    def trace(
        self, operation_name: str, tags: dict[str, Any] | None = None, parent_span: Span | None = None
    ) -> Iterator[Span]:
        span = SpyingSpan(operation_name, tags)
        self.spans.append(span)
        token = self._current.set(span)
        try:
            yield span
        finally:
            self._current.reset(token)

    def current_span(self) -> Span | None:
        return self._current.get()

    def named(self, component: str) -> list[dict[str, Any]]:
        """Our tags of each run of a component."""
        return [span.ours for span in self.spans if span.tags.get("haystack.component.name") == component]


@contextmanager
def spying() -> Iterator[SpyingTracer]:
    """Haystack's tracer meanwhile."""
    tracer = SpyingTracer()
    tracing.enable_tracing(tracer)
    try:
        yield tracer
    finally:
        tracing.disable_tracing()
