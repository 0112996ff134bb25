"""How long others wait for `/health` while strangers send thousands of headers in every request.

cd tests && python -m web.header_flood

It asks a server alone, and one behind a real nginx with deploy/nginx.conf. The numbers of docs/resilience.md are its.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from test_web_server import nginx_before

from ap_ranker.web.connections import serve_until

SECONDS = 6
"""For which strangers send requests."""

FLOODS = {"an ordinary head": 0, "900 headers": 900, "3,200 headers": 3200, "13,000 headers": 13_000}
"""A name -> the number of headers in each request. nginx refuses more than 1,000."""

CONNECTIONS = (20, 100)


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer any request at once."""
    if scope["type"] == "http":
        await PlainTextResponse("ok")(scope, receive, send)


def _serve(listening: socket.socket) -> None:
    asyncio.run(serve_until(asyncio.Event().wait, answer, listening))


@contextmanager
def server() -> Iterator[int]:
    """A server in a process of its own; its port."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(listening,), daemon=True)
    process.start()
    port = int(listening.getsockname()[1])
    listening.close()
    try:
        yield port
    finally:
        process.kill()
        process.join()


def flood(port: int, connections: int, headers: int, end: float) -> None:
    """Send requests with so many headers on so many connections until a time."""
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a:b\r\n" * headers + b"\r\n"

    def send_requests() -> None:
        while time.monotonic() < end:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                    while time.monotonic() < end:
                        connection.sendall(request)
                        if not connection.recv(4096):
                            break
            except OSError:
                continue  # it was closed: open another one

    threads = [threading.Thread(target=send_requests) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def seconds_of_an_answer(port: int) -> float:
    """How long `/health` takes on a connection of its own."""
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while connection.recv(4096):
            pass
    return time.monotonic() - begun


def waits(port: int, flooded_port: int, connections: int, headers: int) -> list[float]:
    """The seconds of each answer of a server while another port, perhaps of nginx before it, is flooded."""
    end = time.monotonic() + SECONDS
    process = multiprocessing.get_context("fork").Process(target=flood, args=(flooded_port, connections, headers, end))
    process.start()
    time.sleep(0.5)
    seconds = []
    while time.monotonic() < end or not seconds:
        seconds.append(seconds_of_an_answer(port))
        time.sleep(0.02)
    process.join()
    return seconds


def main() -> None:
    """Print the table."""
    print("| server | flood | connections | answers | 90th percentile, s | longest, s |\n|---|---|---:|---:|---:|---:|")
    for name, headers in FLOODS.items():
        for connections in CONNECTIONS:
            with server() as port:
                _print_row("alone", name, connections, waits(port, port, connections, headers))
            with server() as port, tempfile.TemporaryDirectory() as folder, nginx_before(port, Path(folder)) as front:
                _print_row("behind nginx", name, connections, waits(port, front, connections, headers))


def _print_row(place: str, name: str, connections: int, seconds: list[float]) -> None:
    ninth = float(np.quantile(seconds, 0.9))
    print(f"| {place} | {name} | {connections} | {len(seconds)} | {ninth:.3f} | {max(seconds):.3f} |", flush=True)


if __name__ == "__main__":
    main()
