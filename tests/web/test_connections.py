"""Connections of a real server: those that hold it up are closed, and what was asked before its end is answered."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from starlette.types import Receive, Scope, Send

from ap_ranker.errors import InputError
from ap_ranker.web import connections
from ap_ranker.web.connections import serve_until
from ap_ranker.web.visitors import BehindProxies

ASK = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(connections, "DEAF_SECONDS", 0.5)


class App:
    """Answers when it may, and with as much as it is told to."""

    def __init__(self, seconds: float = 0.0, size: int = 2) -> None:
        self.seconds, self.size = seconds, size
        self.begun = self.done = self.failed = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        self.begun += 1
        if scope["method"] == "POST":
            await receive()
        await asyncio.sleep(self.seconds)
        headers = [(b"content-length", str(self.size).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            await send({"type": "http.response.body", "body": b"x" * self.size})
        except OSError:
            self.failed += 1
        else:
            self.done += 1


class Running:
    def __init__(self, app: App) -> None:
        listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.address = listening.getsockname()
        self.loop, self.end = asyncio.new_event_loop(), asyncio.Event()
        serving = serve_until(self.end.wait, app, listening)
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(serving,), daemon=True)
        self.thread.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=60)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.end.set)


@contextmanager
def running(app: App) -> Iterator[Running]:
    made = Running(app)
    try:
        yield made
    finally:
        made.stop()
        made.thread.join(120)
        assert not made.thread.is_alive()
        made.loop.close()


def read(connection: socket.socket) -> bytes:
    """Until it is closed, or nothing has come for a minute."""
    content = b""
    try:
        while part := connection.recv(65536):
            content += part
    except ConnectionResetError:
        content += b"(reset)"
    return content


def seconds_until_closed(connection: socket.socket, trickle: bytes = b"") -> float:
    """While a byte is sent every 50 ms."""
    started = time.monotonic()
    connection.settimeout(0.05)
    rest = list(trickle)
    while time.monotonic() - started < 30:
        try:
            if rest:
                connection.send(bytes([rest.pop(0)]))
            if not connection.recv(65536):
                break
        except TimeoutError:
            pass
        except OSError:
            break
    return time.monotonic() - started


def test_a_connection_that_says_nothing() -> None:
    with running(App()) as made, made.connect() as idle:
        assert 0.3 < seconds_until_closed(idle) < 20


@pytest.mark.parametrize(
    ("before", "trickle"),
    [
        (b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1000),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", b"x" * 1000),
        (GET, b"GET / HTTP/1.1\r\nX: " + b"x" * 1000),
        (b"", b"\r\n" * 500),
    ],
    ids=["head", "body of a GET", "second head", "empty lines"],
)
def test_a_request_that_trickles_in(before: bytes, trickle: bytes) -> None:
    """But for the body of a POST, of which tests/web/test_app.py tells."""
    with running(App()) as made, made.connect() as slow:
        slow.sendall(before)
        assert seconds_until_closed(slow, trickle) < 20  # all of it would take 50


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux closes them")
def test_an_answer_that_nobody_reads() -> None:
    app = App(size=50_000_000)
    with running(app) as made, made.connect() as deaf:
        deaf.sendall(GET)
        wait_until(lambda: app.failed + app.done == 1)  # the server may keep to itself that it was all in vain


def test_a_slow_answer_is_no_slow_client() -> None:
    with running(App(seconds=1.2)) as made, made.connect() as one:
        one.sendall(ASK)
        assert one.recv(100).startswith(b"HTTP/1.1 200")
        one.sendall(ASK)  # the same connection, again
        assert b"HTTP/1.1 200" in one.recv(100) + one.recv(100)


@pytest.mark.parametrize("line", [b"X: " + b"y" * 1000 + b"\r\n", b"y" * 1000], ids=["lines", "one line"])
def test_endless_headers_take_no_memory(line: bytes) -> None:
    """50 MB of them, or as many as the server takes; a gigabyte once took as much memory."""
    with running(App()) as made, made.connect() as endless:
        before = psutil.Process().memory_info().rss
        endless.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        many, most = line * 100, before
        try:
            for _ in range(50_000_000 // len(many)):
                endless.sendall(many)
                most = max(most, psutil.Process().memory_info().rss)
        except OSError:
            pass  # closed
        assert most - before < 10_000_000
        with made.connect() as other:
            other.sendall(GET)
            assert other.recv(100).startswith(b"HTTP/1.1 200")


def test_many_idle_ones_shut_nobody_out() -> None:
    with running(App()) as made, ExitStack() as opened:
        for _ in range(3):
            for _ in range(100):
                opened.enter_context(made.connect())
            user = opened.enter_context(made.connect())
            user.sendall(GET)
            assert user.recv(100).startswith(b"HTTP/1.1 200")


# --- the end ----------------------------------------------------------------------------------------------------------


def test_what_was_asked_is_answered_at_the_end() -> None:
    """Also what had only arrived, on connections old and new."""
    app = App(seconds=1.5)
    with running(app) as made, ExitStack() as opened:
        busy, idle, late = (opened.enter_context(made.connect()) for _ in range(3))
        busy.sendall(ASK)
        wait_until(lambda: app.begun == 1)
        idle.sendall(ASK)
        made.stop()
        late.sendall(ASK)  # the server goes on for a moment
        for one in (busy, idle, late):
            answer = read(one)
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b"xx")
        made.thread.join(60)
        with pytest.raises(OSError):
            made.connect()
    assert app.done == 3


def test_connections_that_nobody_accepted_yet() -> None:
    """The server is busy with something else when it is asked to end, and meanwhile clients connect."""
    app = App()
    with running(app) as made, ExitStack() as opened:
        made.loop.call_soon_threadsafe(time.sleep, 0.5)
        made.stop()
        waiting = [opened.enter_context(made.connect()) for _ in range(50)]
        for one in waiting:
            one.sendall(ASK)
        assert all(read(one).startswith(b"HTTP/1.1 200") for one in waiting)


def test_idle_ones_do_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 60.0)
    with running(App()) as made, ExitStack() as opened:
        for _ in range(10):
            opened.enter_context(made.connect())
        started = time.monotonic()
        made.stop()
        made.thread.join(60)
        assert time.monotonic() - started < 30


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGINT"])
def test_a_signal_is_no_failure(tmp_path: Path, signal: str) -> None:
    """Asked to end while it answers, a server in a process of its own ends with 0, its client with an answer."""
    script = tmp_path / "server.py"
    script.write_text(
        "import asyncio, os, signal, socket\n"
        "from ap_ranker.web.connections import run\n"
        "async def app(scope, receive, send):\n"
        "    if scope['type'] == 'http':\n"
        f"        os.kill(os.getpid(), signal.{signal})\n"
        "        await asyncio.sleep(0.5)\n"
        "        await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', b'2')]})\n"
        "        await send({'type': 'http.response.body', 'body': b'ok'})\n"
        "listening = socket.create_server(('127.0.0.1', 0))\n"
        "print(listening.getsockname()[1], flush=True)\n"
        "run(app, listening)\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with socket.create_connection(("127.0.0.1", int(process.stdout.readline())), timeout=60) as client:
        client.sendall(GET)
        assert read(client).endswith(b"ok")
    assert process.wait(120) == 0
    process.stdout.close()


# --- behind a web server ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proxies", "headers", "expected"),
    [
        ("", {"x-forwarded-for": "9.9.9.9", "x-forwarded-proto": "https"}, ("10.0.0.2", "http")),
        ("10.0.0.1", {"x-forwarded-for": "9.9.9.9", "x-forwarded-proto": "https"}, ("10.0.0.2", "http")),
        ("10.0.0.2", {"x-forwarded-for": "9.9.9.9", "x-forwarded-proto": "https"}, ("9.9.9.9", "https")),
        ("10.0.0.1, 10.0.0.0/24", {"x-forwarded-for": "1.1.1.1, 9.9.9.9, 10.0.0.7"}, ("9.9.9.9", "http")),
        ("*", {"x-forwarded-for": "1.1.1.1, 9.9.9.9", "x-forwarded-proto": "wss"}, ("9.9.9.9", "http")),
        ("10.0.0.2", {}, ("10.0.0.2", "http")),
        ("10.0.0.2, 10.0.0.7", {"x-forwarded-for": "::ffff:9.9.9.9, ::ffff:10.0.0.7"}, ("9.9.9.9", "http")),
        ("10.0.0.2", {"x-forwarded-for": " , 10.0.0.2,"}, ("10.0.0.2", "http")),
        ("10.0.0.2", {"x-forwarded-for": "1.1.1.1," * 5000 + "9.9.9.9"}, ("9.9.9.9", "http")),
        ("10.0.0.2", {"x-forwarded-for": "9.9.9.9" + ", 10.0.0.2" * 20}, ("9.9.9.9", "http")),
    ],
)
async def test_who_asks(
    monkeypatch: pytest.MonkeyPatch, proxies: str, headers: dict[str, str], expected: tuple[str, str]
) -> None:
    """What a client says of itself counts only if a trusted web server sends it on."""
    found: list[tuple[str, str]] = []

    async def app(scope: Scope, *_: Any) -> None:
        found.append((scope["client"][0], scope["scheme"]))

    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "client": ("10.0.0.2", 5), "scheme": "http", "headers": sent}
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", proxies)
    await BehindProxies(app)(scope, None, None)  # type: ignore[arg-type]
    assert found == [expected]


@pytest.mark.parametrize("unit", ["1,", "a,", "::,", "1:1,", "10.0.0.2,", "1.1.1.1, ", ",", " ", "a", "[", "fe80::1%"])
async def test_a_header_of_addresses_without_end_is_not_read_to_its_beginning(
    monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    """What is as large as a head may be takes no longer, nor is it kept as who a visitor is."""

    async def app(scope: Scope, *_: Any) -> None:
        assert len(scope["client"][0]) < 100

    async def seconds(size: int) -> float:
        sent = [(b"x-forwarded-for", (unit * size)[:size].encode())]
        scope = {"type": "http", "client": ("10.0.0.2", 5), "scheme": "http", "headers": sent}
        started = time.process_time()
        await behind(scope, None, None)  # type: ignore[arg-type]
        return time.process_time() - started

    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "10.0.0.2")
    behind = BehindProxies(app)
    least = min([await seconds(2_000) for _ in range(5)])
    assert min([await seconds(80_000) for _ in range(5)]) < 10 * least + 0.002  # to read all takes 40 times as long


def test_proxies_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "nginx")
    with pytest.raises(InputError, match="FORWARDED_ALLOW_IPS"):
        BehindProxies(App())
