"""`ap-ranker doctor`: one screen, and the next step."""

from __future__ import annotations

import json
from pathlib import Path

from refusals import absent
from typer.testing import CliRunner

from ap_ranker.cli.main import app


def test_one_screen_ends_with_the_next_step(faq: Path, checkpoint: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", str(faq), "--model", str(checkpoint)])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    steps = [line.strip(" →") for line in lines if "→" in line]
    assert len(lines) <= 24
    assert lines[-1].endswith(steps[0])
    assert not absent("3 of 3", result.stdout)


def test_json(faq: Path, checkpoint: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--documents", str(faq), "--model", str(checkpoint), "--json"])
    assert result.exit_code == 0, result.output
    assert {name for each in json.loads(result.stdout) for name in each} == {"found", "advice"}


def test_without_documents() -> None:
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code != 0
    assert not absent("--documents", result.exception)
