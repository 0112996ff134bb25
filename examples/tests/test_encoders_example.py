"""The table of encoders: measured on a toy FAQ with an encoder of random weights, and drawn from known numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT, imported
from random_encoders import BERT, pooled, word_pieces, write
from refusals import refused

from ap_ranker.ranking.checkpoint import is_checkpoint

HERE = ROOT / "examples" / "encoders"
PEERS = ROOT / "examples" / "fair_peers"

WORDS = ("parcel", "battery", "repair", "return")
FIRST = ("when", "how", "where", "why", "who", "which")


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for folder in (PEERS, HERE):
        monkeypatch.syspath_prepend(str(folder))
    path = list(sys.path)
    yield __import__("encoder_tables")
    sys.path[:] = path
    for name in ("encoder_tables", "encoder_cells", "fair_tables", "fair_systems", "fair_data", "late_interaction"):
        sys.modules.pop(name, None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A FAQ of four entries, each with six questions."""
    folder = tmp_path / "data" / "openstreetmap"
    folder.mkdir(parents=True)
    entries = [f"{number},about a {word}?,All that we know of your {word}." for number, word in enumerate(WORDS)]
    (folder / "answers.csv").write_text("\n".join(["aid,question,answer", *entries]) + "\n")
    lines: list[str] = []
    for number, word in enumerate(WORDS):
        for place in range(6):
            split = "test" if place == 5 else "train"
            lines.append(f"{split},{FIRST[place]} {word} {place * 7},{number}")
    (folder / "questions.csv").write_text("\n".join(["split,question,answer_ids", *lines]) + "\n")
    return folder.parent


def test_each_cell_is_measured_once(tables: ModuleType, data: Path, tmp_path: Path) -> None:
    encoder = write(tmp_path, BERT | {"max_position_embeddings": 256}, word_pieces(), pooled("mean"))
    (tmp_path / "README.md").write_text((HERE / "README.md").read_text())
    arguments: dict[str, Any] = {"data": data, "output": tmp_path / "out", "results": tmp_path}
    with imported(HERE / "run.py") as run:
        run.command(["openstreetmap"], encoder=[str(encoder)], effort=["cosine", "quick"], **arguments)
        result = json.loads((tmp_path / "results.json").read_text())
        assert result["question_ms"]["encoder"] > 0
        cells = {cell["effort"]: cell for cell in result["cells"]}
        assert cells.keys() == {"cosine", "quick"}
        dimensions = BERT["hidden_size"]
        assert cells["cosine"]["bytes_per_answer"] == 4 * dimensions
        quick = cells["quick"]
        assert quick["training_seconds"] > 0
        assert quick["peak_bytes"] > 10**8
        assert quick["questions"] == len(WORDS)
        assert not list((tmp_path / "out").glob("*.run"))
        (cached,) = (tmp_path / "out").glob("*quick*.json")
        cached.write_text(json.dumps(quick | {"title": "Measured before"}))
        run.command(["openstreetmap"], encoder=[str(encoder)], effort=["quick"], **arguments)
        titles = {
            cell["effort"]: cell["title"] for cell in json.loads((tmp_path / "results.json").read_text())["cells"]
        }
        assert titles["quick"] == "Measured before"
        with refused("an effort … quick … slow"):
            run.command(["openstreetmap"], encoder=[str(encoder)], effort=["slow"], **arguments)
    assert "Measured before" in (tmp_path / "README.md").read_text()


def test_dev_questions_of_what_is_trained(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same command trains nothing again; a start is another run."""
    encoder = write(tmp_path, BERT | {"max_position_embeddings": 256}, word_pieces(), pooled("mean"))
    output = tmp_path / "out"
    path = list(sys.path)
    with imported(HERE / "dev_quality.py") as dev_quality:
        dev_quality.command(["openstreetmap"], output, data, encoder=str(encoder))
        first = capsys.readouterr().out.splitlines()[-1]
        trained = output / f"openstreetmap-{encoder.name}"
        assert is_checkpoint(trained)
        dev_quality.command(["openstreetmap"], output, data, encoder=str(encoder))
        again = capsys.readouterr().out.splitlines()[-1]
        dev_quality.command(["openstreetmap"], output, data, encoder=str(encoder), start=trained)
    name, bm25, mrr, _ = (cell.strip() for cell in first.strip("|").split("|"))
    assert name == "openstreetmap"
    assert 0 < float(bm25) <= 1
    assert 0 < float(mrr) <= 1
    assert again.split("|")[:4] == first.split("|")[:4]
    assert is_checkpoint(output / f"openstreetmap-{encoder.name}-{trained.name}")
    sys.path[:] = path


def cell(encoder: str, effort: str, name: str, mrr: float, **others: Any) -> dict[str, Any]:
    costs = {"training_seconds": 1234.5, "peak_bytes": 2_500_000_000, "bytes_per_answer": 8116}
    measured = {"title": name.title(), "bm25": {"MRR": 0.5}, "measures": {"MRR": mrr}}
    return {"encoder": encoder, "effort": effort, "data": name} | costs | measured | others


def test_costs_are_those_of_the_example(tables: ModuleType) -> None:
    """The example stands first, efforts in their order; what has learnt nothing shows no training."""
    cells = [
        cell("small", "quick", "a faq", 0.7, training_seconds=5.0),
        cell("small", "quick", "example", 0.8),
        cell("small", "untrained", "example", 0.75),
        cell("small", "cosine", "example", 0.6),
        cell("large", "best", "a faq", 0.9),
    ]
    result = {"question_ms": {"small": 3.71}, "cells": cells}
    lines = [[part.strip() for part in line.strip("|").split("|")] for line in tables.render(result).splitlines()]
    assert lines[0][5:] == ["Example", "A Faq"]
    assert lines[2:] == [
        ["BM25", "", "", "", "", "0.500", "0.500"],
        ["`large`, best", "", "", "", "", "", "0.900"],
        ["`small`, cosine", "", "2.5", "8,116", "", "0.600", ""],
        ["`small`, untrained", "", "2.5", "8,116", "3.7", "0.750", ""],
        ["`small`, quick", "1,234", "2.5", "8,116", "3.7", "0.800", "0.700"],
    ]


def test_the_pages_have_the_table_of_the_file(tables: ModuleType) -> None:
    for path in (HERE / "README.md", tables.PAGE):
        page = path.read_text()
        assert tables.START in page
        assert sys.modules["fair_tables"].replaced(page, tables.render(tables.read_results()), tables.START) == page
