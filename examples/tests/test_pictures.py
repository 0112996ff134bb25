"""Pictures: groups of answers by length, heat maps, comparisons."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import ROOT, imported, write_checkpoint
from matplotlib.image import imread

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.compare import Comparison, Result

HERE = ROOT / "examples" / "pictures"


@pytest.fixture(scope="module")
def lengths_of() -> Iterator[ModuleType]:
    with imported(HERE / "lengths.py") as module:
        yield module


def measured(lengths: list[list[int]], model: list[float], bm25: list[float]) -> EvaluationReport:
    """One question for each list of the lengths of its right answers, and one without any answer first of all."""
    answers, questions = [], [Question("none", "?", ())]
    for question, own in enumerate(lengths):
        rows = tuple(range(len(answers), len(answers) + len(own)))
        answers += [Answer(f"{question}-{row}", " ".join(["word"] * n)) for row, n in enumerate(own)]
        questions.append(Question(str(question), "?", rows))
    each = {"P@1": np.array(model)}, {"P@1": np.array(bm25)}
    dataset = Dataset("d", answers, questions)
    return EvaluationReport(dataset, 1, "", *each)


def test_groups_hold_each_question_once_and_their_means(lengths_of: ModuleType) -> None:
    rng = random.Random(0)
    lengths = [[rng.randint(1, 40) for _ in range(rng.randint(1, 3))] for _ in range(100)]
    model, bm25 = ([float(rng.random() < 0.5) for _ in lengths] for _ in range(2))
    groups = lengths_of.by_length(measured(lengths, model, bm25))
    assert len(groups) == lengths_of.LENGTH_GROUPS
    assert sum(group["n_questions"] for group in groups) == 100
    assert all(10 <= group["n_questions"] <= 24 for group in groups)
    assert all(one["longest"] < other["shortest"] for one, other in pairwise(groups))
    for group in groups:
        rows = [i for i, own in enumerate(lengths) if group["shortest"] <= sum(own) / len(own) <= group["longest"]]
        assert group["n_questions"] == len(rows)
        assert group["model"] == pytest.approx(sum(model[i] for i in rows) / len(rows))
        assert group["bm25"] == pytest.approx(sum(bm25[i] for i in rows) / len(rows))


def test_equally_long_answers_are_one_group(lengths_of: ModuleType) -> None:
    [group] = lengths_of.by_length(measured([[3]] * 7, [1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]))
    assert (group["shortest"], group["longest"], group["n_questions"]) == (3, 3, 7)
    assert (group["model"], group["bm25"]) == (pytest.approx(1 / 7), 1)


def test_the_lengths_are_drawn(lengths_of: ModuleType, tmp_path: Path) -> None:
    groups = lengths_of.by_length(measured([[3], [5], [9]], [1, 0, 1], [0, 0, 1]))
    lengths_of.plot_lengths(groups, "ap-cnn", tmp_path / "lengths.png")
    assert (tmp_path / "lengths.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "answer", ["Open the\n tracking link; it costs $5 & $6.", "", "保险 " + "word " * 60 + "x" * 200]
)
def test_a_heat_map(answer: str, tmp_path: Path) -> None:
    question = 'Where is <b>my</b> "parcel" & <p>bike?'
    ranker = Ranker.from_pretrained(write_checkpoint("ap-cnn", tmp_path / "ranker"), "cpu")
    with imported(HERE / "heat_map.py") as module:
        module.draw(ranker.explain(question, answer), question, answer, ranker.name, tmp_path / "picture.png")
    picture = imread(tmp_path / "picture.png")[:, :, :3]
    heated = (picture[:, :, 0] > 0.9) & (picture[:, :, 2] < 0.5)  # orange
    assert heated.any(axis=1).any()
    assert (picture == 1).all(axis=2).mean() > 0.5


def test_a_comparison(tmp_path: Path) -> None:
    measures = {"P@1": [0.5, 0.6], "MRR": [0.6, 0.7]}
    results = [Result(name, measures, {}, size, 1.0, 0.001, 8.0) for name, size in (("ap-cnn", 100), ("bow-idf", 0))]
    bm25 = {"P@1": 0.4, "MRR": 0.5}
    found = Comparison("d", 10, [1, 2], bm25, bm25, "BM25", ["BM25"], results)
    with imported(HERE / "comparison.py") as module:
        module.plot_comparison(found, tmp_path / "table.png")
    assert (tmp_path / "table.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_of_decisions_shows_what_was_measured(tmp_path: Path) -> None:
    with imported(ROOT / "examples" / "no_answer" / "decision_plot.py") as module:
        assert module.table() in (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
        module.command(tmp_path / "decisions.png")
    assert (tmp_path / "decisions.png").read_bytes().startswith(b"\x89PNG")
