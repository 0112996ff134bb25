"""Programs in processes of their own, each a fork of one that has imported what takes seconds.

For tests of what is killed, waits for another process, or ends. What a fresh interpreter adds, others try with one.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import CompletedProcess

IMPORTED = (
    "transformers.models.auto.modeling_auto",
    "hypercorn.asyncio",
    "ap_ranker.cli.serve",
    "ap_ranker.training.train",
    "ap_ranker.web.serve",
    "ap_ranker.web.owner.service",
    "ap_ranker.ranking.ranker",
    "haystack.components.retrievers",
    "haystack_integrations.components.rankers.ap_ranker",
    "haystack_integrations.components.retrievers.ap_ranker",
    "haystack_integrations.document_stores.ap_ranker",
)
ANEW = """
import sys
for name in [*sys.modules]:
    if name.partition(".")[0] in ("ap_ranker", "haystack_integrations"):
        del sys.modules[name]
"""
"""A program's first lines, by which it imports the project as a fresh interpreter does, and other libraries not."""

MAIN = "from ap_ranker.cli.main import main; main()"
"""The command line."""

STOP_SECONDS = 45.0


def _begin(
    program: str, arguments: list[str], environment: dict[str, str], pipes: tuple[Connection, Connection], errors: str
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate((*(pipe.fileno() for pipe in pipes), os.open(errors, os.O_WRONLY))):
        os.dup2(file, number)
    for pipe in pipes:
        pipe.close()
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)
    sys.argv = ["ap-ranker", *arguments]
    try:
        exec(program, {"__name__": "__main__"})
    finally:
        atexit._run_exitfuncs()  # which no fork calls by itself


class Forked:
    """`python -c PROGRAM ARGUMENTS`, as `subprocess.Popen` has it; at the end of a `with` it is killed."""

    def __init__(self, program: str, *arguments: object, folder: Path | None = None) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*IMPORTED])
        read, stdin = context.Pipe(duplex=False)
        stdout, write = context.Pipe(duplex=False)
        self._errors = tempfile.NamedTemporaryFile()  # noqa: SIM115 -- it ends with this object
        program = f"import os; os.chdir({str(folder or Path.cwd())!r})\n{program}"
        given = program, [*map(str, arguments)], {**os.environ}, (read, write), self._errors.name
        self._process = context.Process(target=_begin, args=given)
        self._process.start()
        self.stdin, self.stdout = (os.fdopen(os.dup(end.fileno()), how) for end, how in ((stdin, "w"), (stdout, "r")))
        for end in (read, write, stdin, stdout):
            end.close()

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutError
        return self._process.exitcode

    def send_signal(self, sent: signal.Signals) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, sent)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        self.stdin.close()
        said = self.stdout.read()
        self.wait()
        return said, Path(self._errors.name).read_text(encoding="utf-8")


def run(program: str, *arguments: object, folder: Path | None = None) -> CompletedProcess[str]:
    """As `subprocess.run` does it."""
    with Forked(program, *arguments, folder=folder) as process:
        said, errors = process.communicate()
        return CompletedProcess([], process.wait(), said, errors)


@dataclass(frozen=True)
class Server:
    """A server that listens: the address of its page, and what runs it."""

    address: str
    process: Forked


@contextmanager
def served(*options: str, folder: Path, before: str = "") -> Iterator[Server]:
    """Within, `ap-ranker serve` listens at a free port, once it has run `before`; then it is ended, as by Ctrl+C."""
    with Forked(before + MAIN, "serve", "--port", "0", *options, folder=folder) as process:
        found = next((match for line in process.stdout if (match := re.search(r"http://\S+:\d+/", line))), None)
        assert found is not None, process.communicate()
        yield Server(found[0], process)
        process.send_signal(signal.SIGINT)
        process.wait(STOP_SECONDS)
