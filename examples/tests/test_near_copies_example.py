"""The twins that judge the rule for near copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import ModuleType

import pytest
from conftest import ROOT, imported


@pytest.fixture(scope="module")
def twins() -> Iterator[ModuleType]:
    with imported(ROOT / "examples" / "near_copies" / "twins.py") as module:
        yield module


@pytest.mark.parametrize("half", ["BUILT_ON", "JUDGED_BY"])
def test_each_half_has_300_twins_always_the_same(twins: ModuleType, half: str) -> None:
    kinds = getattr(twins, half)
    questions = twins.questions_of(twins.FAQ / "train.csv")
    made = twins.make_twins(questions, kinds)
    assert len(made) == 300
    assert made == twins.make_twins(questions, kinds)
    counts = Counter(twin.kind for twin in made)
    assert counts.keys() == kinds.keys()
    assert min(counts.values()) >= 33
    assert all(twin.text != twin.original for twin in made)


def test_a_dropped_word_never_turns_a_question_into_its_opposite(twins: ModuleType) -> None:
    draw = twins.random.Random(1)
    for _ in range(50):
        assert "not" in twins.dropped_word("Why does the battery not charge over night", draw).split()
        assert "can't" in twins.dropped_word("I can't open the lock of my bike", draw).split()


def test_the_halves_have_no_kind_in_common(twins: ModuleType) -> None:
    assert not twins.BUILT_ON.keys() & twins.JUDGED_BY.keys()
