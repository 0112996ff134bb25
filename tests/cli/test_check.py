from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from ap_ranker.cli.check import warn_of_faults
from ap_ranker.cli.console import console
from ap_ranker.cli.main import app

FAULTS = 'question,answer\nWhere is it?,Open the <b>[link]</b>.\nWhere is it?,Nowhere.\nIs it open?,"Yes, always."\n'


def check(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", *map(str, arguments)])
    return result.exit_code, result.output


def test_report_and_json(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text(FAULTS)
    (tmp_path / "dev.csv").write_text("question,answer\nIs it open?,No.\n")
    code, output = check(tmp_path / "faq.csv", "--json", tmp_path / "found.json")
    assert code == 0  # warnings only
    assert "html: 1 texts" in output
    assert "'Open the <b>[link]</b>.'" in output  # brackets are not markup
    assert "0 errors, 2 warnings, 0 notes" in output
    found = json.loads((tmp_path / "found.json").read_text())
    assert [(entry["kind"], entry["severity"], entry["count"]) for entry in found["findings"]] == [
        ("html", "warning", 1),
        ("several-answers", "warning", 1),
    ]
    assert found["findings"][1]["examples"] == [
        {"place": f"{tmp_path / 'faq.csv'}, line 3", "found": "as line 2: 'Where is it?'"}
    ]
    code, output = check(tmp_path / "faq.csv", "--dev", tmp_path / "dev.csv")
    assert code == 1
    assert "leaked-question: 1" in output


def test_fix(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text(FAULTS)
    code, output = check(tmp_path / "faq.csv", "--fix", tmp_path / "fixed.csv")
    assert code == 0
    assert "repaired: html 1" in output
    _, output = check(tmp_path / "fixed.csv")
    assert "html" not in output
    assert "several-answers" in output


def test_warnings_before_training(tmp_path: Path) -> None:
    """At most three lines; none where there is nothing to say; and a file that training does not need may be broken."""
    faq, dev = tmp_path / "faq.csv", tmp_path / "dev.csv"
    faq.write_text(FAULTS)
    dev.write_text("question,answer\nIs it open?,No.\n")

    def lines(data: Path, dev: Path | None = None) -> list[str]:
        with console.capture() as captured:
            warn_of_faults(data, dev, None, 200)
        return captured.get().splitlines()

    assert lines(faq, dev) == [
        "Warning: 1 questions are also, exactly or nearly, in an earlier split: measures will be too high.",
        "Warning: faults in the data: html 1, several-answers 1.",
        f"  Details: ap-ranker check {faq}",
    ]
    assert lines(dev) == []
    (tmp_path / "train.csv").write_text("question,answer\nIs it shut?,No.\n")
    (tmp_path / "test.csv").write_text("question\nIs it open?\n")
    [line] = lines(tmp_path)
    assert line.startswith("Warning: the data cannot be checked.")
    assert "test.csv" in line
