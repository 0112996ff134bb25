"""The twins that judge the rule for near copies."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT, imported

from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import split_file
from ap_ranker.ranking.checkpoint import (
    TRAINED_FORMS,
    TRAINED_QUESTIONS,
    read_trained_forms,
    trained_forms,
    trained_lines,
)
from ap_ranker.text.near_copies import near_any


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


def found(twins: ModuleType, half: str) -> int:
    made = twins.make_twins(twins.questions_of(twins.FAQ / "train.csv"), getattr(twins, half))
    return sum(bool(near_any([twin.text], [twin.original])) for twin in made)


def test_the_rule_finds_most_twins(twins: ModuleType) -> None:
    assert found(twins, "BUILT_ON") >= 290
    assert found(twins, "JUDGED_BY") >= 270


def test_the_rule_takes_no_real_test_question_for_a_copy(twins: ModuleType) -> None:
    test, training = (twins.questions_of(twins.FAQ / f"{name}.csv") for name in ("test", "train"))
    assert len(test) == 565
    assert len(near_any(test, training)) <= 5


def test_split_separates_no_twin_from_its_question(twins: ModuleType, tmp_path: Path) -> None:
    rows = list(csv.DictReader((twins.FAQ / "train.csv").open(encoding="utf-8")))
    answer_of = {row["question"]: row["answer_ids"] for row in rows}
    made = twins.make_twins(list(answer_of), twins.BUILT_ON, total=330)
    copies = [twin for twin in made if near_any([twin.text], [twin.original])]
    assert len(copies) >= 320
    with (tmp_path / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("question", "answer"))
        writer.writerows((text, f"Answer {name}.") for text, name in answer_of.items())
        writer.writerows((twin.text, f"Answer {answer_of[twin.original]}.") for twin in copies)
    parts = split_file(tmp_path / "pairs.csv", tmp_path / "parts")
    part_of = {question.text: name for name, part in parts.items() for question in part.questions}
    separated = [twin for twin in copies if part_of[twin.original] != part_of[twin.text]]
    assert not separated
    assert len(set(part_of.values())) == 3


def test_copies_as_a_test_set_are_in_the_row_of_near_copies(twins: ModuleType, tmp_path: Path) -> None:
    """A checkpoint knows the copies of what it has learnt from, also where it is given nothing but the answers."""
    training = read_dataset(twins.FAQ, "train")
    asked = [question.text for question in training.questions if not question.stored]
    made = [twin for twin in twins.make_twins(asked, twins.BUILT_ON) if near_any([twin.text], [twin.original])]
    (tmp_path / TRAINED_QUESTIONS).write_text(trained_lines(asked))
    (tmp_path / TRAINED_FORMS).write_bytes(trained_forms(asked))
    forms = read_trained_forms(tmp_path)
    assert forms is not None
    assert all(forms.has(twin.text) for twin in made)
    test = twins.questions_of(twins.FAQ / "test.csv")
    assert sum(forms.has(text) for text in test) <= 5
