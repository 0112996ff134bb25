"""PostgreSQL ends under load, and comes back: searches go on, clicks are refused, and nothing acknowledged is lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from conftest import TEXTS
from forked import Server, served
from postgres import Postgres, programs, running_postgres_server
from searches import write_pipeline
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")

OWNER_KEY = "ae5b0f6d9c1847e2b7"
VISITORS = 4
OWNER = {"Authorization": f"Bearer {OWNER_KEY}"}


@pytest.fixture
def postgres_server() -> Iterator[Postgres]:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with running_postgres_server() as server:
        yield server


class Visitors:
    """They ask, click and edit all the time; what the server said of it, by status, and what it acknowledged."""

    def __init__(self, address: str) -> None:
        self.searches: Counter[int] = Counter()
        self.clicks: Counter[int] = Counter()
        self.edits: Counter[int] = Counter()
        self.kept: set[str] = set()
        self.edited: set[str] = set()
        self.longest = 0.0
        self._address, self._ended = address, threading.Event()
        self._threads = [threading.Thread(target=self._visit, args=(number,)) for number in range(VISITORS)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _visit(self, visitor: int) -> None:
        with httpx.Client(base_url=self._address, timeout=60) as client:
            number = 0
            while not self._ended.is_set():
                number += 1
                network = {"X-Forwarded-For": f"10.{visitor}.{number // 250 % 250}.{number % 250}"}
                self._ask_and_click(client, f"{TEXTS[0]} {visitor} {number}", network)
                if number % 5 == 0:
                    question = f"new {visitor} {number}"
                    edit = {"action": "add entry", "question": question, "answer": "Here."}
                    status = client.post("/owner/api/change", json=edit, headers=OWNER).status_code
                    self.edits[status] += 1
                    if status == 200:
                        self.edited.add(question)

    def _ask_and_click(self, client: httpx.Client, question: str, network: dict[str, str]) -> None:
        started = time.monotonic()
        response = client.post("/api/search", json={"question": question}, headers=network)
        self.longest = max(self.longest, time.monotonic() - started)
        self.searches[response.status_code] += 1
        if response.status_code != 200:
            return
        answer = response.json()["answers"][0]
        said = {"question": question, "helped": True, "visit": "v", "id": answer["id"], "receipt": answer["receipt"]}
        status = client.post("/api/feedback", json=said, headers=network).status_code
        self.clicks[status] += 1
        if status == 200:
            self.kept.add(question)


@pytest.fixture
def served_with_postgres(
    tmp_path: Path, checkpoint: Path, postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Server, str]]:
    name = f"stopped_{uuid4().hex[:12]}"
    database = postgres_server.url.format(name=name)
    with psycopg.connect(postgres_server.url.format(name="postgres"), autocommit=True) as connection:
        connection.execute(f"create database {name}")
    rows = "".join(f'"{question}","{answer}"\n' for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True))
    (tmp_path / "FAQ.csv").write_text(f"question,answer\n{rows}")
    monkeypatch.setenv("AP_RANKER_OWNER_KEY", OWNER_KEY)
    write_pipeline(tmp_path, checkpoint)
    options = ["--documents", "FAQ.csv", "--pipeline", "search.yaml", "--database", database]
    options += ["--rate", "0", "--log-questions"]
    with served(*options, folder=tmp_path) as server:
        yield server, database


def test_postgresql_is_stopped_and_started_under_load(
    served_with_postgres: tuple[Server, str], postgres_server: Postgres
) -> None:
    server, database = served_with_postgres
    visitors = Visitors(server.address)
    try:
        for outage in range(1, 3):
            wait_until(lambda: len(visitors.kept) > 10 * outage)  # noqa: B023 -- it is called at once
            refused, searched = visitors.clicks[503], visitors.searches[200]
            postgres_server.stop()
            wait_until(lambda: visitors.clicks[503] >= refused + 5)  # noqa: B023
            wait_until(lambda: visitors.searches[200] >= searched + 10)  # noqa: B023
            assert httpx.post(f"{server.address}owner/api/feedback", json={}, headers=OWNER).status_code == 503
            assert httpx.get(f"{server.address}health").status_code == 200
            postgres_server.start()
            kept, edited = len(visitors.kept), len(visitors.edited)
            wait_until(lambda: len(visitors.kept) > kept + 5, seconds=30)  # noqa: B023
            wait_until(lambda: len(visitors.edited) > edited, seconds=30)  # noqa: B023
            assert httpx.post(f"{server.address}owner/api/feedback", json={}, headers=OWNER).status_code == 200
    finally:
        visitors.end()
    assert set(visitors.searches) == {200}
    assert visitors.longest < 15, "a search waits for the database"
    assert set(visitors.clicks) == set(visitors.edits) == {200, 503}
    with psycopg.connect(database) as connection:
        for table, kept in (("judgements", visitors.kept), ("changes", visitors.edited)):
            there = {question for (question,) in connection.execute(f"select question from ap_ranker_{table}")}
            assert kept <= there
