"""Starts commands and kills them: at a random moment, or just when a file or folder of a dangerous name appears."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from forked import Forked

TESTS = Path(__file__).parent.parent
OWNER_KEY = "ae5b0f6d9c1847e2b7"
"""Of the owner's page of a server."""

ENVIRONMENT = {
    "AP_RANKER_OWNER_KEY": OWNER_KEY,
    "OMP_NUM_THREADS": "1",  # more threads add in another order, and no two runs would be equal
    "TOKENIZERS_PARALLELISM": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "false",
    "HF_HUB_OFFLINE": "1",
    "COLUMNS": "400",
    "PYTHONUNBUFFERED": "1",
}
LONGEST = 120.0
"""Seconds: a command that takes longer hangs."""


@dataclass(frozen=True)
class Moment:
    """When a command is killed.

    Attributes:
        after: seconds since it began or, with `appears`, since that.
        appears: a pattern of paths below the command's folder.
    """

    after: float
    appears: str | None = None


def moments(rng: random.Random, seconds: float, dangerous: Sequence[str]) -> Iterator[Moment]:
    """Random moments for a command that takes so long unbroken; every third one at a dangerous step."""
    while True:
        yield Moment(rng.uniform(0, seconds))
        yield Moment(rng.uniform(0, seconds))
        if dangerous:
            yield Moment(rng.expovariate(200), rng.choice(dangerous))


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: its exit status, negative for a signal.
        out: its standard output.
        err: its standard error.
        seconds: how long it ran.
    """

    code: int
    out: str
    err: str
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def refused(self) -> bool:
        """With one message for the user, and not in another way."""
        return self.code == 2 and self.err.count("Error:") == 1 and "Traceback" not in self.err

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.out[-1500:]}\n{self.err[-3000:]}"


class Running:
    """A command under way."""

    def __init__(self, zygote: Forked, folder: Path, logs: Path) -> None:
        self._zygote, self._folder, self._logs = zygote, folder, logs
        self._pid = int(self._answer("pid"))
        self._started = time.perf_counter()
        self._ended: Ended | None = None

    def kill(self) -> Ended:
        """Kill it, if it still runs."""
        if self._ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        return self.wait()

    def kill_at(self, moment: Moment) -> Ended:
        """Wait for the moment, or for its end."""
        while moment.appears is not None and self.lives and not self._has_appeared(moment.appears):
            pass  # these steps last less than any sleep
        time.sleep(moment.after)
        return self.kill()

    def _has_appeared(self, pattern: str) -> bool:
        try:
            return next(self._folder.glob(pattern), None) is not None
        except FileNotFoundError:  # it has gone again while it was looked at
            return True

    @property
    def lives(self) -> bool:
        lives = Path(f"/proc/{self._pid}/cwd").exists()  # a zombie has none
        if lives and time.perf_counter() - self._started > LONGEST:
            os.kill(self._pid, signal.SIGKILL)
            raise TimeoutError(f"a command took longer than {LONGEST:.0f} s")
        return lives

    def wait(self) -> Ended:
        """Wait for its end."""
        while self._ended is None and self.lives:
            time.sleep(0.002)
        if self._ended is None:
            seconds, code = time.perf_counter() - self._started, int(self._answer("status"))
            self._ended = Ended(code, self.out, (self._logs / "err").read_text(), seconds)
        return self._ended

    @property
    def out(self) -> str:
        """What it has printed until now."""
        return (self._logs / "out").read_text()

    def _answer(self, name: str) -> str:
        return str(json.loads(self._zygote.stdout.readline())[name])


class Commands:
    """Starts commands, one at a time."""

    def __init__(self, zygote: Forked, logs: Path) -> None:
        self._zygote, self._logs = zygote, logs
        self._running: Running | None = None

    def start(self, folder: Path, *argv: str) -> Running:
        """Start `ap-ranker` with these arguments in a folder."""
        if self._running is not None:
            self._running.kill()  # a trial that failed may have left it
        logs = Path(tempfile.mkdtemp(dir=self._logs))
        for name in ("out", "err"):
            (logs / name).touch()  # a kill may come before the command opens them
        request = {"argv": argv, "cwd": str(folder), "out": str(logs / "out"), "err": str(logs / "err")}
        self._zygote.stdin.write(json.dumps(request) + "\n")
        self._zygote.stdin.flush()
        self._running = Running(self._zygote, folder, logs)
        return self._running

    def run(self, folder: Path, *argv: str, moment: Moment | None = None) -> Ended:
        """Run it to its end, or until it is killed."""
        running = self.start(folder, *argv)
        return running.wait() if moment is None else running.kill_at(moment)


@contextmanager
def commands() -> Iterator[Commands]:
    """Commands of this tree."""
    with patch.dict(os.environ, ENVIRONMENT):
        zygote = Forked("from crash.zygote import main; main()", folder=TESTS)
    with tempfile.TemporaryDirectory() as logs, zygote:
        for line in zygote.stdout:
            if line == "ready\n":
                break
        else:
            raise RuntimeError(f"the commands cannot be imported: {zygote.communicate()}")
        yield Commands(zygote, Path(logs))
