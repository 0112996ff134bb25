"""Slow clients on every route of a whole server: a byte at a time, of what they send and of what they read."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import write_faq
from sqlalchemy import insert
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from fastapi import FastAPI
from starlette.routing import Route

from ap_ranker.data.faq import Match
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import connections, limits
from ap_ranker.web.app import build_app
from ap_ranker.web.database import now, questions
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.owner.routes import FORMS, OwnersPage
from ap_ranker.web.owner.service import OwnerService

from .test_connections import Running, running
from .visiting import judgements_of

KEY = "7c1f6a02d94be853b7a1"
LOGGED = 4000
"""Number of logged questions, each of 200 characters: their table is larger than what a connection holds."""

PAUSE = 0.05
"""Seconds between two bytes: with limits of a twentieth, a client that sends one a second."""


@pytest.fixture
def app(search: DeclaredPipeline, tmp_path: Path) -> FastAPI:
    """All that `ap-ranker serve` has, with the owner's page."""
    write_faq(tmp_path / "FAQ.csv")
    kept: Judgements = judgements_of(search)
    row = {"time": now(), "outcome": "none", "entry": "", "score": None}
    rows = [row | {"question": f"{number} " + "x" * 200, "question_key": f"k{number}"} for number in range(LOGGED)]
    with kept.database.writing("questions") as connection:
        connection.execute(insert(questions), rows)
    documents = WatchedFolder(tmp_path / "FAQ.csv")
    documents.read()
    owner_service = OwnerService(search, documents, Match.both, kept.database, logged=True)
    return build_app(search, kept, owner=OwnersPage(KEY, owner_service))


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth."""
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(connections, "DEAF_SECONDS", 1.5)
    monkeypatch.setattr(limits, "ARRIVAL_SECONDS", 0.5)


def routes_of(app: FastAPI) -> list[tuple[str, str]]:
    """The method and the path of each route, and of one that is not there."""
    routes = [route for route in app.routes if isinstance(route, Route)]
    pairs = {(method, route.path) for route in routes for method in route.methods or () if method != "HEAD"}
    assert {("POST", "/api/search"), ("GET", "/health"), ("GET", "/owner/usage.csv"), ("GET", "/")} <= pairs
    return sorted({*pairs, ("GET", "/nowhere"), ("POST", "/nowhere"), ("PUT", "/api/search")})


def head_of(method: str, path: str, length: int) -> bytes:
    kind = "application/x-www-form-urlencoded" if path in FORMS else "application/json"
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {KEY}"]
    if method != "GET":
        lines += [f"Content-Type: {kind}", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode()


def held(made: Running) -> int:
    """How many connections the server holds."""
    port = made.address[1]
    return sum(one.laddr.port == port and one.status != "LISTEN" for one in psutil.Process().net_connections("tcp"))


class Trickle:
    """Sends what each connection still has, a byte at a time, or reads a byte at a time, until all are closed."""

    def __init__(self, rest: dict[socket.socket, bytes]) -> None:
        self._rest = {connection: [*content] for connection, content in rest.items()}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def _go_on(self) -> None:
        while not self._ended.wait(PAUSE):
            for connection, rest in self._rest.items():
                try:
                    if rest:
                        connection.send(bytes([rest.pop(0)]))
                    else:
                        connection.recv(1)
                except OSError:
                    pass

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def longest_answer(made: Running, seconds: float) -> float:
    """How long another client waits at most, who asks all the time."""
    longest, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.monotonic()
        with made.connect() as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        longest = max(longest, time.monotonic() - started)
        time.sleep(0.05)
    return longest


@pytest.fixture
def made(app: Any) -> Iterator[Running]:
    with running(app) as made:
        yield made


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_byte_a_second_is_sent_to_every_route(app: FastAPI, made: Running, part: str) -> None:
    with ExitStack() as stack:
        rest = {}
        for method, path in routes_of(app):
            if part == "body" and method == "GET":
                continue
            connection = stack.enter_context(made.connect())
            connection.setblocking(False)
            head = head_of(method, path, length=1000)
            connection.send(head[:4] if part == "head" else head)
            rest[connection] = head[4:] + b"x" * 1000 if part == "head" else b"{" + b" " * 999
        assert len(rest) > 8
        trickle = Trickle(rest)
        try:
            assert longest_answer(made, seconds=1) < 2
            wait_until(lambda: held(made) == 0, seconds=30)  # what they send takes longer
        finally:
            trickle.end()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux closes them")
def test_a_byte_a_second_is_read_of_every_route(app: FastAPI, made: Running) -> None:
    """Of a table as large as the owner's page has, too."""
    with ExitStack() as stack:
        readers = {}
        for method, path in routes_of(app):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.connect(made.address)
            body = b"{}" if method != "GET" else b""
            connection.sendall(head_of(method, path, length=len(body)) + body)
            connection.setblocking(False)
            readers[connection] = b""
        trickle = Trickle(readers)
        try:
            assert longest_answer(made, seconds=1) < 2
            wait_until(lambda: held(made) == 0, seconds=60)
        finally:
            trickle.end()
