"""What Prometheus is told, read with its own parser."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import limits

from .visiting import client_of

HERE = "127.0.0.1"
"""The address of a program on the server's machine."""

Sample = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def numbers(client: TestClient) -> Sample:
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    families = list(text_string_to_metric_families(response.text))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_what_was_asked_and_answered(search: DeclaredPipeline) -> None:
    client = client_of(search, HERE)
    for _ in range(3):
        client.post("/api/search", json={"question": "parcel"})
    client.post("/search/run", json={"query": "parcel"})
    found = numbers(client)
    count = "ap_ranker_request_seconds_count"
    asked = ("route", "/api/search"), ("status", "200")
    assert found[count, asked] == 3
    assert found[count, (("route", "/search/run"), ("status", "200"))] == 1
    assert 0 < found["ap_ranker_request_seconds_sum", asked] < 60
    assert found["ap_ranker_request_seconds_bucket", (("le", "+Inf"), *asked)] == 3
    cache = search.ranker().cache_info  # type: ignore[union-attr]
    assert cache is not None
    assert found["ap_ranker_cache_hits_total", ()] == cache.hits > 0
    assert found["ap_ranker_cache_misses_total", ()] == cache.misses > 0
    assert found["ap_ranker_cache_entries", ()] == cache.entries > 0
    assert found["ap_ranker_cache_bytes", ()] == cache.bytes > 0
    assert found["process_resident_memory_bytes", ()] > 1e7
    (version,) = [labels for (name, labels) in found if name == "ap_ranker_build_info"]
    assert version[0][0] == "version"


def counts(text: str) -> dict[tuple[str, str], float]:
    """(route, status) -> number of requests."""
    return {
        (sample.labels["route"], sample.labels["status"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "ap_ranker_request_seconds_count"
    }


def test_refusals_and_failures(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(search, rate=5, api_key="k" * 20)
    client.get("/", headers={"Host": "evil.example"})
    client.post("/search/run", json={"query": "x"})
    client.post("/api/search", data={"question": "x"})
    client.post("/api/search", json={"question": "x" * 20_000})
    client.post("/api/feedback", json={"question": "x", "id": "0", "helped": True})
    with monkeypatch.context() as patch:
        patch.setattr(DeclaredPipeline, "answer", lambda *_: 1 / 0)
        client.post("/api/search", json={"question": "x"})
    for _ in range(12):
        client.post("/api/search", json={})
    found = counts(client.get("/metrics", headers={"Authorization": "Bearer " + "k" * 20}).text)
    assert found.pop(("/api/search", "429")) > 0
    assert found.pop(("/api/search", "422")) > 1
    assert found == {
        ("/", "400"): 1,
        ("/search/run", "401"): 1,
        ("/api/search", "415"): 1,
        ("/api/search", "413"): 1,
        ("/api/search", "500"): 1,
        ("/api/feedback", "404"): 1,
    }


def test_a_client_cannot_make_labels(search: DeclaredPipeline) -> None:
    client = client_of(search, HERE)
    for number in range(30):
        client.get(f"/{number}")
        client.request(f"M{number}", "/api/search")
    assert counts(client.get("/metrics").text) == {("other", "404"): 30, ("/api/search", "405"): 30}


def test_too_many_at_once(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_IN_PROGRESS", 0)
    client = client_of(search, HERE)
    response = client.post("/api/search", json={"question": "x"})
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert counts(client.get("/metrics").text) == {("/api/search", "503"): 1}


def test_requests_in_progress(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    enough, answer = threading.Event(), DeclaredPipeline.answer
    monkeypatch.setattr(DeclaredPipeline, "answer", lambda *given: (enough.wait(120), answer(*given))[1])
    with client_of(search, HERE) as client, ThreadPoolExecutor(5) as users:
        asked = [users.submit(client.post, "/api/search", json={"question": "parcel"}) for _ in range(5)]
        while numbers(client)["ap_ranker_requests_in_progress", ()] < 6:  # and the one that asks
            time.sleep(0.01)
        enough.set()
        assert [one.result().status_code for one in asked] == [200] * 5
        assert numbers(client)["ap_ranker_requests_in_progress", ()] == 1
