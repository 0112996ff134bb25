"""What customers see of an answer's score and place."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from haystack import Document

from ap_ranker.search.sources import category_of
from ap_ranker.web.presentation import matches_of


@pytest.mark.parametrize(
    ("score", "calibrated", "expected"),
    [
        (0.99, True, "well"),
        (0.75, True, "well"),
        (0.74, True, "partly"),
        (0.4, True, "partly"),
        (0.39, True, "weakly"),
        (0.99, False, None),  # no probability
        (None, True, None),
    ],
)
def test_a_probability_in_words(score: float | None, calibrated: bool, expected: str | None) -> None:
    document = Document(content="b", score=score, meta={"question": "Where is it?"})
    assert matches_of("when does it come", [document], calibrated=calibrated) == [expected]


@pytest.mark.parametrize("meta", [{"question": "Where is it?"}, {"wordings": ["a", "where is it"]}])
def test_a_known_wording_matches_well(meta: dict[str, Any]) -> None:
    document = Document(content="b", score=0.01, meta=meta)
    assert matches_of("where is it", [document], calibrated=True) == ["well"]
    assert matches_of("WHERE IS IT ?", [document], calibrated=False) == ["well"]


@pytest.mark.parametrize(
    ("meta", "column", "expected"),
    [
        ({"category": "Money", "class": "x"}, "", "Money"),
        ({"Class": " Money  back "}, "", "Money back"),
        ({"category": "", "class": "Money"}, "", "Money"),
        ({"Thema": "Versand", "Preis": "7"}, "", "Versand"),
        ({"カテゴリー": "配送"}, "", "配送"),
        ({"topic": "Mail", "category": "Money"}, "topic", "Mail"),
        ({"category": "Money"}, "topic", ""),
        ({"title": "Handbook > Returns > Bikes", "file_path": "a/handbook.pdf"}, "", "Handbook"),
        ({"file_path": "handbook.pdf"}, "", "handbook.pdf"),
        ({"category": ["a"]}, "", ""),
        ({}, "", ""),
    ],
)
def test_categories(meta: dict[str, Any], column: str, expected: str) -> None:
    assert category_of(Document(content="b", meta=meta), column) == expected
