"""Each searcher is timed with questions that nobody has asked, and answers until the time is over."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import gpu_speed
from benchmarks.gpu_speed import Searcher, command, numbered, times_of_answers, times_of_questions


class Timed(Searcher):
    """Takes a time that it is told, on a clock of its own."""

    def __init__(self, name: str, clock: list[float], seconds: float) -> None:
        self.name = name
        self.asked: list[int] = []
        self.texts: list[str] = []
        self._clock = clock
        self._seconds = seconds

    def rank(self, questions: Sequence[str]) -> Any:
        self.asked.append(len(questions))
        self.texts += questions
        self._clock[0] += self._seconds * (1 + len(questions))

    def read(self, answers: Sequence[str]) -> None:
        self._clock[0] += self._seconds * len(answers)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(gpu_speed, "perf_counter", lambda: now[0])
    return now


def test_each_has_its_own_time(clock: list[float]) -> None:
    compared = [Timed("fast", clock, 0.001), Timed("slow", clock, 0.1)]
    rows = times_of_questions(compared, numbered(["a", "b"]), rounds=3, batch=4)
    assert rows == [["fast", "2.00", "2.00", "800.0"], ["slow", "200.00", "200.00", "8.0"]]
    assert [searcher.asked for searcher in compared] == [[1, 1, 1, 1, 4] * 5] * 2
    every = compared[0].texts + compared[1].texts
    assert len(set(every)) == len(every) == 80


def test_answers_until_the_time_is_over(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_speed, "READ_AT_ONCE", 4)
    compared = [Timed("fast", clock, 0.001), Timed("slow", clock, 0.1), Timed("never", clock, 0.1)]
    compared[2].reads = False
    rows = times_of_answers(compared, [*map(str, range(10))], limit=0.5)
    assert rows == [["fast", "10", "0.0", "1,000"], ["slow", "8", "0.8", "10"]]


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    pytest.importorskip("sentence_transformers", reason='needs pip install "ap-ranker[peers]"')
    words = ("parcel", "bike", "refund", "bell")
    rows = "".join(f"where is my {word},All about your {word}.\n" for word in words)
    (tmp_path / "test.csv").write_text("question,answer\n" + rows)
    from random_encoders import BERT, pooled, word_pieces, write

    encoder = write(tmp_path, BERT | {"max_position_embeddings": 256}, word_pieces(), pooled("mean"))
    return [str(tmp_path / "test.csv"), "--encoder", str(encoder), "--candidates", "3", "--device", "cpu"]


def run(options: list[str]) -> str:
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    return result.output


def test_questions(options: list[str]) -> None:
    output = run([*options, "--rounds", "1", "--batch", "2"])
    rows = re.findall(r"^\| (.+?) \| ([\d.]+) \| ([\d.]+) \| ([\d.,]+) \|$", output, re.MULTILINE)
    assert [row[0] for row in rows] == ["ap-transformer", "ap-transformer, no graphs", "bi-encoder", "cross-encoder"]
    for _, p50, p95, per_second in rows:
        assert 0 < float(p50) <= float(p95)
        assert float(per_second.replace(",", "")) > 0


def test_answers(options: list[str]) -> None:
    output = run([*options, "--answers", "5"])
    rows = re.findall(r"^\| (.+?) \| (\d+) \| [\d.]+ \| [\d,]+ \|$", output, re.MULTILINE)
    assert rows == [("ap-transformer", "5"), ("bi-encoder", "5")]
