from __future__ import annotations

from math import tanh

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import Matrix, Vector, bilstm, cosine, embed, matvec, mean, norm, softmax, weighted_sum
from naive.case import Case

FIRST_WORD = 2  # after padding and the unknown word


def read(model: AnswerModel, ids: list[int]) -> Matrix:
    return bilstm(model.lstm, embed(model, ids))


def bag(model: AnswerModel, ids: list[int]) -> Vector:
    """The vocabulary-sized vector that the model never makes."""
    size = model.embedding.vectors.weight.shape[0]
    return [1.0 if word in ids and word >= FIRST_WORD else 0.0 for word in range(size)]


def joint(t: Vector, r: Vector) -> Vector:
    """A half without a direction is zero: a text of unknown words has no frequent ones."""
    return [0.5 * x / (norm(t) or 1.0) for x in t] + [1.0 * x / (norm(r) or 1.0) for x in r]


def global_view(model: AnswerModel, ids: list[int]) -> Vector:
    return [tanh(x) for x in matvec(model.global_view.W1.weight.T, bag(model, ids))]


def tf_lstm(model: AnswerModel, q: list[int], a: list[int]) -> float:
    return cosine(*(joint(global_view(model, ids), mean(read(model, ids))) for ids in (q, a)))


def attention(model: AnswerModel, q: list[int], a: list[int]) -> tuple[None, Vector]:
    f_q, states = mean(read(model, q)), read(model, a)
    b_tf = global_view(model, a)
    h = [joint(b_tf, matvec(model.W2.weight, a_i)) for a_i in states]
    from_question = matvec(model.W4.weight, f_q)
    return None, softmax([cosine(matvec(model.W3.weight, h_i), from_question) for h_i in h])


def global_local(model: AnswerModel, q: list[int], a: list[int]) -> float:
    _, alpha = attention(model, q, a)
    a_hat = weighted_sum(alpha, read(model, a))
    return cosine(joint(bag(model, q), mean(read(model, q))), joint(bag(model, a), a_hat))


CASES = [
    Case("tf-lstm", {"hidden": 6, "tf_size": 5}, tf_lstm),
    Case("global-local", {"hidden": 6, "tf_size": 5, "attention": 7}, global_local, attention),
]
