"""The fuzzer itself can fail; and some inputs of it, always the same ones, find nothing."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import forked
import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from ap_ranker.errors import InputError

from . import run
from .target import Nonsense, Target

SEED = 1


def spin() -> None:
    while True:
        pass


def grow() -> None:
    bytes_ = bytearray(run.MEMORY)
    bytes_[::4096] = b"1" * len(bytes_[::4096])


def raise_(error: Exception) -> None:
    raise error


FAULTS = {
    "ok": lambda: None,
    "refused": lambda: raise_(InputError("Expected better.")),
    "TRACEBACK": lambda: raise_(KeyError("x")),
    "NONSENSE": lambda: raise_(Nonsense("nan")),
    "MEMORY": grow,
    "HANG": spin,
    "CRASH": lambda: os.kill(os.getpid(), signal.SIGSEGV),
}


def write_one(folder: Path) -> None:
    (folder / "a.csv").write_text("a,b\n1,2\n")


def use(fault: str) -> object:
    """Fails in its own way, but not on the valid input."""
    return lambda folder: FAULTS[fault]() if (folder / "broken").exists() else None


def targets() -> dict[str, Target]:
    def break_(folder: Path, _: object) -> None:
        (folder / "broken").touch()

    return {fault: Target(fault, {"": write_one}, use(fault), break_, weight=1) for fault in FAULTS}  # type: ignore[arg-type]


def test_every_kind_of_fault_is_found_and_kept(tmp_path: Path) -> None:
    """In a process of its own, since this one has threads."""
    script = (
        "from pathlib import Path; from fuzz import run, test_fuzz\n"
        "run.TARGETS, run.HANG_SECONDS, run.MEMORY = test_fuzz.targets(), 5, 10**9\n"
        f"tally = run.fuzz(list(run.TARGETS), 1, {len(FAULTS)}, 60, Path({str(tmp_path)!r}))\n"
        "import json; print(json.dumps(tally.counts))"
    )
    found = json.loads(forked.run(script).stdout.splitlines()[-1])
    assert found == {fault: {fault: 1} for fault in FAULTS}
    kept = {path.parent.name for path in tmp_path.glob("*/*/broken")}
    assert {path.name for path in tmp_path.iterdir()} == FAULTS.keys() - {"ok", "refused"}
    assert len(list(tmp_path.glob("*/*.txt"))) == len(FAULTS) - 2
    assert kept == {f"1-{number}" for number in range(2, len(FAULTS))}


def test_a_message_that_nobody_could_read_is_a_fault(tmp_path: Path) -> None:
    for message, kind in (("Expected x.", "refused"), ("Traceback ...", "TRACEBACK"), ("x" * 20_000, "TRACEBACK")):
        target = Target("t", {}, lambda _, text=message: raise_(InputError(text)))
        assert run.judge(target, tmp_path).kind == kind


@pytest.mark.parametrize("inputs", [6, pytest.param(1_500, marks=pytest.mark.slow)])
def test_some_inputs_find_nothing(inputs: int, tmp_path: Path) -> None:
    started = time.monotonic()
    options = ["--seed", str(SEED), "--inputs", str(inputs), "--seconds", "300", "--failures", str(tmp_path)]
    result = forked.run("from fuzz.run import main; main()", *options)
    assert result.returncode == 0, result.stdout[-10_000:]
    assert "0 faults" in result.stdout
    assert time.monotonic() - started < 600
