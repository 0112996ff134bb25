"""Training on titles: what is learnt from, what is compared, and that the page shows what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, imported
from refusals import refused

from ap_ranker.data.dataset import Question
from ap_ranker.data.faq import Match, read_faq
from ap_ranker.data.reader import read_dataset

HERE = ROOT / "examples" / "titles"
FAQ = ROOT / "examples" / "faq"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with imported(HERE / "run.py") as module:
        yield module


def test_only_stored_questions_are_learnt_from(run: ModuleType) -> None:
    data = run.read_titles(FAQ / "answers.csv")
    assert {(question.text, data.answers[row].text) for question in data.questions for row in question.positives} == {
        (entry.question, entry.answer) for entry in read_faq(FAQ / "answers.csv")
    }


def test_answers_are_searched_without_their_stored_questions(run: ModuleType) -> None:
    test = run.without_questions(read_dataset(FAQ, "test", match=Match.answer))
    assert [answer.text for answer in test.answers] == [entry.answer for entry in read_faq(FAQ / "answers.csv")]
    assert not any(answer.wordings for answer in test.answers)


def test_a_test_question_that_is_a_title_is_refused(run: ModuleType) -> None:
    training = run.read_titles(FAQ / "answers.csv")
    test = read_dataset(FAQ, "test")
    run.check_leaks(training, test)
    leaked = Question("leak", f"  {training.questions[0].text.upper()}", (0,))
    with refused("leak"):
        run.check_leaks(training, replace(test, questions=[*test.questions, leaked]))


class Report:
    def __init__(self, model: Any, fusion: Any) -> None:
        self.model_each, self.fusion_each = model, fusion
        self.bm25_each = {"MRR": np.full(20, 0.1), "P@1": np.zeros(20)}


def test_the_rows(run: ModuleType) -> None:
    low, high = ({"MRR": np.full(20, value), "P@1": np.full(20, value)} for value in (0.5, 0.9))
    reports = {run.UNTRAINED: Report(low, low), run.NORMAL: Report(high, low)}
    rows = run.rows_of(reports, "english")
    assert [row["name"] for row in rows] == [
        "BM25, english stemmer",
        "ap-transformer, untrained",
        "ap-transformer, untrained, and BM25",
        "ap-transformer, titles",
        "ap-transformer, titles, and BM25",
    ]
    assert [round(row["MRR"], 6) for row in rows] == [0.1, 0.5, 0.5, 0.9, 0.5]
    assert rows[0]["p to BM25"] is None
    assert [row["p to untrained"] for row in rows[:3]] == [None] * 3
    assert rows[3]["p to untrained"] < 0.01
    assert rows[4]["p to untrained"] == 1
    assert all(row["p to BM25"] < 0.01 for row in rows[1:])


def test_the_page_shows_what_was_measured(run: ModuleType) -> None:
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    table = (HERE / "results.md").read_text(encoding="utf-8")
    assert table == run.render(results)
    assert table.strip() in (ROOT / "docs" / "archive" / "results_small_data.md").read_text(encoding="utf-8")
