"""How long a server takes to say that it lives, beside threads that compute in Python without a pause.

    python -m benchmarks.event_loop

It prints the milliseconds of new connections that ask one server after the other, for each number of threads and each
interval after which a thread of Python gives way to another.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import subprocess
import sys
import threading
import time

import typer
from fastapi import FastAPI

from ap_ranker.web.connections import serve_until
from ap_ranker.web.limits import Guard
from ap_ranker.web.visitors import BehindProxies

SECONDS = 4.0
THREADS = (0, 3, 16)
INTERVALS = (0.005, 0.001, 0.0002)


def serve(threads: int, interval: float) -> None:
    """Serve beside threads that compute; the port is printed."""
    sys.setswitchinterval(interval)
    app = FastAPI()

    @app.get("/health/live")
    async def live() -> dict[str, str]:
        return {"status": "ok"}

    app.add_middleware(Guard)
    app.add_middleware(BehindProxies)
    listening = socket.create_server(("127.0.0.1", 0))
    typer.echo(listening.getsockname()[1])
    for _ in range(threads):
        threading.Thread(target=compute, daemon=True).start()

    async def run() -> None:
        await serve_until(asyncio.Event().wait, app, listening)

    asyncio.run(run())


def compute() -> None:
    """Compute without end."""
    while True:
        sum(range(500))


def milliseconds(port: int) -> list[float]:
    """What requests took, each on a connection of its own, the fastest first."""
    found = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        started = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/health/live")
        connection.getresponse().read()
        connection.close()
        found.append(1000 * (time.perf_counter() - started))
        time.sleep(0.02)
    return sorted(found)


def main() -> None:
    """Print the table."""
    typer.echo("threads  interval  median    p90    max")
    for threads in THREADS:
        for interval in INTERVALS:
            command = [sys.executable, "-m", "benchmarks.event_loop", str(threads), str(interval)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout is not None
                found = milliseconds(int(server.stdout.readline()))
                server.kill()
            median, p90 = found[len(found) // 2], found[len(found) * 9 // 10]
            typer.echo(f"{threads:7}  {interval:8}  {median:6.0f}  {p90:5.0f}  {found[-1]:5.0f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(int(sys.argv[1]), float(sys.argv[2]))
    else:
        main()
