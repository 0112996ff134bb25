"""Whatever is slow, an answer comes in time, and the server says that it lives: tried with real servers."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import ROOT, write_checkpoint, write_faq
from forked import served
from searches import write_pipeline
from waiting import wait_until

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
    (DeclaredPipeline, "answer_each"),
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
    (service.OwnerService, "overview"),
    (service.OwnerService, "preview"),
    (routes, "usage_of"),
    (routes, "usage_table"),
):
    may_be_slow(owner, name)
"""
"""What a server does before anything else: each of these is busy for as long as the file `slow` has its name."""

QUESTION = {"question": "my parcel"}

STAGES = [
    ("answer_each", "api/search", QUESTION),
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
    ("overview", "owner/api/overview", {}),
    ("preview", "owner/api/preview", {"entry": "e", "wordings": ["w"]}),
    ("usage_of", "owner/api/usage", {}),
    ("usage_table", "owner/usage.csv", None),
]
"""Function that is slow, route that calls it, and what is sent there; `None` for a GET."""

HELD_STAGE = """
import re, time
from ap_ranker.web.page import markdown

to_html = markdown.to_html

def held(text):
    end = time.monotonic() + 3
    while time.monotonic() < end:
        re.match("(a+)+$", "a" * 21 + "b")  # holds Python's lock for tenths of a second
    return to_html(text)

markdown.to_html = held
"""
"""A `sitecustomize.py` of the search processes: presenting takes 3 seconds, in which nothing else of them runs."""

HOSTILE = {
    "groups of three digits": "000 " * 6000,
    "more groups": "000 " * 12_500,
    "empty lines": "\n" * 20_000 + "money",
    "a dotless i": "a" * 20_000 + " \N{LATIN SMALL LETTER DOTLESS I}",
    "a padded table": f"| a | b |\n|---|---|\n| x{' ' * 20_000}| y |",
    "one word": "money" * 3000,
    "nested lists": "".join("  " * depth + "- money\n" for depth in range(100)),
    "quotations": "> " * 300 + "money",
    "stars": "*" * 5000 + "money",
    "brackets": "[" * 3000 + "money" + "](" * 3000,
}
"""Answers that once held a server for seconds, and others of their kind."""


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
    folder = tmp_path_factory.mktemp("slow")
    write_checkpoint("ap-cnn", folder / "tiny")
    return folder


@pytest.fixture(scope="module")
def slow_server(folder: Path) -> Iterator[str]:
    """The address of a server whose stages are slow when the file `slow` names them."""
    pipeline = write_pipeline(folder, folder / "tiny")
    (folder / "slow").write_text("nothing")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AP_RANKER_OWNER_KEY", OWNER)
        options = ["--pipeline", str(pipeline), "--documents", str(write_faq(folder / "faq.csv")), "--rate", "0"]
        with served(*options, folder=folder, before=SLOW_STAGES) as server:
            yield server.address
            (folder / "slow").write_text("nothing")


@pytest.mark.slow  # its times hold on a machine that does nothing else
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


def test_the_end_does_not_wait_for_what_goes_on(folder: Path, tmp_path: Path) -> None:
    pipeline = write_pipeline(tmp_path, folder / "tiny")
    (tmp_path / "slow").write_text("nothing")
    options = ["--pipeline", str(pipeline), "--documents", str(write_faq(tmp_path / "faq.csv"))]
    with served(*options, folder=tmp_path, before=SLOW_STAGES) as server:
        (tmp_path / "slow").write_text("answer_each")
        assert httpx.post(f"{server.address}api/search", json=QUESTION, timeout=60).status_code == 503
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0


def test_what_holds_pythons_lock_in_a_search_process(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With processes that search, not even that holds the server's own one."""
    (tmp_path / "sitecustomize.py").write_text(HELD_STAGE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    pipeline = write_pipeline(tmp_path, folder / "tiny")
    options = ["--pipeline", str(pipeline), "--documents", str(write_faq(tmp_path / "faq.csv")), "--workers", "2"]
    before = f"from ap_ranker.web import limits; limits.ANSWER_SECONDS = {SECONDS}\n"
    with served(*options, folder=tmp_path, before=before) as server, ThreadPoolExecutor(4) as visitors:
        wait_until(lambda: 'ranks_by="model"' in httpx.get(f"{server.address}metrics").text, 120)
        started = time.monotonic()
        with watched(server.address) as lives:
            asked = [visitors.submit(httpx.post, f"{server.address}api/search", json=QUESTION) for _ in range(4)]
            assert [one.result().status_code for one in asked] == [503] * 4
        assert SECONDS <= time.monotonic() - started < 10 * SECONDS
        assert sorted(lives)[len(lives) * 9 // 10] < 0.2


@pytest.mark.slow  # its times hold on a machine that does nothing else
@pytest.mark.parametrize("workers", [1, 2])
def test_a_hostile_faq(folder: Path, tmp_path: Path, workers: int) -> None:
    """Twenty clients search it at once; all are answered, and whoever watches the server sees it live."""
    with (tmp_path / "faq.csv").open("w", encoding="utf-8", newline="") as file:
        rows = [(f"Where is my money? {name}", answer) for name, answer in HOSTILE.items()]
        csv.writer(file).writerows([("question", "answer"), *rows])
    pipeline = write_pipeline(tmp_path, folder / "tiny")
    options = ["--pipeline", str(pipeline), "--documents", "faq.csv", "--workers", str(workers), "--rate", "0"]
    with served(*options, folder=tmp_path) as server, ThreadPoolExecutor(20) as visitors:
        wait_until(lambda: 'ranks_by="model"' in httpx.get(f"{server.address}metrics").text, 120)
        questions = [{"question": f"Where is my money? {name}"} for name in HOSTILE]
        with watched(server.address) as lives:
            asked = []
            for question in questions * 6:
                asked.append(visitors.submit(httpx.post, f"{server.address}api/search", json=question, timeout=60))
            assert {one.result().status_code for one in asked} == {200}
        assert sorted(lives)[len(lives) * 9 // 10] < 0.2


@pytest.mark.parametrize(
    "sent", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)], ids=["SIGTERM", "Ctrl+C"]
)
def test_processes_end_without_a_warning(folder: Path, tmp_path: Path, sent: signal.Signals) -> None:
    """Of a fresh interpreter, whose helpers, too, write to its standard error."""
    pipeline = write_pipeline(tmp_path, folder / "tiny")
    options = ["--pipeline", str(pipeline), "--documents", str(write_faq(tmp_path / "faq.csv")), "--workers", "2"]
    command = [sys.executable, "-m", "ap_ranker", "serve", "--port", "0", *options]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **pipes) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+:\d+/", server.stdout.readline())
        assert found is not None
        wait_until(lambda: 'ranks_by="model"' in httpx.get(f"{found[0]}metrics").text, 120)
        assert httpx.post(f"{found[0]}api/search", json=QUESTION, timeout=60).status_code == 200
        if sent is signal.SIGINT:  # of a terminal, which sends it to all
            os.killpg(server.pid, sent)
        else:
            server.send_signal(sent)
        _, errors = server.communicate(timeout=120)
    assert server.returncode == 0
    assert not re.search("warn|traceback|leaked", errors.replace("WARNING", ""), re.IGNORECASE), errors
