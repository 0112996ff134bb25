"""`ap-ranker evaluate --compare`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import write_checkpoint
from refusals import absent, refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.ranking.ranker import Ranker


def run(*arguments: object) -> str:
    command = ["evaluate", *map(str, arguments), "--device", "cpu"]
    result = CliRunner().invoke(app, command, catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder(faq: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, match in (("ap-cnn", "both"), ("qa-bilstm", "answer")):
        write_checkpoint(name, faq.parent / name, training={"match": match}, bm25_weight=0.1)
    monkeypatch.chdir(faq.parent)
    return faq.parent


def test_compare(folder: Path) -> None:
    printed = run("ap-cnn", "FAQ.csv", "--compare", "qa-bilstm", "--json", "report.json")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    compared = report["compare"]
    data = read_dataset(folder / "FAQ.csv", "test", match="both")
    alone = evaluate(Ranker.from_pretrained(folder / "qa-bilstm", "cpu"), data)
    assert compared["checkpoint"] == "qa-bilstm"
    assert compared["measures"] == {"model": alone.model, "fusion": alone.fusion}
    for kind in ("model", "fusion"):
        for measure, value in compared["measures"][kind].items():
            assert compared[kind]["difference"][measure] == pytest.approx(report[kind][measure] - value)
            assert f"{value:.3f}" in printed
            assert f"{compared[kind]['difference'][measure]:+.3f}" in printed
            assert f"{compared[kind]['p_value'][measure]:.4f}" in printed
    assert f"higher for {compared['better']} questions, lower for {compared['worse']} of 3" in printed
    assert compared["improved"] or compared["worsened"]
    for title, listed in (("Higher", compared["improved"]), ("Lower", compared["worsened"])):
        for change in listed:
            assert f"{title}, {change['rank_before']:g} → {change['rank_after']:g}: {change['question']}" in printed
            if change["first_before"] != change["first_after"]:
                assert f"first before: {change['first_before'][:80]}" in printed
                assert f"first now: {change['first_after'][:80]}" in printed
    assert not absent("qa-bilstm … --match answer … --match both", printed)
    assert "was trained with --match" not in run("ap-cnn", "FAQ.csv", "--compare", "qa-bilstm", "--match", "answer")


def test_a_checkpoint_beside_itself(folder: Path) -> None:
    run("ap-cnn", "FAQ.csv", "--compare", "ap-cnn", "--json", "report.json")
    compared = json.loads((folder / "report.json").read_text(encoding="utf-8"))["compare"]
    assert (compared["better"], compared["worse"], compared["improved"], compared["worsened"]) == (0, 0, [], [])
    assert set(compared["model"]["difference"].values()) == {0.0}
    assert set(compared["model"]["p_value"].values()) == {1.0}


def test_no_such_checkpoint(folder: Path) -> None:
    with refused("nowhere"):
        run("ap-cnn", "FAQ.csv", "--compare", "nowhere", "--json", "report.json")
    assert not (folder / "report.json").exists()
