"""No line of the README or of `doctor` makes the search of a small FAQ worse: a clinic's way, as it is served.

Real training, a minute or two, so it runs by `make test-slow`.
"""

from __future__ import annotations

import json
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


def ask(step: str, folder: Path, *options: str) -> Served:
    """Put all questions to the search of the working directory, which `ask` and `serve` share."""
    asked = [*QUESTIONS, *((text, None) for text in OTHER_MATTERS)]
    ended = run("ask", *(text for text, _ in asked), "--documents", "FAQ.csv", "--json", *options, folder=folder)
    assert ended.code == 0, f"{step}: {ended.errors}"
    right = wrong = none = 0
    for (_, row), found in zip(asked, json.loads(ended.output), strict=True):
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


@pytest.mark.parametrize(("effort", "wordings"), [("", False), (" --quick", False), (" --quick", True)])
def test_the_way_of_the_readme(clinic: Path, effort: str, wordings: bool) -> None:
    """Untrained, with wordings, trained on what `split` gives, calibrated, and with the precision that README names."""
    steps = [ask("untrained", clinic)]
    assert steps[0].right > len(QUESTIONS) / 2
    if wordings:
        write_clinic(clinic / "FAQ.csv", wordings=True)
        steps.append(ask("wordings", clinic))
    higher = [ask("untrained, .9", clinic, "--precision", "0.9")]
    command("ap-ranker split FAQ.csv --output data", clinic)
    command(f"ap-ranker train data --language english --output checkpoints/faq{effort}", clinic)
    steps.append(ask("trained", clinic))
    check_no_step_is_worse(steps)
    command("ap-ranker calibrate checkpoints/faq data", clinic)
    steps.append(ask("calibrated", clinic))
    check_no_step_is_worse(steps)
    with served("FAQ.csv", "--precision", "0.9", folder=clinic) as server:
        assert httpx.get(server.address, timeout=60).status_code == 200
    higher.append(ask("calibrated, .9", clinic, "--precision", "0.9"))
    check_no_step_is_worse(higher)


def test_the_way_of_doctor(clinic: Path) -> None:
    """Each command that it names runs, and the search is as good as before."""
    steps = [ask("untrained", clinic)]
    for _ in range(DOCTORS_LINES):
        examined = run("doctor", "FAQ.csv", folder=clinic)
        assert examined.code == 0, examined.errors
        commands = commands_of(examined.output)
        if not commands:
            break
        for line in commands:
            command(line, clinic)
        steps.append(ask("; ".join(commands), clinic))
    check_no_step_is_worse(steps)


def commands_of(output: str) -> list[str]:
    """The commands of `doctor`'s next step that change something, which its last paragraph names."""
    last = output.strip().rsplit("Next:", maxsplit=1)[-1]
    named = re.findall(r"ap-ranker (?:split|train|calibrate|init|retrain) [^\n;,]*[^\n;,.\s]", last)
    return [line for line in named if "DEV" not in line and "QUESTIONS" not in line]
