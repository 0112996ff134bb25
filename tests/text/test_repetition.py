"""A text that repeats itself says no more than one of its repetitions."""

from __future__ import annotations

import time

import pytest
from conftest import TEXTS
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.text.reading import without_repetition

WORDS = st.lists(st.sampled_from(["a", "b", "refund"]), min_size=1, max_size=6)


def naive_unit(words: list[str]) -> list[str]:
    """The shortest beginning that gives all words if repeated, twice at least."""
    for size in range(1, len(words) // 2 + 1):
        if all(word == words[i % size] for i, word in enumerate(words)):
            return words[:size]
    return words


@given(WORDS, st.integers(1, 5), st.integers(0, 5))
def test_as_a_loop(unit: list[str], times: int, more: int) -> None:
    words = unit * times + unit[:more]
    assert without_repetition(" ".join(words)).split() == naive_unit(words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where is my parcel? WHERE IS MY PARCEL where is my parcel", "Where is my parcel?"),
        ("refund, refund; refund/refund", "refund"),
        (("refund " * 200)[:1000], "refund"),
        (("where is my parcel " * 60)[:1000], "where is my parcel"),
        ("退款退款退款", "退款"),
        ("my bike and my lock", "my bike and my lock"),
        ("is it very very heavy?", "is it very very heavy?"),
        *((whole, whole) for whole in ("8.8.8.8", "1.1", "11.11.", "50/50", "1:1?", "10-10", "1.1.1.1")),
        *((whole, whole) for whole in ("Baden-Baden", "yo-yo", "BADEN-baden?", "C/C++", "C# c++")),
        ("8.8.8.8 8.8.8.8", "8.8.8.8"),
        ("Baden-Baden, Baden-Baden", "Baden-Baden"),
        ("C++ c++ C++", "C++"),
        ("refund-" * 40 + "refund", "refund"),
        ("5/" * 40 + "5", "5/5/5/5"),
        ("?!", "?!"),
        ("", ""),
    ],
)
def test_examples(text: str, expected: str) -> None:
    assert without_repetition(text) == expected


def test_ordinary_texts_stay_as_they_are() -> None:
    assert [without_repetition(text) for text in TEXTS] == TEXTS


def test_a_long_text_takes_no_time() -> None:
    started = time.process_time()
    without_repetition("a b " * 100_000 + "c")
    assert time.process_time() - started < 5
