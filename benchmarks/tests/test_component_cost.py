"""What a component adds is its run without its model's part of it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from haystack import Document
from typer.testing import CliRunner

from benchmarks.component_cost import NUMBERS, Model, Nothing, cost, main, runs_of


def work(seconds: float) -> None:
    """Takes processor time, as a model does."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Slow:
    """A model that takes 20 ms, in a component that adds 5 ms."""

    def score_entries(self) -> None:
        work(0.02)


class SlowRanker:
    def __init__(self, model: Slow) -> None:
        self.model = model

    def run(self, *, query: str, documents: list[Document]) -> dict[str, Any]:
        work(0.005)
        self.model.score_entries()
        return {"documents": documents}


def test_the_model_is_not_counted() -> None:
    slow = Slow()
    added, nothing = cost([SlowRanker(slow).run, Nothing().run], Model(slow), 3, 5)
    assert added == pytest.approx(5, abs=2)
    assert nothing < 1


def test_a_run_and_one_in_a_pipeline() -> None:
    inputs = {"query": "a", "documents": [Document(content="b")]}
    alone, in_a_pipeline = runs_of(Nothing())
    assert alone(**inputs) == in_a_pipeline(**inputs)["part"] == {"documents": inputs["documents"]}


def test_the_table(checkpoint: Path) -> None:
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, ["--model", str(checkpoint), "--number", "1"])
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^\| ([\d,]+) " + r"\| (\d+\.\d\d) " * 4 + r"\|$", result.output, re.MULTILINE)
    assert [int(row[0].replace(",", "")) for row in rows] == list(NUMBERS)
    assert all(float(ranker) > float(nothing) for _, ranker, nothing, *_ in rows)
