"""Whatever is slow, an answer comes in time, and the server says that it lives: tried with real servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import write_checkpoint, write_faq
from forked import served
from searches import write_pipeline

pytestmark = pytest.mark.usefixtures("forking")

SECONDS = 1.0
"""Within which these servers answer, in place of 20."""

OWNER = "d41d8cd98f00b204e9800998ecf8427e"

SLOW_STAGES = f"""
import functools, time
from pathlib import Path
import haystack
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import app, limits, presented_search, search_routes, browse, signed_answers, suggestions, judgements
from ap_ranker.web.owner import routes, service

limits.ANSWER_SECONDS = {SECONDS}

def may_be_slow(owner, name):
    function = getattr(owner, name)

    @functools.wraps(function)
    def busy(*given, **named):
        while Path("slow").read_text() == name:
            end = time.monotonic() + 0.1
            while time.monotonic() < end:  # computes, and never waits
                pass
        return function(*given, **named)

    setattr(owner, name, busy)

for owner, name in (
    (DeclaredPipeline, "answer"),
    (presented_search, "presented"),
    (signed_answers.AnswerSigner, "sign"),
    (DeclaredPipeline, "explain"),
    (search_routes, "weighed"),
    (suggestions.Suggestions, "find"),
    (browse.Catalogue, "beginning"),
    (signed_answers.AnswerSigner, "read"),
    (judgements.Judgements, "keep"),
    (haystack.Pipeline, "run"),
    (app, "generate_latest"),
    (service.OwnerService, "entries"),
    (service.OwnerService, "gaps"),
    (service.OwnerService, "history"),
    (service.OwnerService, "feedback_rows"),
    (routes, "usage_of"),
    (routes, "usage_table"),
):
    may_be_slow(owner, name)
"""
"""What a server does before anything else: each of these is busy for as long as the file `slow` has its name."""

QUESTION = {"question": "my parcel"}

STAGES = [
    ("answer", "api/search", QUESTION),
    ("presented", "api/search", QUESTION),
    ("sign", "api/search", QUESTION),
    ("explain", "api/explain", QUESTION),
    ("weighed", "api/explain", QUESTION),
    ("find", "api/suggest", {"text": "whe"}),
    ("beginning", "api/browse", {}),
    ("read", "api/feedback", QUESTION | {"helped": True, "receipt": "x"}),
    ("keep", "api/feedback", QUESTION | {"helped": True, "receipt": "x"}),
    ("run", "search/run", {"query": "my parcel"}),
    ("generate_latest", "metrics", None),
    ("entries", "owner/api/entries", {}),
    ("gaps", "owner/api/gaps", {}),
    ("history", "owner/api/history", {}),
    ("feedback_rows", "owner/api/feedback", {}),
    ("usage_of", "owner/api/usage", {}),
    ("usage_table", "owner/usage.csv", None),
]
"""Function that is slow, route that calls it, and what is sent there; `None` for a GET."""


@contextmanager
def watched(address: str) -> Iterator[list[float]]:
    """Meanwhile, how long each question takes whether the server lives."""
    seconds: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        with httpx.Client(timeout=60) as client:
            while not ended.wait(0.02):
                started = time.monotonic()
                assert client.get(f"{address}health/live").json() == {"status": "ok"}
                seconds.append(time.monotonic() - started)

    with ThreadPoolExecutor(1) as thread:
        watching = thread.submit(watch)
        try:
            yield seconds
        finally:
            ended.set()
        watching.result()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slow")


@pytest.fixture(scope="module")
def slow_server(folder: Path) -> Iterator[str]:
    """The address of a server whose stages are slow when the file `slow` names them."""
    pipeline = write_pipeline(folder, write_checkpoint("ap-cnn", folder / "tiny"))
    (folder / "slow").write_text("nothing")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AP_RANKER_OWNER_KEY", OWNER)
        options = ["--pipeline", str(pipeline), "--documents", str(write_faq(folder / "faq.csv")), "--rate", "0"]
        with served(*options, folder=folder, before=SLOW_STAGES) as server:
            yield server.address
            (folder / "slow").write_text("nothing")


@pytest.mark.parametrize(("stage", "route", "body"), STAGES, ids=[f"{stage[1]} {stage[0]}" for stage in STAGES])
def test_an_answer_in_time(slow_server: str, folder: Path, stage: str, route: str, body: dict[str, Any] | None) -> None:
    """Each stage that is slow ends with a sentence, and so do many at once; afterwards, all goes on as before."""
    headers = {"Authorization": f"Bearer {OWNER}"}
    with httpx.Client(timeout=60, headers=headers) as client, ThreadPoolExecutor(3) as visitors:
        if body is not None and "question" in body:
            found = client.post(f"{slow_server}api/search", json=QUESTION).json()["answers"]
            body = body | ({} if route == "api/search" else {"id": found[0]["id"]})

        def ask() -> httpx.Response:
            if body is None:
                return client.get(f"{slow_server}{route}")
            return client.post(f"{slow_server}{route}", json=body)

        assert ask().status_code == 200
        (folder / "slow").write_text(stage)
        started = time.monotonic()
        with watched(slow_server) as lives:
            answers = list(visitors.map(lambda _: ask(), range(3)))
        assert [answer.status_code for answer in answers] == [503] * 3
        assert all("longer than 1 seconds" in answer.json()["error"] for answer in answers)
        assert SECONDS <= time.monotonic() - started < 10 * SECONDS
        assert sorted(lives)[len(lives) * 9 // 10] < 0.2
        (folder / "slow").write_text("nothing")
        assert ask().status_code == 200
