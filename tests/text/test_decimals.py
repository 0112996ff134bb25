"""A number with a unit or a prefix directly beside it is that number: 1.5kg is 1.5 kg, not 15 kg; v2.0 is not v20."""

from __future__ import annotations

import pytest

from ap_ranker.ranking.bm25 import BM25


@pytest.mark.parametrize(
    ("text", "query", "twin"),
    [
        ("1.5kg bag", "1.5 kg", "5.1kg bag"),
        ("1.5 kg bag", "1.5kg", "5.1 kg bag"),
        ("1,5kg Sack", "1.5 kg", "5,1kg Sack"),
        ("3.5mm jack", "3.5 mm", "5mm and 3mm drills"),
        ("Version 2.0 notes", "v2.0", "Version 0.2 notes"),
        ("v2.0 notes", "2.0", "v0.2 notes"),
        ("1,000km range", "1000 km", "10 km range"),
        ("1000 km range", "1.000km", "10 km range"),
        ("Plafond de 1 000 €", "1000€", "Plafond de 10 € ou 100"),
        ("Limite 1000 €", "1\u202f000 €", "Limite 10 €, puis 100 €"),
        ("12 500 kr", "12500kr", "kr 500, kr 12"),
        ("1 000,50 zł", "1000.50", "50 zł, 1 zł"),
        ("From 1,000-2,000 miles", "2000 miles", "From 1 mile, 2 miles"),
        ("From 1 000-2 000 miles", "1000 miles", "From 1 mile, 2 miles"),
        ("2 100mg tablets", "100mg", "2 mg, 10 mg tablets"),
        ("Call 555 123 456", "555123456", "Call 555, press 123"),
        ("In 2020 100 people", "2020", "In 20 or 100"),
    ],
)
def test_the_number_itself_comes_first(text: str, query: str, twin: str) -> None:
    twin_score, score = BM25([twin, text, "cushions"]).scores(query)[:2]
    assert score > twin_score


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("15", "1.5kg"),
        ("15kg", "1.5l"),
        ("v20", "2.0"),
        ("v2.0", "20"),
        ("35mm", "3.5cm"),
        ("1.5l", "15"),
        ("A45", "4.5"),
    ],
)
def test_without_its_point_it_is_another(text: str, query: str) -> None:
    assert BM25([text, "cushions"]).scores(query)[0] == 0


@pytest.mark.parametrize(
    ("one", "other", "third"), [("1.5kg", "15kg", "26kg"), ("v2.0", "v20", "v31"), ("B2.1", "B21", "B34")]
)
def test_it_is_as_far_as_any_other(one: str, other: str, third: str) -> None:
    index = BM25([one, other, third, "cushions"])
    scores = index.scores(one)
    assert scores[0] > scores[1] == scores[2]
    assert index.scores(other)[0] == pytest.approx(index.scores(third)[0])
