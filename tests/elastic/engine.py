"""The real Elasticsearch that the tests run on: the one of ELASTICSEARCH_URL, or one that lies beside the project."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ENGINE_FOLDER, ROOT
from filelock import FileLock

COMMAND = ROOT.parent / "shared" / "engines" / "cluster"

WHOLE = "AP_RANKER_CLUSTER"
"""The variable of the environment with which `make cluster` runs what needs three nodes, or takes minutes."""


@dataclass
class Engine:
    """Nodes in a folder, which the tests may kill, pause and start again."""

    folder: Path
    urls: list[str]
    ca: str | None = None

    @property
    def url(self) -> str:
        return self.urls[0]

    def run(self, command: str, *arguments: object) -> None:
        """A command of the tool that runs the nodes, for one of them by its number, from 1."""
        subprocess.run([sys.executable, COMMAND, command, self.folder, *map(str, arguments)], check=True)

    def stop(self) -> None:
        self.run("stop")
        shutil.rmtree(self.folder, ignore_errors=True)


def start_engine(folder: Path, nodes: int = 1, *options: str) -> Engine:
    """Start nodes; skips the test where they, or Java, are missing."""
    if not COMMAND.exists():
        pytest.skip("no Elasticsearch: set ELASTICSEARCH_URL, or put ../shared/engines beside the project")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java to run Elasticsearch with")
    port = _free_ports(nodes)
    arguments = ["start", folder, "--nodes", nodes, "--port", port, "--heap", "512m", *options]
    command = [sys.executable, str(COMMAND), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"Elasticsearch did not start: {done.stderr}")
    return _described(folder)


def shared_engine() -> Engine:
    """One node for all tests of a run, by `make cluster` three; the first test that needs them starts them."""
    if url := os.environ.get("ELASTICSEARCH_URL"):
        return Engine(Path(), url.rstrip("/").split(","))
    folder = Path(os.environ[ENGINE_FOLDER])
    with FileLock(folder / "lock"):
        if not (folder / "node" / "cluster.json").exists():
            return start_engine(folder / "node", 3 if WHOLE in os.environ else 1)
    return _described(folder / "node")


def _described(folder: Path) -> Engine:
    printed = subprocess.run(
        [sys.executable, COMMAND, "env", folder], capture_output=True, text=True, check=True
    ).stdout
    exported = dict(line.removeprefix("export ").split("=", 1) for line in printed.splitlines())
    values = {name: shlex.split(value)[0] for name, value in exported.items()}
    return Engine(folder, values["ELASTICSEARCH_URL"].split(","), values.get("ELASTICSEARCH_CA"))


def _free_ports(nodes: int) -> int:
    """A port such that as many from it on, and from 100 above it on, are free."""
    for port in range(9700 + 7 * (os.getpid() % 40), 10_100):
        if all(_is_free(port + above + node) for above in (0, 100) for node in range(nodes)):
            return port
    pytest.fail("no free ports for Elasticsearch")


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0
