"""Searches in other processes give what a search in this one gives, and outlive the end of a process."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from conftest import TEXTS, write_faq
from forked import served
from haystack import Document
from refusals import refused
from searches import write_pipeline
from starlette.testclient import TestClient

from ap_ranker.data.faq import Match
from ap_ranker.documents.watched_folder import Overlay, WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.setup import SearchSetup
from ap_ranker.web import limits
from ap_ranker.web import workers as workers_module
from ap_ranker.web.app import build_app
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.workers import SearchWorkers

from .visiting import visit

pytestmark = pytest.mark.usefixtures("forking")

QUESTIONS = [*TEXTS[::2], "my parcel", "a bike?", "\N{BICYCLE}"]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a process loads for longer than a visitor would wait."""
    monkeypatch.setattr(limits, "ANSWER_SECONDS", 300.0)


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> SearchSetup:
    folder = tmp_path_factory.mktemp("workers")
    (folder / "wordings.csv").write_text(f'question,answer\nwhat about two wheels,"{TEXTS[1]}"\n')
    pipeline = write_pipeline(folder, checkpoint)
    documents = WatchedFolder(write_faq(folder / "faq.csv"))
    documents.read()
    return SearchSetup(pipeline, documents, Match.both, [folder / "wordings.csv"], {"score_threshold": -1.0})


@pytest.fixture(scope="module")
def alone(setup: SearchSetup) -> DeclaredPipeline:
    search, documents = setup.load()
    search.warm_up(documents, setup.limits)
    return search


@pytest.fixture(scope="module")
def workers(setup: SearchSetup) -> Iterator[SearchWorkers]:
    workers = SearchWorkers(setup, 2)
    yield workers
    workers.close()


def test_the_same_answers_at_the_same_time(workers: SearchWorkers, alone: DeclaredPipeline) -> None:
    questions = [f"{question} {number}" for number in range(20) for question in QUESTIONS]
    with ThreadPoolExecutor(40) as users:
        found = list(users.map(lambda question: workers.answer(question, {"score_threshold": -1.0}), questions))
    for question, (documents, decision) in zip(questions, found, strict=True):
        expected, expected_decision = alone.answer(question, {"score_threshold": -1.0})
        assert decision == expected_decision
        assert [document.id for document in documents] == [document.id for document in expected]
        assert [document.meta for document in documents] == [document.meta for document in expected]
        # Questions that are encoded together differ from one alone by what sums of floats differ.
        scores = [document.score for document in expected]
        assert [document.score for document in documents] == pytest.approx(scores, abs=1e-5)


def test_both_processes_search(workers: SearchWorkers) -> None:
    with ThreadPoolExecutor(8) as users:
        list(users.map(workers.answer, [f"question {number}" for number in range(64)]))
    own = {process.pid for process in workers._processes.values()}
    assert len(own) == 2
    assert own <= {process.pid for process in active_children()}
    caches = [reply.cache for reply in workers._replies.values()]
    assert all(cache is not None and cache.hits + cache.misses > 0 for cache in caches)


def test_explanations(workers: SearchWorkers, alone: DeclaredPipeline) -> None:
    document = alone.run("my parcel")[0]
    *texts, explanation = workers.explain("my parcel", document)
    *expected_texts, expected = alone.explain("my parcel", document)
    assert texts == expected_texts
    assert rounded(asdict(explanation)) == rounded(asdict(expected))


def test_counts_of_the_caches(workers: SearchWorkers) -> None:
    workers.answer("my parcel")
    info = workers.cache_info
    assert info is not None
    assert info.entries == 2 * len(TEXTS[::2])  # each process holds all answers
    assert info.hits > 0


def test_an_error_is_the_users_sentence(workers: SearchWorkers, alone: DeclaredPipeline) -> None:
    with pytest.raises(InputError) as expected:
        alone.answer("my parcel", {"precision": 9.0})
    with pytest.raises(InputError, match="precision") as found:
        workers.answer("my parcel", {"precision": 9.0})
    assert str(found.value) == str(expected.value)
    assert workers.answer("my parcel")  # the process goes on


def test_what_is_wrong_is_said_at_the_start(setup: SearchSetup, tmp_path: Path) -> None:
    before = {*active_children()}
    with pytest.raises(InputError, match="nowhere"):
        SearchWorkers(replace(setup, wordings=[tmp_path / "nowhere.csv"]), 2)
    assert {*active_children()} == before


def test_a_process_that_is_killed_is_replaced(setup: SearchSetup) -> None:
    workers = SearchWorkers(setup, 1)
    try:
        before = workers.answer("my parcel")
        workers._processes[0].kill()
        workers._processes[0].join()
        assert workers.answer("my parcel") == before, "nobody's question fails with a process that had no question"

        searching = psutil.Process(workers._processes[0].pid)
        searching.suspend()
        with ThreadPoolExecutor(1) as users:
            asked = users.submit(workers.answer, "my parcel")
            while workers._jobs or not asked.running():
                time.sleep(0.05)
            time.sleep(0.2)
            searching.kill()
            with pytest.raises(InputError, match="a search process ended"):
                asked.result()
        assert workers.answer("my parcel") == before
    finally:
        workers.close()
    with pytest.raises(InputError, match="about to end"):
        workers.answer("my parcel")


def test_a_process_that_is_killed_while_it_loads_is_replaced_after_a_pause(
    setup: SearchSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "RETRY_SECONDS", 3.0)
    with closing(SearchWorkers(setup, 1)) as workers, ThreadPoolExecutor(1) as users:
        before = workers.answer("my parcel")
        searching = workers._processes[0]
        searching.kill()
        searching.join()
        asked = users.submit(workers.answer, "my parcel")
        loading = next_process(workers, searching)
        loading.kill()
        killed = time.monotonic()
        next_process(workers, loading)
        assert time.monotonic() - killed > 2.5
        assert asked.result() == before


def test_the_server_ends_while_a_process_starts(setup: SearchSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    is_starting, may_start, start = threading.Event(), threading.Event(), BaseProcess.start

    def start_slowly(self: BaseProcess) -> None:
        is_starting.set()
        may_start.wait(60)
        start(self)

    workers = SearchWorkers(setup, 1)
    searching = workers._processes[0]
    monkeypatch.setattr(BaseProcess, "start", start_slowly)
    searching.kill()
    searching.join()
    others = {*active_children()}
    with ThreadPoolExecutor(2) as users:
        asked = users.submit(workers.answer, "my parcel")
        is_starting.wait(60)
        closed = users.submit(workers.close)
        with pytest.raises(InputError):
            asked.result()
        may_start.set()
        closed.result()
    assert {*active_children()} <= others


def test_what_cannot_be_sent_to_a_process(setup: SearchSetup) -> None:
    """It is refused at once, and the next question is answered."""
    document = Document(content=TEXTS[1], meta={"lock": threading.Lock()})
    with closing(SearchWorkers(setup, 1)) as workers:
        with refused("search process … failed"):
            workers.explain("my parcel", document)
        assert workers.answer("my parcel")

    overlay = Overlay(version=lambda: 0, lay=lambda entries: entries)
    assert setup.documents is not None
    documents = WatchedFolder(setup.documents.path, overlay=overlay)
    documents.read()
    with refused("search process … failed"):
        SearchWorkers(replace(setup, documents=documents), 1)


def next_process(workers: SearchWorkers, before: BaseProcess) -> BaseProcess:
    """The process in place of one before."""
    while workers._processes[0] is before:
        time.sleep(0.05)
    return workers._processes[0]


def test_the_page_searches_in_processes(workers: SearchWorkers, alone: DeclaredPipeline, tmp_path: Path) -> None:
    judgements = Judgements(open_database(tmp_path / "faq.db"))
    here = TestClient(build_app(alone, judgements), "http://localhost")
    there = visit(build_app(alone, judgements, workers=workers), "127.0.0.1")
    for path, more in (("/api/search", {}), ("/api/explain", {"id": alone.run("my parcel")[0].id})):
        found, expected = (client.post(path, json={"question": "my parcel", **more}) for client in (there, here))
        assert found.status_code == expected.status_code == 200
        assert rounded(found.json()) == rounded(expected.json())
    info = workers.cache_info
    assert info is not None
    assert f"ap_ranker_cache_hits_total {float(info.hits)}" in there.get("/metrics").text


def rounded(value: Any) -> Any:
    """Without what is signed, at another time, and what sums of floats differ by."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items() if name != "receipt"}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 5) if isinstance(value, float) else value


@pytest.mark.parametrize(
    "sent", [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGTERM, signal.SIGINT))]
)
def test_processes_end_with_the_server(tmp_path: Path, checkpoint: Path, sent: signal.Signals) -> None:
    pipeline, faq = write_pipeline(tmp_path, checkpoint), write_faq(tmp_path / "faq.csv")
    options = ["--pipeline", str(pipeline), "--documents", str(faq), "--workers", "2"]
    with served(*options, folder=tmp_path) as server:
        entries = f"ap_ranker_cache_entries {2.0 * len(TEXTS[::2])}"  # those of both processes
        while entries not in httpx.get(f"{server.address}metrics", timeout=60).text:
            time.sleep(0.1)
        children = psutil.Process(server.process.pid).children(recursive=True)
        answer = httpx.post(f"{server.address}api/search", json={"question": "my parcel"}, timeout=60)
        assert answer.json().get("answers"), answer.text
        for child in children:
            child.send_signal(signal.SIGTERM)  # as a service manager may do; they first answer what was asked
        answer = httpx.post(f"{server.address}api/search", json={"question": "my parcel"}, timeout=60)
        assert answer.json().get("answers"), answer.text
        server.process.send_signal(sent)
        server.process.wait(60)
        gone, alive = psutil.wait_procs(children, timeout=30)
        assert len(gone) >= 2
        assert not alive
