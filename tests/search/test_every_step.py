"""No line that the README or `doctor` has makes the search of a small FAQ worse: a clinic's way, as it is served.

Real training, and a server for each step: a minute or two each, so it runs by `make test-slow`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from command_line import run
from search_server import served
from veterinary_clinic import ENTRIES, OTHER_MATTERS, QUESTIONS, write_clinic

pytestmark = pytest.mark.slow

ALLOWED = 1
"""How many right answers a step may lose, and how many wrong ones it may add: one question of 20 is chance."""

DOCTORS_LINES = 4
"""Maximum number of times that `doctor` is asked what is next."""


@dataclass(frozen=True)
class Served:
    """What the clients see: right answers and wrong ones, of what is asserted, and other matters that get none."""

    step: str
    right: int
    wrong: int
    none: int


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """A working directory with the clinic's table, in which no checkpoint is yet."""
    write_clinic(tmp_path / "FAQ.csv")
    return tmp_path


def serve(step: str, folder: Path, *options: str) -> Served:
    """Start `ap-ranker serve FAQ.csv` in the working directory, and put all questions to it."""
    right = wrong = none = 0
    with served("FAQ.csv", *options, folder=folder) as server:
        for question, row in [*QUESTIONS, *((text, None) for text in OTHER_MATTERS)]:
            reply = httpx.post(f"{server.address}api/search", json={"question": question}, timeout=60)
            assert reply.status_code == 200, reply.text
            found = reply.json()
            if found["outcome"] == "answer":
                is_right = row is not None and found["answers"][0]["answer"] == ENTRIES[row][1]
                right += is_right
                wrong += not is_right
            none += row is None and found["outcome"] == "none"
    return Served(step, right, wrong, none)


def command(line: str, folder: Path) -> None:
    """Run a line of the README in the working directory: it must not fail."""
    ended = run(*shlex.split(line)[1:], folder=folder)
    assert ended.code == 0, f"{line}: {ended.errors}"


def check_no_step_is_worse(steps: list[Served]) -> None:
    """From each step to the next."""
    for before, after in pairwise(steps):
        assert after.right >= before.right - ALLOWED, steps
        assert after.wrong <= before.wrong + ALLOWED, steps


@pytest.mark.parametrize("effort", ["", " --quick"])
def test_the_way_of_the_readme(clinic: Path, effort: str) -> None:
    """Untrained, trained on what `split` gives, calibrated, and with the precision that the README names."""
    steps = [serve("untrained", clinic)]
    first_day = serve("untrained, .9", clinic, "--precision", "0.9")
    assert steps[0].right > len(QUESTIONS) / 2
    command("ap-ranker split FAQ.csv --output data", clinic)
    command(f"ap-ranker train data --language english --output checkpoints/faq{effort}", clinic)
    steps.append(serve("trained", clinic))
    command("ap-ranker calibrate checkpoints/faq data", clinic)
    steps.append(serve("calibrated", clinic))
    check_no_step_is_worse(steps)
    check_no_step_is_worse([first_day, serve("calibrated, .9", clinic, "--precision", "0.9")])


def test_the_way_of_doctor(clinic: Path) -> None:
    """Each command that it names runs, and the search is as good as before."""
    steps = [serve("untrained", clinic)]
    for _ in range(DOCTORS_LINES):
        examined = run("doctor", "FAQ.csv", folder=clinic)
        assert examined.code == 0, examined.errors
        commands = commands_of(examined.output)
        if not commands:
            break
        for line in commands:
            command(line, clinic)
        steps.append(serve("; ".join(commands), clinic))
    check_no_step_is_worse(steps)


def commands_of(output: str) -> list[str]:
    """The commands of `doctor`'s next step that change something, which its last paragraph names."""
    last = output.strip().rsplit("Next:", maxsplit=1)[-1]
    named = re.findall(r"ap-ranker (?:split|train|calibrate|init|retrain) [^\n;,]*[^\n;,.\s]", last)
    return [line for line in named if "DEV" not in line and "QUESTIONS" not in line]
