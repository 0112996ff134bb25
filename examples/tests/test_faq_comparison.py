"""The README's table is the committed comparison's, rounded."""

from __future__ import annotations

import json
import re

import pytest
from conftest import ROOT

from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.evaluation_set import EvaluationSet

COMPARISON = json.loads((ROOT / "examples" / "faq" / "comparison.json").read_text())


def numbers(cells: list[str]) -> list[float | None]:
    return [float(cell.replace(",", "")) if re.fullmatch(r"[\d.,]+", cell) else None for cell in cells]


def test_the_readmes_table() -> None:
    section = (ROOT / "README.md").read_text().split("## How good, how fast")[1].split("## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    table = {re.sub(r"[`*]", "", name).split(" (")[0]: numbers(cells) for name, *cells in rows[2:]}
    for result in COMPARISON["results"]:
        p_at_1, mrr, training, milliseconds, kept = table.pop(result["label"])
        assert p_at_1 == pytest.approx(result["measures"]["P@1"][0], abs=5e-4)
        assert mrr == pytest.approx(result["measures"]["MRR"][0], abs=5e-4)
        assert training == pytest.approx(result["training_seconds"], abs=0.5)
        assert milliseconds == pytest.approx(1000 * result["seconds_per_question"], abs=0.05)
        assert (kept or 0) == pytest.approx(result["bytes_per_answer"], abs=0.5)
    bm25 = table.pop("BM25")
    assert bm25[:2] == [pytest.approx(COMPARISON["bm25"][name], abs=5e-4) for name in ("P@1", "MRR")]
    assert not table


def test_bm25_is_that_of_today() -> None:
    """It learns nothing, so nothing but a change of how words are read moves it."""
    test = read_dataset(ROOT / "examples" / "faq", "test")
    assert EvaluationSet(test, language="english").bm25 == pytest.approx(COMPARISON["bm25"])


def test_the_page_of_the_results_holds_the_table() -> None:
    table = (ROOT / "examples" / "faq" / "comparison.md").read_text().partition("\n\n")[0]
    assert table in (ROOT / "docs" / "archive" / "results_example.md").read_text()
