"""A sign at a short word: a part of C++ and C#, also where no spaces are written; ID# and TV+ are also ID and TV."""

from __future__ import annotations

import pytest

from ap_ranker.ranking.bm25 import BM25


@pytest.mark.parametrize(
    ("text", "query", "twin"),
    [
        ("C++课程", "C++", "C课程"),
        ("学习C++课程", "c++", "学习C课程"),
        ("使用C#开发", "C#", "使用C开发"),
        ("私はC#が好き", "C#", "私はCが好き"),
        ("C#을 배우다", "C#", "C를 배우다"),
        ("A+등급", "A+", "A등급"),
        ("学习C课程", "C", "学习C++课程"),
        ("C++17 guide", "C++", "C17 guide"),
        ("C course", "C", "C++ course"),
        ("TV+ plan", "TV+", "TV plan"),
        ("TV plan", "TV", "TV+ plan"),
    ],
)
def test_the_word_as_it_is_written_comes_first(text: str, query: str, twin: str) -> None:
    twin_score, score = BM25([twin, text, "cushions"]).scores(query)[:2]
    assert score > twin_score


@pytest.mark.parametrize(
    ("text", "query"),
    [
        *(
            ("Your ID# is on the card", "id"),
            ("Your ID is on the card", "ID#"),
            ("Your PO# is on the invoice", "po number"),
        ),
        *(("Watch TV+ at home", "tv"), ("Watch TV at home", "TV+"), ("ID#5", "id"), ("ID#5", "5")),
        *(("私はC#が好き", "好き"), ("A+B", "a"), ("A+B", "b"), ("C++Builder", "builder"), ("C++Builder", "c")),
    ],
)
def test_no_word_is_lost_beside_a_sign(text: str, query: str) -> None:
    assert BM25([text, "cushions"]).scores(query)[0] > 0


@pytest.mark.parametrize(("text", "query"), [("C++ course", "C"), ("C# course", "C"), ("Grade A+", "A"), ("C", "C#")])
def test_one_letter_with_a_sign_is_a_word_of_its_own(text: str, query: str) -> None:
    assert BM25([text, "cushions"]).scores(query)[0] == 0
