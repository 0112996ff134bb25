"""A server is ready only while its index in Elasticsearch could answer in full (of lost nodes: test_cluster.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from web.visiting import client_of

from ap_ranker.data.faq import Match
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import readiness
from elastic.conftest import Search
from elastic.test_index import FAQ, index


@pytest.fixture(autouse=True)
def asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(readiness, "PATIENCE_SECONDS", 60.0)


@pytest.fixture
def served(search: Search, checkpoint: Path) -> Iterator[DeclaredPipeline]:
    search.write_pipelines(checkpoint, client_settings={"max_retries": 0})
    index(search, FAQ)
    pipeline = DeclaredPipeline.load(search.searching)
    pipeline.fill(None, Match.both)
    pipeline.prepare()
    yield pipeline


def close(search: Search) -> None:
    search.request("POST", f"{search.current()}/_close")


def delete(search: Search) -> None:
    search.request("DELETE", search.current())


def revoke_key(search: Search) -> None:
    reason = {"type": "security_exception", "reason": "the key is revoked"}
    search.proxy.before = lambda method, path: (401, {"error": reason, "status": 401})


def end(search: Search) -> None:
    def drop(method: str, path: str) -> None:
        raise ConnectionError

    search.proxy.before = drop


@pytest.mark.parametrize("happens", [close, delete, revoke_key, end], ids=lambda each: each.__name__)
def test_it_is_not_ready(search: Search, served: DeclaredPipeline, happens: Callable[[Search], None]) -> None:
    with client_of(served) as client:
        assert client.get("/health/ready").status_code == 200
        assert client.post("/api/search", json={"question": FAQ[2][0]}).status_code == 200
        happens(search)
        assert client.get("/health/ready").status_code == 503
        asked = client.post("/api/search", json={"question": FAQ[2][0]})
        assert asked.status_code == 503, "no answer is no `none`"
        assert client.get("/health/live").status_code == 200


def test_it_is_ready_again(search: Search, served: DeclaredPipeline) -> None:
    with client_of(served) as client:
        end(search)
        assert client.get("/health/ready").status_code == 503
        search.proxy.before = lambda method, path: None
        assert client.get("/health/ready").status_code == 200
        assert client.post("/api/search", json={"question": FAQ[2][0]}).status_code == 200
