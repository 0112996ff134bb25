"""What holds for every registered model; a new model is tested here without a new test."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, sqrt, tanh

import pytest
import torch
from conftest import make_model
from torch import Tensor

from ap_ranker.models.base import AnswerModel, States
from ap_ranker.text.batch import TokenBatch
from ap_ranker.training.objectives import NEGATIVE, POSITIVE, hinge, in_batch_softmax

QUESTIONS = [[3, 5, 2, 9], [7], [4, 4, 8, 1, 6, 2]]
ANSWERS = [[2, 3, 11, 5, 9, 12, 4], [6, 1], [10], [5, 2, 3, 9, 9], [8, 7, 6, 5, 4, 3, 2, 1, 11, 12]]
VOCABULARY = 13

Vector = list[float]
Matrix = list[Vector]


# --- the papers' equations, one number at a time, in Python floats (float64) ---


def embed(model: AnswerModel, ids: list[int]) -> Matrix:
    return [model.embedding.vectors.weight[i].tolist() for i in ids]


def affine(weight: Tensor, bias: Tensor, x: Vector) -> Vector:
    return [
        sum(w * v for w, v in zip(row, x, strict=True)) + b
        for row, b in zip(weight.tolist(), bias.tolist(), strict=True)
    ]


def convolve(model: AnswerModel, ids: list[int], window: int) -> Matrix:
    embedded = embed(model, ids)
    zero = [0.0] * len(embedded[0])
    states = []
    for m in range(len(ids)):
        z: Vector = []
        for k in range(m - (window - 1) // 2, m + window // 2 + 1):
            z += embedded[k] if 0 <= k < len(ids) else zero
        states.append(affine(model.encoder.linear.weight, model.encoder.linear.bias, z))
    return states


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def lstm(model: AnswerModel, ids: list[int], suffix: str) -> Matrix:
    cell = model.encoder.lstm
    w_x, w_h = getattr(cell, f"weight_ih_l0{suffix}"), getattr(cell, f"weight_hh_l0{suffix}")
    b_x, b_h = getattr(cell, f"bias_ih_l0{suffix}"), getattr(cell, f"bias_hh_l0{suffix}")
    size = w_h.shape[1]
    h, c, states = [0.0] * size, [0.0] * size, []
    for x in embed(model, ids):
        gates = [a + b for a, b in zip(affine(w_x, b_x, x), affine(w_h, b_h, h), strict=True)]
        i, f, g, o = (gates[k * size : (k + 1) * size] for k in range(4))
        c = [sigmoid(f[j]) * c[j] + sigmoid(i[j]) * tanh(g[j]) for j in range(size)]
        h = [sigmoid(o[j]) * tanh(c[j]) for j in range(size)]
        states.append(h)
    return states


def bilstm(model: AnswerModel, ids: list[int]) -> Matrix:
    backward = lstm(model, ids[::-1], "_reverse")[::-1]
    return [f + b for f, b in zip(lstm(model, ids, ""), backward, strict=True)]


def cosine(x: Vector, y: Vector) -> float:
    dot = sum(a * b for a, b in zip(x, y, strict=True))
    return dot / sqrt(sum(a * a for a in x)) / sqrt(sum(b * b for b in y))


def siamese(q_states: Matrix, a_states: Matrix) -> float:
    r_q, r_a = ([tanh(max(column)) for column in zip(*states, strict=True)] for states in (q_states, a_states))
    return cosine(r_q, r_a)


def softmax(x: Vector) -> Vector:
    total = sum(map(exp, x))
    return [exp(v) / total for v in x]


def attentive(model: AnswerModel, Q: Matrix, A: Matrix) -> float:  # noqa: N803
    U = model.U.tolist()  # noqa: N806
    G = [  # noqa: N806
        [tanh(sum(q[i] * U[i][j] * a[j] for i in range(len(q)) for j in range(len(a)))) for a in A] for q in Q
    ]
    sigma_q = softmax([max(row) for row in G])
    sigma_a = softmax([max(column) for column in zip(*G, strict=True)])
    r_q = [sum(w * q[c] for w, q in zip(sigma_q, Q, strict=True)) for c in range(len(Q[0]))]
    r_a = [sum(w * a[c] for w, a in zip(sigma_a, A, strict=True)) for c in range(len(A[0]))]
    return cosine(r_q, r_a)


NAIVE: dict[str, Callable[[AnswerModel, list[int], list[int]], float]] = {
    "qa-cnn": lambda model, q, a: siamese(convolve(model, q, 2), convolve(model, a, 2)),
    "qa-bilstm": lambda model, q, a: siamese(bilstm(model, q), bilstm(model, a)),
    "ap-cnn": lambda model, q, a: attentive(model, convolve(model, q, 3), convolve(model, a, 3)),
    "ap-bilstm": lambda model, q, a: attentive(model, bilstm(model, q), bilstm(model, a)),
}


@pytest.fixture
def model(name: str) -> AnswerModel:
    return make_model(name, VOCABULARY).double()


def scores(model: AnswerModel, questions: list[list[int]], answers: list[list[int]]) -> Tensor:
    with torch.no_grad():
        return model(TokenBatch.from_lists(questions), TokenBatch.from_lists(answers))


def test_score_is_the_papers(name: str, model: AnswerModel) -> None:
    naive = [[NAIVE[name](model, q, a) for a in ANSWERS] for q in QUESTIONS]
    assert torch.allclose(scores(model, QUESTIONS, ANSWERS), torch.tensor(naive, dtype=torch.double), rtol=0, atol=1e-9)


def test_padding_changes_nothing(model: AnswerModel) -> None:
    together = scores(model, QUESTIONS, ANSWERS)
    alone = torch.tensor([[scores(model, [q], [a]).item() for a in ANSWERS] for q in QUESTIONS], dtype=torch.double)
    assert torch.allclose(together, alone, rtol=0, atol=1e-12)


def test_order_of_candidates_changes_nothing(model: AnswerModel) -> None:
    order = [3, 0, 4, 2, 1]
    shuffled = scores(model, QUESTIONS, [ANSWERS[i] for i in order])
    assert torch.allclose(shuffled, scores(model, QUESTIONS, ANSWERS)[:, order], rtol=0, atol=1e-12)


def test_encoded_once_matched_later(model: AnswerModel) -> None:
    """Answers encoded in other company, split, stored and joined again score as in one shot."""
    with torch.no_grad():
        parts = [
            part
            for start in (0, 2, 4)
            for part in model.encode_answers(TokenBatch.from_lists(ANSWERS[start : start + 2])).split()
        ]
        questions = model.encode_questions(TokenBatch.from_lists(QUESTIONS))
        later = model.match(questions, States.stack(parts))
    assert torch.allclose(later, scores(model, QUESTIONS, ANSWERS), rtol=0, atol=1e-12)


def test_every_parameter_learns(model: AnswerModel) -> None:
    loss = model(TokenBatch.from_lists(QUESTIONS), TokenBatch.from_lists(ANSWERS)).square().sum()
    loss.backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@pytest.mark.parametrize("objective", [hinge, in_batch_softmax])
def test_learns_a_tiny_set_by_heart(model: AnswerModel, objective: Callable[..., Tensor]) -> None:
    """Three questions with five answers: every question's own answer comes first in the end."""
    target = torch.tensor([4, 0, 2])
    relevance = torch.full((3, 5), NEGATIVE).scatter(1, target.unsqueeze(1), POSITIVE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(100):
        optimizer.zero_grad()
        found = model(TokenBatch.from_lists(QUESTIONS), TokenBatch.from_lists(ANSWERS))
        objective(found, relevance, target, 0.3).backward()
        optimizer.step()
    assert torch.equal(scores(model, QUESTIONS, ANSWERS).argmax(dim=1), target)


def test_scaled_scores_lie_between_0_and_1_in_the_same_order(model: AnswerModel) -> None:
    raw = scores(model, QUESTIONS, ANSWERS).flatten()
    scaled = model.scale(raw)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    assert torch.equal(raw.argsort(), scaled.argsort())


def test_dropout_acts_in_training_only(name: str) -> None:
    model = make_model(name, VOCABULARY, dropout=0.5)
    assert torch.equal(scores(model, QUESTIONS, ANSWERS), scores(model, QUESTIONS, ANSWERS))
    model.train()
    assert not torch.equal(scores(model, QUESTIONS, ANSWERS), scores(model, QUESTIONS, ANSWERS))
