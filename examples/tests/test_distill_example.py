"""What the students' script reads, names and writes, with toy models."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT, TEXTS, imported, write_encoder
from refusals import refused

from ap_ranker.data.reader import read_dataset
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train

HERE = ROOT / "examples" / "distill"

UNTRAINED = "toy, untrained teacher"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with imported(HERE / "run.py") as module:
        yield module


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "toy"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            pairs = [(f"{split} {question}", answer) for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True)]
            csv.writer(file).writerows([("question", "answer"), *pairs])
    return folder


def row(run: ModuleType, name: str, mrr: float, milliseconds: float) -> Any:
    measures = {"MRR": [mrr], "P@1": [mrr]}
    return run.Row(
        "toy", name, 3, "all", measures, measures, {"MRR": 0.5, "P@1": 0.4}, [milliseconds], [8.0], [1.0],
        seeds=[1], settings="",
    )  # fmt: skip


def test_the_cheapest_student_that_keeps_enough_is_named(run: ModuleType) -> None:
    teacher, slow, fast, bad = (
        row(run, *each) for each in (("teacher", 0.8, 9), ("slow", 0.79, 2), ("fast", 0.761, 1), ("bad", 0.759, 0.1))
    )
    assert run.cheapest([teacher, slow, fast, bad]).endswith("95% of the teacher's MRR: `fast`.")
    assert run.cheapest([teacher, bad]) == "No student keeps 95% of the teacher's MRR."
    text = run.render([slow, teacher, fast], ["teacher", "fast", "slow"])
    assert text.index("| teacher | 0.800") < text.index("| fast | 0.761") < text.index("| slow | 0.790")
    assert "| 0.761 | 95.1% | 1.00 | 8 | 1 |" in text


def test_the_committed_rows_are_valid(run: ModuleType) -> None:
    for name in ("students.yaml", "insuranceqa.yaml"):
        students = run.read_students(HERE / name, "english")
        assert any(student.taught for student in students.values())
        assert {student.config.language for student in students.values()} == {"english"}


def test_a_row_without_taught_is_named(run: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text("one: {model: ap-cnn}\n")
    with refused("rows.yaml, one … taught: true"):
        run.read_students(tmp_path / "rows.yaml", None)


def test_words_of_an_unknown_row_are_refused(run: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text("bag: {taught: true, model: bow-idf}\none: {taught: true, words_of: big}\n")
    with refused("rows.yaml, one … words_of … bag … big"):
        run.read_students(tmp_path / "rows.yaml", None)


def test_a_toy_run_writes_its_table(run: ModuleType, folder: Path, tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    data = read_dataset(folder, "train")
    options = {"encoder": str(encoder), "size": 4}
    train(data, data, tmp_path / "teacher", TrainingConfig("ap-transformer", options, epochs=0, max_tokens=20))
    common = {"embeddings": f"encoder:{encoder}", "embedding_size": 4, "max_tokens": 20}
    settings = {
        "static": {"taught": False, "model": "bow-idf", **common},
        "taught": {"taught": True, "model": "bow-idf", "epochs": 1, **common},
    }
    own_words = {"taught": True, "words_of": "taught", "model": "ap-cnn", "options": {"filters": 4}, "epochs": 1}
    settings["begun"] = own_words | {"max_tokens": 20}
    (tmp_path / "rows.yaml").write_text(json.dumps(settings))
    students = list(run.read_students(tmp_path / "rows.yaml", None).values())
    (tmp_path / "results").mkdir()
    for _ in range(2):  # the second time, nothing is trained again
        run.measure(tmp_path / "teacher", folder, students, [1], tmp_path / "runs", "cpu", tmp_path / "results")
    assert len(list((tmp_path / "runs" / "toy").iterdir())) == 3
    [begun] = (tmp_path / "runs" / "toy").glob("begun-*")
    first = json.loads((begun / "config.json").read_text())["training"]["word_vectors"]
    assert first.startswith(f"the checkpoint {tmp_path / 'runs' / 'toy' / 'taught-'}")
    written = json.loads((tmp_path / "results" / "results.json").read_text())
    rows = {(row["data"], row["name"]): row["model"] for row in written}
    assert list(rows) == [(UNTRAINED, name) for name in ("begun", "static", "taught", "teacher")]
    table = (tmp_path / "results" / "results.md").read_text()
    assert [name for name in ("teacher", "static", "taught", "begun") if f"| {name} |" not in table] == []
    assert f"## {UNTRAINED}\n" in table
