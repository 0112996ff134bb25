"""The commands one after another, as users run them; what a process of its own adds is tried with one of each kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command_line import run
from conftest import settings_of
from refusals import absent
from searches import write_pipeline

from ap_ranker.models.registry import MODELS

PAIRS = "question,answer\n" + "".join(
    f"{pattern.format(topic)},All about your {topic} [and more].\n"
    for topic in ("parcel", "refund", "battery", "helmet")
    for pattern in ("where is my {}", "the {} is gone", "help with a {}")
)
SETTINGS = "model: ap-cnn\noptions: {filters: 8}\nembedding_size: 8\nepochs: 2\n"


def run_alone(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ap_ranker", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a checkpoint trained on it by the command."""
    place = tmp_path_factory.mktemp("cli")
    (place / "faq.csv").write_text(PAIRS)
    (place / "settings.yaml").write_text(SETTINGS)
    write_pipeline(place, Path("ranker"))
    result = run("train", "faq.csv", "--config", "settings.yaml", "--output", "ranker", "--device", "cpu", folder=place)
    assert result.code == 0, result.errors
    assert not absent("Training … 11 … 11 … 4", result.output)
    assert "Dev data: 1 questions" in result.output
    assert result.output.count("dev MRR") == 3  # two epochs and the summary
    assert "Wrote ranker: ap-cnn, epoch" in result.output
    return place


def test_evaluate(folder: Path) -> None:
    result = run("evaluate", "ranker", "faq.csv", "--json", "report.json", folder=folder)
    assert result.code == 0, result.errors
    report = json.loads((folder / "report.json").read_text())
    assert report["n_questions"] == 12
    for side in ("model", "bm25"):
        assert list(report[side]) == ["P@1", "MRR", "MAP", "nDCG@10"]
        for value in report[side].values():
            assert f"{value:.3f}" in result.output
    assert not list(folder.glob(".report*"))
    rounded = run("evaluate", "ranker", "faq.csv", "--dtype", "int8", "--json", "rounded.json", folder=folder)
    assert rounded.code == 0, rounded.errors
    assert json.loads((folder / "rounded.json").read_text())["bm25"] == report["bm25"]


def test_ask(folder: Path) -> None:
    common = ("--pipeline", "search.yaml", "--documents", "faq.csv")
    result = run("ask", "where did my parcel go?", *common, "--top-k", 1, "--json", folder=folder)
    assert result.code == 0, result.errors
    found = json.loads(result.output)
    assert found["question"] == "where did my parcel go?"
    assert len(found["answers"]) == 1
    assert set(found["answers"][0]) == {"score", "question", "answer"}
    shown = run("ask", "where did my parcel go?", "help with a helmet", *common, "--match", "answer", folder=folder)
    assert shown.code == 0, shown.errors
    assert "[and more]" in shown.output  # a user's text is not markup
    assert "help with a helmet" in shown.output


def test_encode(folder: Path) -> None:
    """The example's way from a checkpoint to a warm pipeline."""
    result = run("encode", "ranker", "faq.csv", "--output", "states", "--dtype", "float32", folder=folder)
    assert result.code == 0, result.errors
    assert not absent("12 of 12 … states … 12", result.output)
    again = run("encode", "ranker", "faq.csv", "--output", "states", "--dtype", "float32", folder=folder)
    assert not absent("0 of 12 … states … 12", again.output)
    pipeline = yaml.safe_load((folder / "search.yaml").read_text())
    settings_of(pipeline)["ranker"]["cache"] = {"encodings": "states"}
    (folder / "warm.yaml").write_text(yaml.safe_dump(pipeline))
    asked = [
        run("ask", "where did my parcel go?", "--documents", "faq.csv", "--pipeline", name, "--json", folder=folder)
        for name in ("warm.yaml", "search.yaml")
    ]
    warm, cold = (json.loads(result.output)["answers"] for result in asked)
    assert [answer["question"] for answer in warm] == [answer["question"] for answer in cold]
    assert [answer["score"] for answer in warm] == pytest.approx([answer["score"] for answer in cold], abs=1e-5)


def test_compare(folder: Path) -> None:
    data = folder / "data"
    data.mkdir()
    for split in ("train", "dev", "test"):
        (data / f"{split}.csv").write_text(PAIRS)
    (folder / "common.yaml").write_text("embedding_size: 8\nbatch_size: 8\n")
    arguments = ("data", "--models", "ap-cnn:filters=8,hyperqa", "--config", "common.yaml", "--epochs", 1, "--seeds", 2)
    files = ("--json", "result.json", "--table", "table.md")
    result = run("compare", *arguments, "--output", "runs", *files, folder=folder)
    assert result.code == 0, result.errors
    found = json.loads((folder / "result.json").read_text())
    table = (folder / "table.md").read_text()
    labels = {"ap-cnn:filters=8", "hyperqa"}
    assert {row["label"] for row in found["results"]} == labels | {f"{label}, with BM25" for label in labels}
    for row in found["results"]:
        mrr = row["measures"]["MRR"]
        assert f"| {row['label']} |" in table
        assert f"{sum(mrr) / 2:.3f} ± " in table
        assert f"{sum(mrr) / 2:.3f} ± " in result.output
    assert f"| BM25 | {found['bm25']['P@1']:.3f} |" in table
    assert "| random order |" in table
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_models(folder: Path) -> None:
    result = run("models", folder=folder)
    assert result.code == 0, result.errors
    for name in MODELS:
        assert f" {name} " in result.output
    one = run("models", "qa-cnn", folder=folder)
    for word in ("4000", "cosine, gesd", "dos Santos", "804,000", "learning_rate 0.05, schedule constant"):
        assert word in one.output


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_is_shown(name: str, tmp_path: Path) -> None:
    result = run("models", name, folder=tmp_path)
    assert result.code == 0, result.errors
    for option in MODELS[name].options:
        assert option in result.output


def test_an_existing_checkpoint_is_not_replaced_unasked(folder: Path) -> None:
    before = (folder / "ranker" / "model.safetensors").read_bytes()
    result = run("train", "faq.csv", "--output", "ranker", folder=folder)
    assert (result.code, "--overwrite" in result.errors) == (2, True)
    assert (folder / "ranker" / "model.safetensors").read_bytes() == before
    (folder / "mine").mkdir(exist_ok=True)
    other = run("train", "faq.csv", "--output", "mine", "--overwrite", folder=folder)
    assert (other.code, "holds something else" in other.errors) == (2, True)


def test_a_users_mistake_ends_the_process(folder: Path) -> None:
    """With the exit code and the message that `main` gives within one."""
    arguments = ("evaluate", "nowhere", "faq.csv")
    alone, here = run_alone(*arguments, folder=folder), run(*arguments, folder=folder)
    assert alone.returncode == here.code == 2
    assert alone.stderr == here.errors
    assert alone.stdout == here.output == ""


def test_help_needs_no_torch(tmp_path: Path) -> None:
    program = "import sys, ap_ranker.cli.main\nassert not {'torch', 'haystack', 'numpy', 'scipy'} & set(sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
