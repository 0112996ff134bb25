from __future__ import annotations

import re
from pathlib import Path

import typer
from typer.testing import CliRunner

from benchmarks.answers_at_hand import command


def test_times_of_the_first_answers(tmp_path: Path) -> None:
    rows = "".join(f"where is my {word},All about your {word}.\n" for word in ("parcel", "bike", "refund", "bell"))
    (tmp_path / "test.csv").write_text("question,answer\n" + rows)
    app = typer.Typer()
    app.command()(command)
    options = ["--models", "ap-cnn,qa-bilstm", "--candidates", "3,2", "--questions", "1", "--device", "cpu"]
    result = CliRunner().invoke(app, [str(tmp_path / "test.csv"), *options])
    assert result.exit_code == 0, result.output
    found = re.findall(
        r"^\| `(.+?)` \| (\d) \| (\S+) \| (\S+) \| (\S+) \| ([\d,]+) \|  \|$", result.output, re.MULTILINE
    )
    assert [each[:2] for each in found] == [(name, n) for name in ("ap-cnn", "qa-bilstm") for n in "23"]
    for _, _, cold, warm, p95, kept in found:
        assert 0 < float(warm) <= float(p95)
        assert float(cold) > 0
        assert int(kept.replace(",", "")) > 0
