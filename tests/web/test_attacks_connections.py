"""Strangers' bytes on a real server's connections: HTTP/2 without encryption, WebSockets, what breaks protocols."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from contextlib import ExitStack

import hpack
import psutil
import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from starlette.types import Receive, Scope, Send
from waiting import wait_until

from ap_ranker.web import connections

from .test_connections import GET, App, read, running

HEADERS, PRIORITY, RESET, SETTINGS, PING, CONTINUATION = 1, 2, 3, 4, 6, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """A frame of HTTP/2 (RFC 9113, 4.1)."""
    return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + content


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)
NAMES = {b":method": b"GET", b":path": b"/", b":scheme": b"http", b":authority": b"localhost"}
HEAD = hpack.Encoder().encode(list(NAMES.items()))
ASKED = frame(HEADERS, END_STREAM | END_HEADERS, 1, HEAD)
UPGRADE = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: "


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(connections, "SILENT_SECONDS", 1)
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(connections, "ARRIVAL_SECONDS", 1.0)


def is_closed(connection: socket.socket, seconds: float = 20.0) -> bool:
    """Whether the server closes a connection on which nothing more is sent."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.parametrize(
    "sent",
    [
        PREFACE,
        PREFACE + frame(HEADERS, END_STREAM, 1, HEAD),
        PREFACE + frame(HEADERS, END_HEADERS, 1, HEAD),
        PREFACE + ASKED,
        PREFACE + frame(PING, 0, 0, b"12345678"),
        UPGRADE + b"h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        UPGRADE + b"websocket\r\n\r\n",
        UPGRADE + b"websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ],
    ids=["nothing", "head without end", "no body", "one request", "ping", "upgrade", "refused socket", "socket"],
)
def test_no_protocol_holds_a_connection_without_a_word(sent: bytes) -> None:
    with running(App()) as made, made.connect() as held:
        held.sendall(sent)
        assert is_closed(held)


def test_nobody_writes_into_the_log_by_going_before_the_answers(caplog: pytest.LogCaptureFixture) -> None:
    """Each answer to a client that was gone was a line."""
    caplog.set_level("INFO")
    app = App()
    with running(app) as made:
        for _ in range(3):
            with made.connect() as gone:
                gone.sendall(GET * 2000)
        wait_until(lambda: app.begun > 0)
        time.sleep(1)
        with made.connect() as user:
            user.sendall(GET)
            assert user.recv(100).startswith(b"HTTP/1.1 200")
    assert not [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]


def test_answers_that_the_end_cuts_off_are_no_errors(caplog: pytest.LogCaptureFixture) -> None:
    """Each was a traceback in the log."""
    caplog.set_level("INFO")
    app = App(seconds=30)
    with ExitStack() as ending:
        with running(app) as made:
            for _ in range(3):
                ending.enter_context(made.connect()).sendall(GET)
            wait_until(lambda: app.begun == 3)
        assert app.done == 0
    assert not [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]


@pytest.mark.parametrize(
    "sent",
    [
        UPGRADE + b"h2c\r\nHTTP2-Settings: !!!\r\n\r\n",
        PREFACE + ASKED + frame(PRIORITY, 0, 1, struct.pack(">IB", 1, 15)),
        PREFACE + b"".join(frame(PRIORITY, 0, 2 * each + 1, struct.pack(">IB", 0, 15)) for each in range(3000)),
        PREFACE + b"".join(frame(PRIORITY, 0, 2 * each + 1, struct.pack(">IB", 2 * each + 3, 15)) for each in range(9)),
        PREFACE + frame(HEADERS, 5, 1, hpack.Encoder().encode(list((NAMES | {b":path": b"/\xff"}).items()))),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["settings", "depends on itself", "priorities", "circle", "path", "TLS", "bytes"],
)
def test_nobody_writes_into_the_log(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A traceback for each broken connection would be gigabytes in an hour."""
    caplog.set_level("INFO")
    with running(App()) as made:
        with ExitStack() as ending:
            broken = [ending.enter_context(made.connect()) for _ in range(5)]
            for each in broken:
                each.sendall(sent)
            assert all(map(is_closed, broken))
        assert not [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]
        with made.connect() as user:
            user.sendall(GET)
            assert user.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("before", "again"),
    [
        (PREFACE + frame(HEADERS, END_STREAM, 1, HEAD), frame(CONTINUATION, 0, 1, bytes(16_000))),
        (PREFACE + frame(HEADERS, END_HEADERS, 1, HEAD), frame(0, 0, 1, bytes(16_000))),
        (PREFACE, frame(PING, 0, 0, b"12345678") * 900),
        (PREFACE, frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 70_000)) * 900),
        (UPGRADE + b"websocket\r\n\r\n", bytes(16_000)),
        (UPGRADE.replace(b"GET", b"POST") + b"websocket\r\nContent-Length: 999999999\r\n\r\n", bytes(16_000)),
    ],
    ids=["continuations", "body", "pings", "settings", "after a refused socket", "body of an upgrade"],
)
def test_floods_take_no_memory(before: bytes, again: bytes) -> None:
    """60 MB, or as much as the server takes in two seconds."""
    with running(App(seconds=1.0)) as made, made.connect() as flood:
        least, until = psutil.Process().memory_info().rss, time.monotonic() + 2
        most = least
        flood.settimeout(1)
        try:
            flood.sendall(before)
            for _ in range(60_000_000 // len(again)):
                flood.sendall(again)
                most = max(most, psutil.Process().memory_info().rss)
                if time.monotonic() > until:
                    break
        except OSError:
            pass  # it is closed, or not read any more
        assert most - least < 20_000_000
        with made.connect() as user:
            user.sendall(GET)
            assert user.recv(100).startswith(b"HTTP/1.1 200")


class Refusing(App):
    """Answers without reading what it is sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        self.begun += 1
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"no"})


@pytest.mark.parametrize("method", [b"POST", b"GET"])
@pytest.mark.parametrize("listens", [True, False], ids=["listens", "hangs up"])
def test_a_body_that_nobody_reads_holds_no_connection(method: bytes, listens: bool) -> None:
    """Of more pieces than the server keeps for the application: each such connection once stayed for ever."""
    head = method + b" / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with running(app := Refusing()) as made:
        port = made.address[1]
        for _ in range(5):
            with made.connect() as refused:
                refused.sendall(head + b"1\r\nx\r\n" * 2000)
                if listens:
                    assert is_closed(refused)
        wait_until(lambda: app.begun == 5)
        process = psutil.Process()
        wait_until(lambda: not [one for one in process.net_connections() if one.raddr and one.laddr.port == port])
        wait_until(lambda: len(asyncio.all_tasks(made.loop)) < 5)


def test_nobody_gets_past_a_web_server_by_upgrading() -> None:
    """Through one that sends such a request on, a visitor could else send more, as headers of a trusted web server."""
    app, names = App(), NAMES | {b"x-remote-user": b"anna", b"x-forwarded-for": b"192.0.2.1"}
    smuggled = frame(HEADERS, END_STREAM | END_HEADERS, 3, hpack.Encoder().encode(list(names.items())))
    with running(app) as made:
        with made.connect() as visitor:
            visitor.sendall(UPGRADE + b"h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
            time.sleep(0.2)
            visitor.sendall(PREFACE + smuggled)
            assert is_closed(visitor)
        with made.connect() as visitor:
            visitor.sendall(PREFACE + smuggled)
            assert is_closed(visitor)
        assert app.begun <= 1


def test_requests_that_are_taken_back_at_once() -> None:
    """Rapid reset (CVE-2023-44487): the connection ends, and the next user is answered."""
    app = App(seconds=0.2)
    with running(app) as made, made.connect() as flood:
        try:
            flood.sendall(PREFACE)
            for number in range(1, 40_000, 2):
                asked = frame(HEADERS, END_STREAM | END_HEADERS, number, HEAD)
                flood.sendall(asked + frame(RESET, 0, number, b"\0\0\0\x08"))
        except OSError:
            pass
        assert is_closed(flood)
        assert app.begun < 1000
        started = time.monotonic()
        with made.connect() as user:
            user.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert read(user).startswith(b"HTTP/1.1 200")
        assert time.monotonic() - started < 10


class Talkative:
    """Answers with more than any buffer holds, and does not care who listens."""

    begun = ended = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        self.begun += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"50000000")]})
            await send({"type": "http.response.body", "body": b"x" * 50_000_000})
        finally:
            self.ended += 1


def test_who_reads_no_answer_writes_no_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(connections, "DEAF_SECONDS", 0.5)
    app = Talkative()
    with running(app) as made, ExitStack() as opened:  # type: ignore[arg-type]  # another application
        for _ in range(5):
            opened.enter_context(made.connect()).sendall(GET)
        wait_until(lambda: app.ended == 5)
    assert app.begun == 5
    assert not [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]
