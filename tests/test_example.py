"""The example FAQ keeps its promises: sizes, splits, lengths."""

from __future__ import annotations

from collections import Counter

import pytest
from conftest import ROOT

from ap_ranker.data.faq import read_faq
from ap_ranker.data.reader import read_dataset

FAQ = ROOT / "examples" / "faq"


@pytest.fixture(scope="module")
def wordings() -> dict[str, list[str]]:
    return {split: [q.text for q in read_dataset(FAQ, split).questions] for split in ("train", "dev", "test")}


def test_entries() -> None:
    entries = read_faq(FAQ / "answers.csv")
    topics = Counter(entry.other["topic"] for entry in entries)
    assert len(entries) >= 150
    assert len(topics) >= 10
    assert all(30 <= len(entry.answer.split()) <= 120 for entry in entries)
    assert len({entry.question for entry in entries}) == len({entry.answer for entry in entries}) == len(entries)


def test_user_questions_are_many_and_all_different(wordings: dict[str, list[str]]) -> None:
    texts = ["".join(filter(str.isalnum, text.lower())) for split in wordings.values() for text in split]
    assert len(texts) >= 900 + 150
    assert len(set(texts)) == len(texts)


def test_every_answer_is_asked_for_in_every_split() -> None:
    for split in ("train", "dev", "test"):
        data = read_dataset(FAQ, split)
        assert {row for q in data.questions for row in q.positives} == set(range(len(data.answers)))


def test_a_marked_share_of_the_test_questions_has_no_answer() -> None:
    data = read_dataset(FAQ, "test")
    share = 1 - len(data.answerable) / len(data.questions)
    assert 0.05 < share < 0.2
