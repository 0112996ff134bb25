"""Connections of a real server: those that hold it up are closed, and none is cut when it ends."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT

pytest.importorskip("hayhooks", reason="the extra serve is not installed")

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http import auto
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

ASK = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(params=[HttpToolsProtocol, H11Protocol])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module on each of uvicorn's protocols, with little patience."""
    monkeypatch.setattr(auto, "AutoHTTPProtocol", request.param)
    spec = importlib.util.spec_from_file_location("copied", ROOT / "ap_ranker" / "web" / "connections.py")
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    monkeypatch.setattr(copy, "ARRIVAL_SECONDS", -0.5)  # and a second
    monkeypatch.setattr(copy, "ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(copy, "LINGER_SECONDS", 0.3)
    return copy


class App:
    """Answers when it may, and with as much as it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.size = 2
        self.begun = 0
        self.done = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        self.begun += 1
        if scope["method"] == "POST":
            await receive()
        await asyncio.sleep(self.seconds)
        headers = [(b"content-length", str(self.size).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x" * self.size})
        self.done += 1


class Running:
    def __init__(self, module: ModuleType, app: App, connections: Any) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.address = self.listening.getsockname()
        self.server = module.Server(app, connections)
        serve = self.server.serve
        self.thread = threading.Thread(target=lambda: asyncio.run(serve([self.listening])), daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=60)

    def stop(self) -> None:
        self.server.should_exit = True


@contextmanager
def running(module: ModuleType, app: App, connections: Any = None) -> Iterator[Running]:
    made = Running(module, app, connections or module.Connections())
    try:
        yield made
    finally:
        made.stop()
        made.thread.join(120)
        assert not made.thread.is_alive()


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


def test_a_connection_that_says_nothing(module: ModuleType) -> None:
    connections = module.Connections()
    with running(module, App(), connections) as made, made.connect() as idle:
        assert 0.3 < seconds_until_closed(idle) < 20
        assert not connections.open
    assert connections.closed == {"slow": 1}


@pytest.mark.parametrize(
    ("before", "trickle"),
    [
        (b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1000),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", b"x" * 1000),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", b"x" * 1000),
        (GET, b"GET / HTTP/1.1\r\nX: " + b"x" * 1000),
        (b"", b"\r\n" * 500),
    ],
    ids=["head", "body of a GET", "body", "second head", "empty lines"],
)
def test_a_request_that_trickles_in(module: ModuleType, before: bytes, trickle: bytes) -> None:
    with running(module, App()) as made, made.connect() as slow:
        slow.sendall(before)
        assert seconds_until_closed(slow, trickle) < 20  # all of it would take 50


def test_an_answer_that_nobody_reads(module: ModuleType) -> None:
    app, connections = App(), module.Connections()
    app.size = 50_000_000
    with running(module, app, connections) as made, made.connect() as deaf:
        deaf.sendall(GET)
        wait_for(lambda: connections.closed["slow"] == 1)
        assert not connections.open


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_slow_answer_is_no_slow_client(module: ModuleType) -> None:
    app = App()
    app.seconds = 1.2
    with running(module, app) as made, made.connect() as one:
        one.sendall(ASK)
        assert one.recv(100).startswith(b"HTTP/1.1 200")
        one.sendall(ASK)  # the same connection, again
        assert b"HTTP/1.1 200" in one.recv(100) + one.recv(100)


def test_more_than_are_let_in(module: ModuleType) -> None:
    """The one that has waited longest is closed for a new one."""
    connections = module.Connections(most=5)
    module.ARRIVAL_SECONDS = 20.0  # type: ignore[attr-defined]
    with running(module, App(), connections) as made, ExitStack() as opened:
        idle = []
        for number in range(5):
            idle.append(opened.enter_context(made.connect()))
            wait_for(lambda count=number + 1: len(connections.open) == count)
        idle[0].sendall(GET)
        assert idle[0].recv(100).startswith(b"HTTP/1.1 200")  # so it has waited for the shortest time
        user = opened.enter_context(made.connect())
        user.sendall(GET)
        assert user.recv(100).startswith(b"HTTP/1.1 200")
        assert seconds_until_closed(idle[1]) < 1
        assert len(connections.open) == 5
    assert connections.closed == {"crowded": 1}


def test_many_idle_ones_shut_nobody_out(module: ModuleType) -> None:
    connections = module.Connections(most=20)
    module.ARRIVAL_SECONDS = 20.0  # type: ignore[attr-defined]
    with running(module, App(), connections) as made, ExitStack() as opened:
        for _ in range(3):
            for _ in range(40):
                opened.enter_context(made.connect())
            user = opened.enter_context(made.connect())
            user.sendall(GET)
            assert user.recv(100).startswith(b"HTTP/1.1 200")
        assert len(connections.open) <= 20


def test_none_is_cut_for_a_new_one_while_it_is_answered(module: ModuleType) -> None:
    connections, app = module.Connections(most=3), App()
    app.seconds = 0.5
    with running(module, app, connections) as made, ExitStack() as opened:
        busy = [opened.enter_context(made.connect()) for _ in range(3)]
        for one in busy:
            one.sendall(GET)
        wait_for(lambda: app.begun == 3)
        answer = read(opened.enter_context(made.connect()))
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b'{"error":"Too many connections at the moment. Try again."}')
        assert all(one.recv(100).startswith(b"HTTP/1.1 200") for one in busy)
    assert connections.closed["refused"] == 1


@pytest.mark.parametrize(("proxies", "most"), [("", 2), ("10.0.0.9, 10.0.0.1", 5), ("*", 5)])
def test_connections_of_one_client(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, proxies: str, most: int
) -> None:
    """This machine's are not counted, so the address is made up; nor are those of a web server in front."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", proxies)
    connections = module.Connections(most=9, most_of_client=2)
    monkeypatch.setattr(module, "is_loopback", lambda address: False)
    module.ARRIVAL_SECONDS = 20.0  # type: ignore[attr-defined]
    made_with: list[str] = []

    class Elsewhere(module.Connection):  # type: ignore[name-defined, misc]
        def connection_made(self, transport: Any) -> None:
            get = transport.get_extra_info
            there = "10.0.0.2" if len(made_with) == 1 else "10.0.0.1"
            made_with.append(there)
            told = {"socket": None, "peername": (there, 1)}
            transport.get_extra_info = lambda name, default=None: told.get(name, get(name, default))
            super().connection_made(transport)

    monkeypatch.setattr(module, "Connection", Elsewhere)
    with running(module, App(), connections) as made, ExitStack() as opened:
        for number in range(6):
            opened.enter_context(made.connect())
            wait_for(lambda count=number + 1: len(made_with) == count)
        time.sleep(0.05)
        clients = [one.client[0] for one in connections.open]
        assert (clients.count("10.0.0.1"), clients.count("10.0.0.2")) == (most, 1)


def test_no_more_than_the_system_has_files_for() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"
        "from ap_ranker.web.connections import Connections; print(Connections().most)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "128"


# --- the end ----------------------------------------------------------------------------------------------------------


def test_what_was_asked_is_answered_at_the_end(module: ModuleType) -> None:
    """Also what had only arrived, on connections old and new."""
    app = App()
    with running(module, app) as made, ExitStack() as opened:
        app.seconds = 0.6
        busy, idle = (opened.enter_context(made.connect()) for _ in range(2))
        busy.sendall(ASK)
        wait_for(lambda: app.begun == 1)
        made.stop()
        late = opened.enter_context(made.connect())  # before the server has noticed
        time.sleep(0.2)  # now it has
        idle.sendall(ASK)
        late.sendall(ASK)
        for one in (busy, idle, late):
            answer = read(one)
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b"xx")
            assert b"connection: close" in answer.lower()
        with pytest.raises(OSError):
            made.connect()
    assert app.done == 3


def test_connections_that_nobody_accepted_yet(module: ModuleType) -> None:
    """The server is busy with something else when it is asked to end, and meanwhile clients connect."""
    app = App()
    with running(module, app) as made, ExitStack() as opened:
        stop = made.server.shutdown

        async def shutdown(sockets: Any) -> None:
            early = [opened.enter_context(made.connect()) for _ in range(20)]
            for one in early:
                one.sendall(ASK)
            answers.extend(early)
            await stop(sockets)

        answers: list[socket.socket] = []
        made.server.shutdown = shutdown
        made.stop()
        wait_for(lambda: len(answers) == 20)
        assert all(read(one).startswith(b"HTTP/1.1 200") for one in answers)


def test_idle_ones_do_not_delay_the_end(module: ModuleType) -> None:
    with running(module, App()) as made, ExitStack() as opened:
        for _ in range(10):
            opened.enter_context(made.connect())
        started = time.monotonic()
        made.stop()
        made.thread.join(60)
        assert time.monotonic() - started < 30


def test_sigterm_is_no_failure(tmp_path: Path) -> None:
    """Asked to end while it answers, a server in a process of its own ends with 0, its client with an answer."""
    script = tmp_path / "server.py"
    script.write_text(
        "import asyncio, os, signal, socket\n"
        "from ap_ranker.web.connections import Connections, Server\n"
        "async def app(scope, receive, send):\n"
        "    if scope['type'] == 'http':\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        await asyncio.sleep(0.5)\n"
        "        await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', b'2')]})\n"
        "        await send({'type': 'http.response.body', 'body': b'ok'})\n"
        "listening = socket.create_server(('127.0.0.1', 0))\n"
        "print(listening.getsockname()[1], flush=True)\n"
        "Server(app, Connections()).run(sockets=[listening])\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with socket.create_connection(("127.0.0.1", int(process.stdout.readline())), timeout=60) as client:
        client.sendall(GET)
        assert read(client).endswith(b"ok")
    assert process.wait(120) == 0
    process.stdout.close()
