from __future__ import annotations

from math import exp, log
from pathlib import Path

import pytest
import torch
from refusals import refused
from small_runs import of_topics
from torch import Tensor
from torch.nn.functional import softplus

from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.models.registry import MODELS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.config import read_training_config
from ap_ranker.training.objectives import (
    IGNORE,
    NEGATIVE,
    OBJECTIVES,
    POSITIVE,
    ObjectiveSpec,
    ScoredBatch,
    objective_spec,
)
from ap_ranker.training.train import train

SCORES = torch.tensor([[0.9, 0.2, 0.5, 0.8], [0.1, 0.3, -0.2, 0.7]], dtype=torch.double, requires_grad=True)
RELEVANCE = torch.tensor([[POSITIVE, NEGATIVE, NEGATIVE, IGNORE], [NEGATIVE, POSITIVE, NEGATIVE, POSITIVE]])
TARGET = torch.tensor([0, 1])


def loss(
    name: str, at: float, scores: Tensor = SCORES, relevance: Tensor = RELEVANCE, target: Tensor = TARGET
) -> Tensor:
    """An objective's loss at a margin or temperature."""
    objective = OBJECTIVES[name].loss
    assert objective is not None
    return objective(ScoredBatch(scores, relevance, target, margin=at, temperature=at))


def test_hinge_takes_the_hardest_negative() -> None:
    # question 0: a+ .9, hardest negative .5 (.8 is ignored); question 1: a+ .3, hardest .1 (.7 is right, too)
    expected = (max(0, 0.5 - 0.9 + 0.5) + max(0, 0.5 - 0.3 + 0.1)) / 2
    assert loss("hinge", 0.5).item() == pytest.approx(expected)
    assert loss("hinge", 0.01).item() == 0


def test_softmax_is_over_the_target_and_the_negatives() -> None:
    t = 0.1
    first = -log(exp(0.9 / t) / sum(exp(s / t) for s in (0.9, 0.2, 0.5)))
    second = -log(exp(0.3 / t) / sum(exp(s / t) for s in (0.1, 0.3, -0.2)))
    assert loss("softmax", t).item() == pytest.approx((first + second) / 2)


@pytest.mark.parametrize("objective", ["hinge", "softmax"])
def test_a_question_without_negatives_teaches_nothing(objective: str) -> None:
    scores = torch.tensor([[0.4, 0.6]], requires_grad=True)
    value = loss(objective, 0.5, scores, torch.tensor([[POSITIVE, IGNORE]]), torch.tensor([0]))
    value.backward()
    assert value.item() == 0
    assert scores.grad is not None
    assert scores.grad.tolist() == [[0, 0]]


@pytest.mark.parametrize("objective", ["hinge", "softmax"])
def test_ignored_and_other_right_answers_get_no_gradient(objective: str) -> None:
    scores = SCORES.detach().clone().requires_grad_()
    loss(objective, 0.9, scores).backward()
    assert scores.grad is not None
    assert scores.grad[0, 3] == 0
    assert scores.grad[1, 3] == 0
    assert (scores.grad[[0, 1], TARGET] < 0).all()


def test_pointwise_is_the_cross_entropy_of_each_judged_pair() -> None:
    pairs = [(0.9, 1), (0.2, 0), (0.5, 0), (0.1, 0), (0.3, 1), (-0.2, 0), (0.7, 1)]  # all but the ignored one
    losses = [-log(1 / (1 + exp(-s / 0.5))) if label else -log(1 / (1 + exp(s / 0.5))) for s, label in pairs]
    assert loss("pointwise", 0.5).item() == pytest.approx(sum(losses) / len(losses))


def test_listwise_is_the_mean_over_a_questions_right_answers() -> None:
    t = 0.5
    first = -log(exp(0.9 / t) / sum(exp(s / t) for s in (0.9, 0.2, 0.5)))
    everything = sum(exp(s / t) for s in (0.1, 0.3, -0.2, 0.7))
    second = (-log(exp(0.3 / t) / everything) - log(exp(0.7 / t) / everything)) / 2
    assert loss("listwise", t).item() == pytest.approx((first + second) / 2)


@pytest.mark.parametrize("objective", ["pointwise", "listwise"])
def test_ignored_pairs_get_no_gradient(objective: str) -> None:
    scores = SCORES.detach().clone().requires_grad_()
    loss(objective, 0.5, scores).backward()
    assert scores.grad is not None
    assert (scores.grad[RELEVANCE == IGNORE] == 0).all()
    assert (scores.grad[RELEVANCE == NEGATIVE] > 0).all()


def test_the_best_of_several_classes_is_relevant() -> None:
    labels = torch.tensor([[2, 1, 0, IGNORE]])
    batch = ScoredBatch(torch.zeros(1, 4), labels, torch.tensor([0]), margin=0, temperature=1, n_classes=3)
    assert batch.relevance.tolist() == [[POSITIVE, NEGATIVE, NEGATIVE, IGNORE]]


def test_pointwise_learns_all_classes_from_logits() -> None:
    logits = torch.tensor([[[0.1, 0.2, 0.9], [0.3, 0.5, 0.1], [9.0, 9.0, 9.0]]])
    batch = ScoredBatch(logits, torch.tensor([[2, 1, IGNORE]]), torch.tensor([0]), margin=0, temperature=1, n_classes=3)
    losses = [-log(exp(row[k]) / sum(map(exp, row))) for row, k in zip(logits[0].tolist(), (2, 1), strict=False)]
    assert OBJECTIVES["pointwise"].loss is not None
    assert OBJECTIVES["pointwise"].loss(batch).item() == pytest.approx(sum(losses) / 2)


def test_every_model_names_registered_objectives() -> None:
    assert {name for spec in MODELS.values() for name in (spec.objective, spec.recipe.objective)} <= OBJECTIVES.keys()


def ranknet(batch: ScoredBatch) -> Tensor:
    """-log σ(s(q, a+) - s(q, a-)), the mean over all a- of the batch (Burges et al., ICML 2005)."""
    lead = batch.scores.gather(1, batch.target.unsqueeze(1)) - batch.scores
    return softplus(-lead / batch.temperature)[batch.relevance == NEGATIVE].mean()


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> str:
    """An objective more, which one file adds."""
    monkeypatch.setitem(OBJECTIVES, "ranknet", ObjectiveSpec("ranknet", ranknet, batch_size=4, negatives=2))
    return "ranknet"


DATA = of_topics("where is my {}?")


def test_an_added_objective_trains(added: str, tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text(
        f"model: qa-cnn\noptions: {{filters: 16, dropout: 0.0}}\nobjective: {added}\n"
        "epochs: 30\npatience: 30\nlearning_rate: 0.02\nembedding_size: 16\n"
    )
    config = read_training_config(tmp_path / "settings.yaml", {})
    assert OBJECTIVES[added].negatives == 2
    result = train(DATA, DATA, tmp_path / "c", config, device="cpu")
    assert result.best_epoch > 0
    loaded = Ranker.from_pretrained(tmp_path / "c", "cpu")
    assert evaluate(loaded, DATA).model["P@1"] == 1.0
    assert loaded.config is not None
    assert (loaded.config.training["objective"], loaded.config.training["batch_size"]) == (added, 4)


@pytest.mark.usefixtures("added")
def test_an_added_objective_is_a_choice(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("objective: rankent")
    with refused("softmax, hinge, pointwise, listwise, ranknet … 'rankent'"):
        read_training_config(tmp_path / "settings.yaml", {})


def test_an_unknown_objective() -> None:
    with refused("'ranknet' … softmax, hinge, pointwise"):
        objective_spec("ranknet")
