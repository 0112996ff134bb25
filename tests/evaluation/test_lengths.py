from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.evaluation_report import LENGTH_GROUPS, EvaluationReport


def measured(lengths: list[list[int]], model: list[float], bm25: list[float]) -> EvaluationReport:
    """One question for each list of the lengths of its right answers, and one without any answer first of all."""
    answers, questions = [], [Question("none", "?", ())]
    for question, own in enumerate(lengths):
        rows = tuple(range(len(answers), len(answers) + len(own)))
        answers += [Answer(f"{question}-{row}", " ".join(["word"] * n)) for row, n in enumerate(own)]
        questions.append(Question(str(question), "?", rows))
    each = {"P@1": np.array(model)}, {"P@1": np.array(bm25)}
    dataset = Dataset("d", answers, questions)
    return EvaluationReport(dataset, 1, "", *each)


def test_groups_hold_each_question_once_and_their_means() -> None:
    rng = random.Random(0)
    lengths = [[rng.randint(1, 40) for _ in range(rng.randint(1, 3))] for _ in range(100)]
    model, bm25 = ([float(rng.random() < 0.5) for _ in lengths] for _ in range(2))
    groups = measured(lengths, model, bm25).by_length()
    assert len(groups) == LENGTH_GROUPS
    assert sum(group["n_questions"] for group in groups) == 100
    assert all(10 <= group["n_questions"] <= 24 for group in groups)
    assert all(one["longest"] < other["shortest"] for one, other in pairwise(groups))
    for group in groups:
        rows = [i for i, own in enumerate(lengths) if group["shortest"] <= sum(own) / len(own) <= group["longest"]]
        assert group["n_questions"] == len(rows)
        assert group["model"] == pytest.approx(sum(model[i] for i in rows) / len(rows))
        assert group["bm25"] == pytest.approx(sum(bm25[i] for i in rows) / len(rows))


def test_equally_long_answers_are_one_group() -> None:
    [group] = measured([[3]] * 7, [1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]).by_length()
    assert (group["shortest"], group["longest"], group["n_questions"]) == (3, 3, 7)
    assert (group["model"], group["bm25"]) == (pytest.approx(1 / 7), 1)
