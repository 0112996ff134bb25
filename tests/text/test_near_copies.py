"""Near copies: a table written before the rule, and the rule among many questions against all pairs one by one."""

from __future__ import annotations

import csv
import random
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.text.near_copies import KnownForms, near_any, near_earlier, near_groups

with Path(__file__).with_name("near_questions.csv").open(encoding="utf-8", newline="") as file:
    TABLE = list(csv.DictReader(file))

MIXED = [text for row in TABLE for text in (row["one"], row["other"])]


def is_near(one: str, other: str) -> bool:
    return bool(near_any([one], [other]))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row['one']} / {row['other']}")
def test_as_a_careful_reader_says(row: dict[str, str]) -> None:
    expected = row["near"] == "yes"
    assert is_near(row["one"], row["other"]) == expected
    assert is_near(row["other"], row["one"]) == expected, "whichever comes first"


def test_the_table_is_large() -> None:
    assert len(TABLE) >= 80
    assert min(sum(row["near"] == name for row in TABLE) for name in ("yes", "no")) >= 35


def test_groups_are_what_pairs_connect() -> None:
    expected = list(range(len(MIXED)))
    for one, other in combinations(range(len(MIXED)), 2):
        if is_near(MIXED[one], MIXED[other]):
            first, second = sorted((expected[one], expected[other]))
            expected = [first if group == second else group for group in expected]
    assert near_groups(MIXED).tolist() == expected


def test_the_first_earlier_one() -> None:
    texts = random.Random(2).sample(MIXED, 120)
    expected = {}
    for place, text in enumerate(texts):
        earlier = [one for one in range(place) if is_near(texts[one], text)]
        if earlier:
            expected[place] = earlier[0]
    assert len(expected) > 10
    assert near_earlier(texts) == expected


def test_order_does_not_matter_to_groups() -> None:
    texts = list(dict.fromkeys(MIXED))
    shuffled = random.Random(3).sample(texts, len(texts))

    def groups(texts: list[str]) -> set[frozenset[str]]:
        numbers = near_groups(texts)
        return {frozenset(np.array(texts)[numbers == number]) for number in numbers}

    assert groups(texts) == groups(shuffled)


@given(st.lists(st.text(max_size=40), max_size=8))
def test_any_texts(texts: list[str]) -> None:
    numbers = near_groups(texts)
    assert len(numbers) == len(texts)
    assert all(is_near(text, text) for text in texts)
    assert near_any(texts, texts) == set(texts)


@pytest.mark.parametrize("text", ["", "?", "😀", "Hello!", "Thanks a lot!", "\n\n", "the of my"])
def test_a_text_that_asks_nothing_is_near_itself_only(text: str) -> None:
    assert is_near(text, text)
    assert not near_any([text], ["How do I cancel my order?", "Good night"])


@pytest.mark.parametrize("part", ["best. ", "word ", "?\n", "Re: ", "hello ", "Kind regards, ", "的", "x'", "1.", "("])
def test_long_texts_take_no_long(part: str) -> None:
    start = time.perf_counter()
    near_groups([part * 5000, part * 5000 + "a"])
    assert time.perf_counter() - start < 5


def test_short_hashes_recognize_the_same_copies() -> None:
    known = KnownForms.of([row["one"] for row in TABLE])
    short = known.short()
    asked = [row["other"] for row in TABLE]
    assert [short.has(text) for text in asked] == [known.has(text) for text in asked]
    assert short.variants.dtype == np.uint32
