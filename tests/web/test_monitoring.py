"""What Prometheus is told, read with its own parser."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import write_checkpoint
from searches import ENTRIES, filled, write_pipeline
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from ap_ranker.errors import InputError
from ap_ranker.ranking.fingerprint import fingerprint
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import limits, presented_search, work
from ap_ranker.web.judgements import Judgements

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
    assert found["ap_ranker_encoded_answers_total", ()] == cache.encoded > 0
    assert found["ap_ranker_fetched_states_total", ()] == cache.fetched == 0
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


# --- who may read them ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "headers", "may"),
    [
        ("127.0.0.1", {}, True),
        ("::1", {}, True),
        ("127.0.0.1", {"Host": "[::1]:8000"}, True),
        ("192.0.2.1", {}, False),
        ("192.0.2.1", {"X-Forwarded-For": "127.0.0.1"}, False),
        ("10.0.0.7", {"X-Real-IP": "127.0.0.1"}, False),
        # A web server on the same machine, whose clients are anywhere, whatever it tells of them.
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.1"}, False),
        ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, False),
        ("127.0.0.1", {"X-Forwarded-Proto": "https"}, False),
        ("127.0.0.1", {"X-Forwarded-Host": "faq.example"}, False),
        ("127.0.0.1", {"Forwarded": "for=192.0.2.1"}, False),
        ("127.0.0.1", {"X-Real-IP": "192.0.2.1"}, False),
        ("127.0.0.1", {"Via": "1.1 caddy"}, False),
        ("127.0.0.1", {"X-Remote-User": "anna"}, False),
        ("127.0.0.1", {"Host": "faq.example"}, False),
        ("127.0.0.1", {"Host": "10.0.0.7"}, False),
    ],
)
def test_this_machine_alone_reads_them(
    search: DeclaredPipeline, address: str, headers: dict[str, str], may: bool
) -> None:
    client = client_of(search, address, hosts=["faq.example"], identity_header="X-Remote-User")
    response = client.get("/metrics", headers=headers)
    assert response.status_code == (200 if may else 403)
    assert may or list(response.json()) == ["error"]
    assert client.head("/metrics", headers=headers).status_code == response.status_code


def test_a_trusted_web_server_publishes_nothing(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    for proxies in ("*", "127.0.0.1", "192.0.2.0/24", ""):
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", proxies)
        for address in ("127.0.0.1", "192.0.2.1"):
            client = client_of(search, address)
            assert client.get("/metrics", headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 403


@pytest.mark.parametrize("address", ["127.0.0.1", "192.0.2.1"])
def test_with_a_key_it_alone_counts(search: DeclaredPipeline, address: str) -> None:
    client = client_of(search, address, api_key="k" * 20)
    assert client.get("/metrics").status_code == 401
    headers = {"Authorization": "Bearer " + "k" * 20, "X-Forwarded-For": "192.0.2.9"}
    assert client.get("/metrics", headers=headers).status_code == 200


# --- questions, errors, and what is served ----------------------------------------------------------------------------


def test_questions_are_timed(search: DeclaredPipeline) -> None:
    client = client_of(search, HERE)
    assert numbers(client)["ap_ranker_question_seconds_count", ()] == 0
    for _ in range(3):
        client.post("/api/search", json={"question": "parcel"})
    client.post("/api/suggest", json={"text": "parcel"})
    found = numbers(client)
    assert found["ap_ranker_question_seconds_count", ()] == 3
    assert found["ap_ranker_question_seconds_bucket", (("le", "+Inf"),)] == 3


def test_errors_by_kind(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise InputError("it does not work")

    client, question = client_of(search, HERE), {"question": "parcel"}
    first = client.post("/api/search", json=question).json()["answers"][0]
    with monkeypatch.context() as patch:
        patch.setattr(DeclaredPipeline, "answer", fail)
        assert client.post("/api/search", json=question).status_code == 503
    with monkeypatch.context() as patch:
        patch.setattr(Judgements, "keep", fail)
        said = question | {"id": first["id"], "receipt": first["receipt"], "helped": True}
        assert client.post("/api/feedback", json=said).status_code == 503
    with monkeypatch.context() as patch:
        patch.setattr(limits, "MAX_IN_PROGRESS", 0)
        assert client.post("/api/search", json=question).status_code == 503
    with monkeypatch.context() as patch:
        patch.setattr(presented_search, "presented", lambda *_, **__: 1 / 0)
        assert client.post("/api/search", json=question).status_code == 500
    with monkeypatch.context() as patch:
        patch.setattr(limits, "ANSWER_SECONDS", 0.1)
        patch.setattr(DeclaredPipeline, "answer", lambda *_: time.sleep(0.5))
        assert client.post("/api/search", json=question).status_code == 503
    client.post("/api/search", json={})  # is the client's
    errors = {labels[0][1]: value for (name, labels), value in numbers(client).items() if "errors_total" in name}
    assert errors == {"search": 1, "database": 1, "busy": 1, "bug": 1, "slow": 1}


def test_too_much_is_unfinished(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that nobody waits for any more, in threads that are all held, is bounded; later all goes on."""
    enough, answer = threading.Event(), DeclaredPipeline.answer
    with client_of(search, HERE) as client, ThreadPoolExecutor(5) as users, monkeypatch.context() as patch:
        patch.setattr(DeclaredPipeline, "answer", lambda *given: (enough.wait(120), answer(*given))[1])
        patch.setattr(limits, "ANSWER_SECONDS", 0.2)
        patch.setattr(work, "MOST_UNFINISHED", 20)
        asked = [users.submit(client.post, "/api/search", json={"question": "parcel"}) for _ in range(40)]
        answers = [one.result() for one in asked]
        assert {one.status_code for one in answers} == {503}
        assert sum("retry-after" in one.headers for one in answers) == 20
        enough.set()
        patch.setattr(limits, "ANSWER_SECONDS", 20.0)
        wait_until(lambda: client.post("/api/search", json={"question": "parcel"}).status_code == 200)


def test_the_search_that_is_served(tmp_path: Path) -> None:
    checkpoint = write_checkpoint("ap-cnn", tmp_path / "ranker")
    search = filled(write_pipeline(tmp_path, checkpoint))
    client = client_of(search, HERE)
    before = numbers(client)
    (labels,) = [dict(labels) for name, labels in before if name == "ap_ranker_search_info"]
    assert labels == {
        "pipeline": "search",
        "ranks_by": "model",
        "recommended": "unknown",
        "aged": "no",
        "checkpoint": "ranker",
        "fingerprint": fingerprint(checkpoint)[:12],
        "trained": "yes",
        "basis": "nothing",
    }
    since = before["ap_ranker_search_since_seconds", ()]
    assert time.time() - 600 < since <= time.time()
    assert before["ap_ranker_entries", ()] == len(ENTRIES) + 1
    untrained = write_checkpoint("qa-cnn", tmp_path / "other", training={"epochs": 0})
    search.become(filled(write_pipeline(tmp_path, untrained)))
    after = numbers(client)
    (labels,) = [dict(labels) for name, labels in after if name == "ap_ranker_search_info"]
    assert (labels["checkpoint"], labels["trained"]) == ("other", "no")
    assert labels["fingerprint"] == fingerprint(untrained)[:12]
    assert after["ap_ranker_search_since_seconds", ()] > since
