"""The soft maximum over an entry's texts, with any softness, beside a loop over its definition."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from conftest import ROOT, imported

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.evaluation_set import EvaluationSet

VECTORS = {"a": (1.0, 0.0), "b": (0.0, 1.0), "like a": (0.8, 0.6), "like b": (0.0, 1.0), "asked": (0.6, 0.8)}


class Encoder:
    """Gives known vectors."""

    def answers(self, texts: list[str]) -> np.ndarray:
        return np.array([VECTORS[text] for text in texts])

    questions = answers


@pytest.fixture(scope="module")
def softness() -> Iterator[ModuleType]:
    with imported(ROOT / "examples" / "known_wordings" / "softness.py") as module:
        yield module


@pytest.mark.parametrize("t", [0.5, 0.02, 1e-4])
def test_the_soft_maximum_is_that_of_its_definition(softness: ModuleType, t: float) -> None:
    rng = np.random.default_rng(0)
    answers = rng.uniform(-1, 1, 4)
    wordings = rng.uniform(-1, 1, 7)
    entries = np.array([0, 0, 0, 2, 2, 3, 3])
    for row, found in enumerate(softness.soft_maxima(answers, wordings, entries, t)):
        texts = [answers[row], *wordings[entries == row]]
        largest = max(texts)
        expected = largest + t * math.log(sum(math.exp((text - largest) / t) for text in texts))
        assert found == pytest.approx(expected, abs=1e-12)


def test_a_question_does_not_meet_itself(softness: ModuleType) -> None:
    """'asked' is a wording of the first entry, where another one makes it right."""
    entries = [Answer("1", "a", ("asked", "like a")), Answer("2", "b", ("like b",))]
    dev = EvaluationSet(Dataset("toy", entries, [Question("1", "asked", (0,))]))
    cosines = softness.Cosines.of(dev, Encoder())
    assert cosines.wordings.tolist() == [[-1.0, pytest.approx(0.96), pytest.approx(0.8)]]
    assert cosines.spread == pytest.approx(0.1)
    assert cosines.mrr(dev, 0.0, 1e-4) == 0.5
    assert cosines.mrr(dev, 2.0, 1e-4) == 1.0
