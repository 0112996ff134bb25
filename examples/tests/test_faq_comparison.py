"""The page of the example's results has the committed comparison."""

from __future__ import annotations

import json

import pytest
from conftest import ROOT

from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.evaluation_set import EvaluationSet

COMPARISON = json.loads((ROOT / "examples" / "faq" / "comparison.json").read_text())


def test_bm25_is_that_of_today() -> None:
    """It learns nothing, so nothing but a change of how words are read moves it."""
    test = read_dataset(ROOT / "examples" / "faq", "test")
    assert EvaluationSet(test, language="english").bm25 == pytest.approx(COMPARISON["bm25"])


def test_the_page_of_the_results_holds_the_table() -> None:
    table = (ROOT / "examples" / "faq" / "comparison.md").read_text().partition("\n\n")[0]
    assert table in (ROOT / "docs" / "archive" / "results_example.md").read_text()
