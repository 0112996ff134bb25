"""`ap-ranker serve` in a process of its own, for scripts and tests that need a page to ask."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ap_ranker.errors import InputError

STOP_SECONDS = 45.0
"""That a server has to end once it is asked to, longer than it may take to answer what was asked; then it is killed."""


@dataclass(frozen=True)
class Server:
    """A server that listens.

    Attributes:
        address: of its page, `http://127.0.0.1:PORT/`.
        process: what runs it; its messages go to this program's standard error.
    """

    address: str
    process: subprocess.Popen[str]


@contextmanager
def served(*options: str, folder: Path | None = None, python: str | Path = sys.executable) -> Iterator[Server]:
    """Within, `ap-ranker serve` listens at a free port of this machine; afterwards it is ended, as by Ctrl+C.

    Args:
        options: of the command, but for `--port`.
        folder: where it runs; by default where this program does.
        python: of the environment that has ap-ranker; by default this one.

    Raises:
        InputError: it does not start.
    """
    process = subprocess.Popen(
        [python, "-m", "ap_ranker", "serve", "--port", "0", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        found = next((match for line in process.stdout if (match := re.search(r"http://\S+:\d+/", line))), None)
        if found is None:
            raise InputError(
                f"Expected ap-ranker serve to listen, found that it ended with status {process.wait()}; what it said "
                "stands above."
            )
        yield Server(found[0], process)
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        assert process.stdout is not None
        process.stdout.close()
