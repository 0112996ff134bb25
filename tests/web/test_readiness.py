"""A server is ready if the store of its search and its database answer; whether it lives needs neither."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from waiting import wait_until

from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import readiness
from ap_ranker.web.database import Database
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

from .visiting import client_of


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(readiness, "KEPT_SECONDS", 0.0)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The store answers once this is set, and remembers how often it was asked."""
    answers_again, count = threading.Event(), BM25SDocumentStore.count_documents
    answers_again.asked = 0  # type: ignore[attr-defined]

    def counted(self: BM25SDocumentStore) -> int:
        answers_again.asked += 1  # type: ignore[attr-defined]
        answers_again.wait(60)
        return count(self)

    monkeypatch.setattr(BM25SDocumentStore, "count_documents", counted)
    yield answers_again
    answers_again.set()


def fail(*_: object) -> Any:
    raise ConnectionError("https://elastic:secret@store.example refused")


def test_ready(search: DeclaredPipeline) -> None:
    with client_of(search, api_key="k" * 20, rate=1) as client:
        for path in ("/health", "/health/live", "/health/ready") * 5:
            response = client.get(path)
            assert response.status_code == 200
            assert response.json()["status"] == "ok"


def test_a_store_that_fails(
    search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with client_of(search) as client:
        assert client.get("/health/ready").status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr(BM25SDocumentStore, "count_documents", fail)
            for _ in range(3):
                refused = client.get("/health/ready")
                assert refused.status_code == 503
                assert list(refused.json()) == ["error"]
                assert "store" in refused.json()["error"]
                assert "example" not in refused.text, "whoever asks learns nothing of the store"
                assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 200
    warnings = [record.getMessage() for record in caplog.records if "store.example" in record.getMessage()]
    assert len(warnings) == 1
    assert "secret" not in warnings[0]


def test_a_store_that_hangs_is_asked_once(search: DeclaredPipeline, stuck: threading.Event) -> None:
    """However many ask meanwhile."""
    with client_of(search) as client, ThreadPoolExecutor(10) as programs:
        asked = list(programs.map(lambda _: client.get("/health/ready").status_code, range(30)))
        assert asked == [503] * 30
        assert client.get("/health/live").status_code == 200
        assert stuck.asked == 1  # type: ignore[attr-defined]
        stuck.set()
        wait_until(lambda: client.get("/health/ready").status_code == 200)


def test_answers_count_for_a_second(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "KEPT_SECONDS", 60.0)
    counted, count = [], BM25SDocumentStore.count_documents
    monkeypatch.setattr(BM25SDocumentStore, "count_documents", lambda self: (counted.append(self), count(self))[1])
    with client_of(search, "127.0.0.1") as client:
        assert {client.get("/health/ready").status_code for _ in range(20)} == {200}
        assert client.get("/metrics").status_code == 200
    assert len(counted) == 1


def test_a_database_that_fails(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    with client_of(search) as client:
        monkeypatch.setattr(Database, "revision", lambda *_: (_ for _ in ()).throw(InputError("gone")))
        refused = client.get("/health/ready")
        assert (refused.status_code, list(refused.json())) == (503, ["error"])
        assert "database" in refused.json()["error"]
        assert client.get("/health/live").status_code == 200
