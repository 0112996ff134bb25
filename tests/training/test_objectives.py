from __future__ import annotations

from math import exp, log

import pytest
import torch

from ap_ranker.training.objectives import IGNORE, NEGATIVE, POSITIVE, hinge, in_batch_softmax, listwise, pointwise

SCORES = torch.tensor([[0.9, 0.2, 0.5, 0.8], [0.1, 0.3, -0.2, 0.7]], dtype=torch.double, requires_grad=True)
RELEVANCE = torch.tensor([[POSITIVE, NEGATIVE, NEGATIVE, IGNORE], [NEGATIVE, POSITIVE, NEGATIVE, POSITIVE]])
TARGET = torch.tensor([0, 1])


def test_hinge_takes_the_hardest_negative() -> None:
    # question 0: a+ .9, hardest negative .5 (.8 is ignored); question 1: a+ .3, hardest .1 (.7 is right, too)
    expected = (max(0, 0.5 - 0.9 + 0.5) + max(0, 0.5 - 0.3 + 0.1)) / 2
    assert hinge(SCORES, RELEVANCE, TARGET, margin=0.5).item() == pytest.approx(expected)
    assert hinge(SCORES, RELEVANCE, TARGET, margin=0.01).item() == 0


def test_softmax_is_over_the_target_and_the_negatives() -> None:
    t = 0.1
    first = -log(exp(0.9 / t) / sum(exp(s / t) for s in (0.9, 0.2, 0.5)))
    second = -log(exp(0.3 / t) / sum(exp(s / t) for s in (0.1, 0.3, -0.2)))
    assert in_batch_softmax(SCORES, RELEVANCE, TARGET, t).item() == pytest.approx((first + second) / 2)


@pytest.mark.parametrize("objective", [hinge, in_batch_softmax])
def test_a_question_without_negatives_teaches_nothing(objective: object) -> None:
    scores = torch.tensor([[0.4, 0.6]], requires_grad=True)
    loss = objective(scores, torch.tensor([[POSITIVE, IGNORE]]), torch.tensor([0]), 0.5)  # type: ignore[operator]
    loss.backward()
    assert loss.item() == 0
    assert scores.grad is not None
    assert scores.grad.tolist() == [[0, 0]]


@pytest.mark.parametrize("objective", [hinge, in_batch_softmax])
def test_ignored_and_other_right_answers_get_no_gradient(objective: object) -> None:
    scores = SCORES.detach().clone().requires_grad_()
    objective(scores, RELEVANCE, TARGET, 0.9).backward()  # type: ignore[operator]
    assert scores.grad is not None
    assert scores.grad[0, 3] == 0
    assert scores.grad[1, 3] == 0
    assert (scores.grad[[0, 1], TARGET] < 0).all()


def test_pointwise_is_the_cross_entropy_of_each_judged_pair() -> None:
    pairs = [(0.9, 1), (0.2, 0), (0.5, 0), (0.1, 0), (0.3, 1), (-0.2, 0), (0.7, 1)]  # all but the ignored one
    losses = [-log(1 / (1 + exp(-s / 0.5))) if label else -log(1 / (1 + exp(s / 0.5))) for s, label in pairs]
    assert pointwise(SCORES, RELEVANCE, 0.5).item() == pytest.approx(sum(losses) / len(losses))


def test_listwise_is_the_mean_over_a_questions_right_answers() -> None:
    t = 0.5
    first = -log(exp(0.9 / t) / sum(exp(s / t) for s in (0.9, 0.2, 0.5)))
    everything = sum(exp(s / t) for s in (0.1, 0.3, -0.2, 0.7))
    second = (-log(exp(0.3 / t) / everything) - log(exp(0.7 / t) / everything)) / 2
    assert listwise(SCORES, RELEVANCE, t).item() == pytest.approx((first + second) / 2)


@pytest.mark.parametrize("objective", [pointwise, listwise])
def test_ignored_pairs_get_no_gradient(objective: object) -> None:
    scores = SCORES.detach().clone().requires_grad_()
    objective(scores, RELEVANCE, 0.5).backward()  # type: ignore[operator]
    assert scores.grad is not None
    assert (scores.grad[RELEVANCE == IGNORE] == 0).all()
    assert (scores.grad[RELEVANCE == NEGATIVE] > 0).all()
