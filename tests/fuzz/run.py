"""Mutate what the project reads, read it, and say what went wrong.

    PYTHONPATH=tests python -m fuzz.run --seconds 600            a new random seed, which is printed
    PYTHONPATH=tests python -m fuzz.run --seed 1 --inputs 1000   always the same inputs
    PYTHONPATH=tests python -m fuzz.run --replay FOLDER          one saved input again, with its traceback

Each input is read in a worker, a process forked from this one, which has imported everything. Verdicts: `ok` and
`refused` (a documented exception with a short message) are fine. TRACEBACK (any other exception), NONSENSE (see
`Nonsense`), HANG (over 10 s of the processor, or 30 s of waiting), MEMORY (over 2 GB) and CRASH (the process died) are
faults; the folder of each is kept.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random, SystemRandom
from typing import TextIO

os.environ |= {"HF_HUB_OFFLINE": "1", "HAYSTACK_TELEMETRY_ENABLED": "false", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

from . import command_targets, data_targets, search_targets, shape_targets
from .target import Nonsense, Target

MODULES = "modules.txt"
HANG_SECONDS = 10  # of the processor, so that a busy machine is no fault
WAIT_SECONDS = 30  # of the clock, for what waits and computes nothing
MEMORY = 2 * 10**9
ADDRESS_SPACE = 6 * 10**9  # of a worker, beyond what it has: a bomb ends in an error, not in a full machine
WORKERS = 2
MESSAGE_CHARACTERS = 10_000  # of an exception; the command line shows less, see the target `command`
FINE = ("ok", "refused")
ROOT = Path(__file__).parents[2]
OURS = (str(ROOT / "ap_ranker"), str(ROOT / "haystack_integrations"))

_ALL = (*data_targets.TARGETS, *shape_targets.TARGETS, *search_targets.TARGETS, *command_targets.TARGETS)
TARGETS = {one.name: one for one in _ALL}


@dataclass(frozen=True)
class Verdict:
    """What became of an input; `cause` is equal for faults that are likely the same one."""

    kind: str
    cause: str = ""
    message: str = ""


@dataclass
class Tally:
    """All verdicts: how many of each kind by target, and the faults by their cause."""

    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    faults: dict[tuple[str, str, str], list[tuple[int, str]]] = field(default_factory=dict)

    def add(self, number: int, target: str, verdict: Verdict) -> None:
        self.counts[target][verdict.kind] += 1
        if verdict.kind not in FINE:
            self.faults.setdefault((target, verdict.kind, verdict.cause), []).append((number, verdict.message))


class Inputs:
    """The numbered inputs of a seed, made from the valid ones in a folder."""

    def __init__(self, valid: Path, seed: int, names: Sequence[str]) -> None:
        self.valid = valid
        self.seed = seed
        self.turns = [TARGETS[name] for turn in range(9) for name in names if turn < TARGETS[name].weight]

    def target(self, number: int) -> Target:
        return self.turns[number % len(self.turns)]

    def write(self, number: int, folder: Path) -> None:
        """Make the input of this number; the same number gives the same input."""
        rng = Random(f"{self.seed}:{number}")
        target = self.target(number)
        variants = sorted(target.variants)
        variant = rng.randrange(len(variants))
        shutil.copytree(self.valid / target.name / str(variant), folder, symlinks=True)
        target.mutate(folder, rng)


def write_valid(folder: Path, names: Iterable[str]) -> None:
    """The valid inputs that all others are made from, each of which must be read; and the modules that it took."""
    for target in (TARGETS[name] for name in names):
        for number, variant in enumerate(sorted(target.variants)):
            place = folder / target.name / str(number)
            place.mkdir(parents=True)
            with _inside(place):
                target.variants[variant](place)
            copy = folder / "copy"
            shutil.copytree(place, copy)
            verdict = judge(target, copy)
            shutil.rmtree(copy)
            if verdict.kind != "ok":
                sys.exit(f"The valid input {variant!r} of {target.name} is {verdict.kind}: {verdict.message}")
    (folder / MODULES).write_text("\n".join(sys.modules))


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def import_all(names: Iterable[str]) -> None:
    """What reading takes is imported once, here, and not by each worker."""
    for name in names:
        with suppress(Exception):  # some are of another process: its __main__, or plug-ins under names of their own
            import_module(name)


def judge(target: Target, folder: Path) -> Verdict:
    """Read an input."""
    try:
        with _inside(folder):
            target.use(folder)
    except Nonsense as error:
        return Verdict("NONSENSE", str(error)[:40], str(error))
    except MemoryError as error:
        return Verdict("MEMORY", _place(error), traceback.format_exc())
    except target.refusals as error:
        message = str(error)
        if len(message) > MESSAGE_CHARACTERS or "Traceback" in message:
            return Verdict("TRACEBACK", f"long message, {_place(error)}", message)
        return Verdict("refused", _place(error), message)
    except Exception as error:
        return Verdict("TRACEBACK", f"{type(error).__name__}, {_place(error)}", traceback.format_exc())
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MEMORY:
        return Verdict("MEMORY", "resident set")
    return Verdict("ok")


def _place(error: BaseException) -> str:
    """The innermost line of the project's own."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = ([frame for frame in frames if frame.filename.startswith(OURS)] or frames)[-1]
    return f"{frame.filename.removeprefix(f'{ROOT}/')}:{frame.lineno} {frame.name}"


def work(sender: Connection, inputs: Inputs, numbers: Sequence[int], folder: Path, until: float) -> None:
    """Judge inputs one after another, and tell of each; ends early once it has grown beyond its memory."""
    _limit_memory()
    with (folder.parent / f"{folder.name}.log").open("w+") as log:
        sys.stdout = sys.stderr = log
        for number in numbers:
            if time.monotonic() > until:
                break
            shutil.rmtree(folder, ignore_errors=True)
            inputs.write(number, folder)
            log.seek(0)
            log.truncate()
            sender.send((number, None))
            with _in_time(log):
                verdict = judge(inputs.target(number), folder)
            sender.send((number, verdict))
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MEMORY:
                break
    sender.send((-1, None))
    os._exit(0)  # without waiting for threads that libraries have left


@contextmanager
def _in_time(log: TextIO) -> Iterator[None]:
    """End the process if what is inside takes too long; where it was then stands in the log."""
    faulthandler.register(signal.SIGPROF, file=log, chain=True)  # the signal's own action, to end, comes after
    faulthandler.dump_traceback_later(WAIT_SECONDS, exit=True, file=log)
    signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()


def _limit_memory() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ADDRESS_SPACE, size + ADDRESS_SPACE))


class Worker:
    """A process and the numbers that it has not judged yet."""

    def __init__(self, inputs: Inputs, numbers: Sequence[int], folder: Path, until: float) -> None:
        self.inputs, self.numbers, self.folder, self.until = inputs, numbers, folder, until
        self.current: int | None = None
        self.start()

    def start(self) -> None:
        context = get_context("fork")
        self.receiver, sender = context.Pipe(duplex=False)
        arguments = (sender, self.inputs, self.numbers, self.folder, self.until)
        self.process = context.Process(target=work, args=arguments)
        self.process.start()
        sender.close()

    def told(self) -> tuple[int, Verdict] | None:
        """The next verdict, if there is one yet."""
        try:
            number, verdict = self.receiver.recv()
        except EOFError:
            return self._died()
        if number < 0:
            self.process.join()
            self._go_on()
        elif verdict is None:
            self.current = number
        else:
            self._done(number)
            return number, verdict
        return None

    @property
    def finished(self) -> bool:
        return not self.numbers and not self.process.is_alive()

    def _died(self) -> tuple[int, Verdict] | None:
        self.process.join()
        code, number = self.process.exitcode, self.current
        if number is None:
            raise RuntimeError(f"a worker ended with {code} outside of any input")
        log = (self.folder.parent / f"{self.folder.name}.log").read_text(errors="replace")
        lines = [line.strip() for line in log.splitlines() if any(place in line for place in OURS)]
        cause = lines[0].replace(str(ROOT), "") if lines else f"exit code {code}"
        self._done(number)
        self._go_on()
        return number, Verdict("HANG" if code == -signal.SIGPROF or "Timeout" in log else "CRASH", cause, log)

    def _done(self, number: int) -> None:
        self.numbers = self.numbers[self.numbers.index(number) + 1 :]
        self.current = None

    def _go_on(self) -> None:
        if time.monotonic() > self.until:
            self.numbers = []
        if self.numbers:
            self.start()


def fuzz(names: Sequence[str], seed: int, n: int, seconds: float, failures: Path) -> Tally:
    """Judge `n` inputs, or as many as the seconds allow."""
    folder = Path(tempfile.mkdtemp(prefix="ap-ranker-fuzz-"))
    tempfile.tempdir = str(folder)  # what the libraries and the targets put aside goes with it
    try:
        return _fuzz(Inputs(folder / "valid", seed, names), names, n, seconds, folder, failures)
    finally:
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)


def _fuzz(inputs: Inputs, names: Sequence[str], n: int, seconds: float, folder: Path, failures: Path) -> Tally:
    if code := _forked(write_valid, inputs.valid, names):
        sys.exit(code)
    import_all((inputs.valid / MODULES).read_text().split("\n"))
    tally, until = Tally(), time.monotonic() + seconds
    workers = [Worker(inputs, range(first, n, WORKERS), folder / f"worker{first}", until) for first in range(WORKERS)]
    running = {worker.receiver: worker for worker in workers}
    while running:
        for ready in wait(list(running)):
            worker = running.pop(ready)  # type: ignore[call-overload]
            told = worker.told()
            if not worker.finished:
                running[worker.receiver] = worker
            if told is not None:
                number, verdict = told
                tally.add(number, inputs.target(number).name, verdict)
                if verdict.kind not in FINE:
                    _forked(_keep, inputs, number, verdict, failures)
    return tally


def _forked(function: Callable[..., None], *arguments: object) -> int:
    """Run in a process of its own: in this one no library may start a thread, which no fork would survive."""
    process = get_context("fork").Process(target=function, args=arguments)
    process.start()
    process.join()
    return process.exitcode or 0


def _keep(inputs: Inputs, number: int, verdict: Verdict, failures: Path) -> None:
    """The input as it was before anything read it, and what was said of it."""
    folder = failures / inputs.target(number).name / f"{inputs.seed}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    inputs.write(number, folder)
    folder.with_suffix(".txt").write_text(
        f"{verdict.kind}: {verdict.cause}\n\n{verdict.message}\n", encoding="utf-8", errors="replace"
    )


def replay(folder: Path) -> Verdict:
    """Judge a kept input once more, in a copy; its folder's folder says the target."""
    with tempfile.TemporaryDirectory() as place:
        tempfile.tempdir = place
        copy = Path(place) / "input"
        shutil.copytree(folder, copy, symlinks=True)
        with _in_time(sys.stderr):
            verdict = judge(TARGETS[folder.resolve().parent.name], copy)
    return verdict


def report(tally: Tally, seed: int, failures: Path) -> int:
    """Print how each target fared, and each different fault with its first input; the number of faults."""
    for target, counts in tally.counts.items():
        print(f"{target:<14}", ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts.items())))
    for (target, kind, cause), cases in tally.faults.items():
        last = cases[0][1].strip().splitlines()[-1:] or [""]
        print(f"\n{kind} in {target}, {len(cases)} times: {cause}\n  {last[0][:300]!r}")
        print(f"  --replay {failures / target / f'{seed}-{cases[0][0]}'}")
    faults = sum(map(len, tally.faults.values()))
    total = sum(sum(counts.values()) for counts in tally.counts.values())
    print(f"\nseed {seed}: {total:,} inputs, {faults:,} faults of {len(tally.faults)} kinds")
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--inputs", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    parser.add_argument("--only", default=",".join(TARGETS), help="targets, separated by commas")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="where failing inputs are kept")
    parser.add_argument("--replay", type=Path, help="a kept input")
    options = parser.parse_args()
    if options.replay:
        verdict = replay(options.replay)
        print(verdict.kind, verdict.cause, verdict.message, sep="\n")
        sys.exit(verdict.kind not in FINE)
    print(f"seed {options.seed}, {WORKERS} workers", flush=True)
    tally = fuzz(options.only.split(","), options.seed, options.inputs, options.seconds, options.failures.resolve())
    sys.exit(report(tally, options.seed, options.failures) > 0)


if __name__ == "__main__":
    main()
