"""The join against all pairs, one by one."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.text import nearly_equal
from ap_ranker.text.nearly_equal import nearly_equal_groups, nearly_equal_pairs
from ap_ranker.text.reading import NEAR, bare


def grams(text: str) -> set[str]:
    text = bare(text)
    return {text[place : place + 5] for place in range(len(text) - 4)}


def naive(texts: list[str], threshold: float) -> list[tuple[int, int]]:
    found = []
    for one, other in combinations(range(len(texts)), 2):
        a, b = grams(texts[one]), grams(texts[other])
        if a and b and len(a & b) >= threshold * len(a | b):
            found.append((one, other))
    return found


@pytest.mark.parametrize("threshold", [0.5, NEAR, 1.0])
def test_against_all_pairs(threshold: float) -> None:
    """Random sentences and copies of them with words exchanged, so that pairs lie on both sides of the threshold."""
    draw = random.Random(3)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(1, 7))) for _ in range(60)]
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 40))) for _ in range(120)]
    for text in texts[:80]:
        changed = text.split()
        for _ in range(draw.randint(0, 4)):
            changed[draw.randrange(len(changed))] = draw.choice(words)
        texts.append(" ".join(changed))
    expected = naive(texts, threshold)
    assert len(expected) > 10
    assert [tuple(pair) for pair in nearly_equal_pairs(texts, threshold).tolist()] == expected


@given(st.lists(st.text(alphabet="ab é中.", max_size=14), max_size=12))
def test_any_texts(texts: list[str]) -> None:
    assert [tuple(pair) for pair in nearly_equal_pairs(texts, 0.5).tolist()] == naive(texts, 0.5)


def groups_of(texts: list[str]) -> list[int]:
    """The number of each text's group, by first occurrence, from all pairs one by one."""
    numbers = list(range(len(texts)))
    equal = [pair for pair in combinations(range(len(texts)), 2) if key(texts, pair[0]) == key(texts, pair[1])]
    pairs = [*naive(texts, NEAR), *equal]
    for one, other in pairs:
        old, new = sorted([numbers[one], numbers[other]])[::-1]
        numbers = [new if number == old else number for number in numbers]
    return [list(dict.fromkeys(numbers)).index(number) for number in numbers]


def key(texts: list[str], place: int) -> str:
    return bare(texts[place]) or texts[place].casefold()


def some_texts(seed: int) -> list[str]:
    """Templates filled in, chains of small changes, equal texts, and texts without 5-grams."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(1, 9))) for _ in range(30)]
    texts = ["", "ab", "AB", "!", "?"]
    for _ in range(4):
        template = draw.choices(words, k=draw.randint(3, 20))
        texts += [" ".join([*template, str(draw.randint(0, 30))]) for _ in range(draw.randint(1, 15))]
        for _ in range(draw.randint(1, 15)):
            template[draw.randrange(len(template))] = draw.choice(words)
            texts.append(" ".join(template))
    draw.shuffle(texts)
    return texts


@pytest.mark.parametrize("seed", range(20))
def test_groups_against_all_pairs(seed: int) -> None:
    texts = some_texts(seed)
    assert nearly_equal_groups(texts).tolist() == groups_of(texts)


def test_thousands_of_texts_from_one_template_are_not_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    plainly = nearly_equal._Sets.are_near

    def counted(sets: nearly_equal._Sets, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        nonlocal compared
        compared += len(some)
        return plainly(sets, some, others)

    monkeypatch.setattr(nearly_equal._Sets, "are_near", counted)
    texts = [f"Order {number} is delivered to you by our carrier within three working days." for number in range(3000)]
    assert set(nearly_equal_groups(texts).tolist()) == {0}
    assert compared < 5 * len(texts)


def test_case_and_punctuation_do_not_count() -> None:
    assert nearly_equal_pairs(["Where is my parcel?", "other words", "where is, my PARCEL"]).tolist() == [[0, 2]]


def test_more_texts_than_one_batch() -> None:
    texts = [f"{number * 7919:09d} {number * 104729:09d}" for number in range(1500)]
    assert nearly_equal_pairs([*texts, texts[3] + "!"]).tolist() == [[3, 1500]]
