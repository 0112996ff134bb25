"""`ap-ranker serve` in a process of its own interpreter, whose memory, threads and clock a test looks at or changes."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from waiting import wait_until

OWNER_KEY = "ae5b0f6d9c1847e2b7"
OWNER = {"Authorization": f"Bearer {OWNER_KEY}"}


@dataclass(frozen=True)
class OwnServer:
    """A server that listens.

    Attributes:
        address: of its page, without a slash at its end.
        process: what runs it.
        log: the file of what it writes.
    """

    address: str
    process: psutil.Popen
    log: Path

    def said(self) -> str:
        """All that it has written until now."""
        return self.log.read_text(encoding="utf-8")

    def wait_until_it_says(self, text: str, seconds: float = 120.0) -> None:
        """Fails if it ends before."""

        def has_said() -> bool:
            assert self.process.poll() is None, self.said()
            return text in self.said()

        wait_until(has_said, seconds)


@contextmanager
def serving(folder: Path, *options: str, environment: Mapping[str, str] | None = None) -> Iterator[OwnServer]:
    """Serve `FAQ.csv` in a folder with the pipeline `search.yaml` there, an owner's key and a log of questions."""
    command = [sys.executable, "-m", "ap_ranker", "serve", "FAQ.csv", "--pipeline", "search.yaml"]
    command += ["--port", "0", "--log-questions", *options]
    settings = os.environ | {"AP_RANKER_OWNER_KEY": OWNER_KEY, "PYTHONUNBUFFERED": "1"} | (environment or {})
    log = folder / "server.log"
    with log.open("w", encoding="utf-8") as output:
        process = psutil.Popen(command, cwd=folder, env=settings, stdout=output, stderr=output)
        try:
            address = _address(process, log)
            yield OwnServer(address, process, log)
        finally:
            process.terminate()
            process.wait(90)


def _address(process: psutil.Popen, log: Path) -> str:
    end = time.monotonic() + 180
    while True:
        said = log.read_text(encoding="utf-8")
        match = re.search(r"http://\S+?:\d+", said)
        if match:
            return match[0]
        assert process.poll() is None, said
        assert time.monotonic() < end, said
        time.sleep(0.1)
