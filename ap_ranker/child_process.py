"""Reads files in a process of its own: a file that takes too long, or too much memory, ends that one only."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, BinaryIO, cast

from ap_ranker.errors import InputError

SECONDS = 120
"""Maximum time for one file: a manual of a thousand pages takes one minute."""

MEMORY = 2 * 2**30
"""Maximum size of the process in bytes, where the system can limit it."""


class ChildProcess:
    """Calls functions of this package in another process, which starts with the first call."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def call(self, function: Callable[[Path], Any], path: Path) -> Any:
        """What `function(path)` returns, as JSON gives it back.

        InputError is that of the function; or it took more than `SECONDS` or `MEMORY`, or ended the process.
        """
        if self._process is None:
            # -P, as a folder of documents may be the working directory, and hold a json.py.
            command = [sys.executable, "-P", "-m", __name__]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._process = Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment)
        asked = cast(BinaryIO, self._process.stdin)
        answers = cast(BinaryIO, self._process.stdout)
        with suppress(OSError):  # it has ended, as the missing answer tells
            asked.write(f"{json.dumps([function.__module__, function.__name__, str(path), SECONDS])}\n".encode())
            asked.flush()
        answer = answers.readline()
        if not answer.endswith(b"\n"):
            self.__exit__()
            limits = f"{SECONDS} seconds and {MEMORY // 2**30} GB of memory"
            advice = "Save it again in its program, divide it, or leave it out."
            raise InputError(f"{path}: expected a file that can be read within {limits}, found another. {advice}")
        result = json.loads(answer)
        if "error" in result:
            raise InputError(result["error"])
        return result["found"]


def main() -> None:
    """Answer calls, one a line, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller hears of it, and ends this process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    with suppress(ImportError, ValueError):  # Windows has no `resource`; ValueError: a lower limit already
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with Path(os.devnull).open("w") as nowhere:
        for line in sys.stdin:
            module, name, path, seconds = json.loads(line)
            faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)  # also in the midst of a library's C
            try:
                result = {"found": getattr(import_module(module), name)(Path(path))}
            except (InputError, OSError) as error:
                result = {"error": str(error)}
            faulthandler.cancel_dump_traceback_later()
            answers.write(json.dumps(result, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            answers.flush()


if __name__ == "__main__":
    main()
