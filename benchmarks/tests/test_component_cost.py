"""What a component adds is its run without its model's part of it."""

from __future__ import annotations

import re
import time
from cProfile import Profile
from pathlib import Path
from typing import Any

import pytest
import typer
from haystack import Document
from typer.testing import CliRunner

from benchmarks.component_cost import NUMBERS, Model, Nothing, cost, main, runs_of
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker


def work(seconds: float) -> None:
    """Takes processor time, as a model does."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Slow:
    """A model that takes 20 ms, in a component that adds 5 ms."""

    def score_batch(self) -> None:
        work(0.02)


class SlowRanker:
    def __init__(self, model: Slow) -> None:
        self.model = model

    def run(self, *, query: str, documents: list[Document]) -> dict[str, Any]:
        work(0.005)
        self.model.score_batch()
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


def test_calls_for_each_candidate(checkpoint: Path) -> None:
    """Two functions of ours and five methods of dictionaries, lists and objects: it holds on a busy machine, too."""
    ranker = AnswerRanker(model=checkpoint, top_k=400)
    model = ranker.loaded()
    calls = {}
    for size in (200, 400):
        documents = [Document(content=f"text {n}", meta={"answer": str(n)}) for n in range(size)]
        ranker.run(query="how do I change a", documents=documents)  # encodes them
        signals = model.score_entries("how do I change b", [str(document.content) for document in documents])
        profile = Profile()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(model, "score_batch", lambda *_, found=signals, **__: [found])
            profile.runcall(ranker.run, query="how do I change b", documents=documents)
        calls[size] = sum(each.callcount for each in profile.getstats())
    assert calls[400] - calls[200] <= 8 * 200 + 10  # some are made once for many candidates


def test_the_table(checkpoint: Path) -> None:
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, ["--model", str(checkpoint), "--number", "1"])
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^\| ([\d,]+) " + r"\| (\d+\.\d\d) " * 4 + r"\|$", result.output, re.MULTILINE)
    assert [int(row[0].replace(",", "")) for row in rows] == list(NUMBERS)
    assert all(float(ranker) > float(nothing) for _, ranker, nothing, *_ in rows)
