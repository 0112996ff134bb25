from __future__ import annotations

from collections.abc import Callable
from math import tanh
from typing import Any

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import (
    Matrix,
    Vector,
    add,
    bilstm,
    convolve,
    cosine,
    dot,
    embed,
    gesd,
    matvec,
    maxima,
    mean,
    softmax,
)
from naive.case import Case

HIDDEN, WINDOW = 6, 2

Pool = Callable[[Matrix], Vector]


def last(states: Matrix) -> Vector:
    return states[-1][:HIDDEN] + states[0][HIDDEN:]


def convolved(model: AnswerModel, states: Matrix) -> Vector:
    convolved_states = convolve(model.f.convolution.linear, states, WINDOW)
    return maxima([[tanh(x) for x in state] for state in convolved_states])


def read(model: AnswerModel, ids: list[int]) -> Matrix:
    return bilstm(model.lstm, embed(model, ids))


def similarity(model: AnswerModel, x: Vector, y: Vector) -> float:
    return gesd(x, y) if model.options.similarity == "gesd" else cosine(x, y)


def siamese(model: AnswerModel, q: list[int], a: list[int], f: Pool) -> float:
    return similarity(model, f(read(model, q)), f(read(model, a)))


def alpha(model: AnswerModel, q: list[int], a: list[int], f: Pool) -> Vector:
    from_question = matvec(model.W_q.weight, f(read(model, q)))
    raw = []
    for h in read(model, a):
        m = [tanh(x) for x in add(matvec(model.W_a.weight, h), from_question)]
        raw.append(dot(model.w.weight.tolist()[0], m))
    return softmax(raw)


def attentive(model: AnswerModel, q: list[int], a: list[int], f: Pool) -> float:
    weights = alpha(model, q, a, f)
    weighted = [[weights[t] * x for x in h] for t, h in enumerate(read(model, a))]
    return similarity(model, f(read(model, q)), f(weighted))


def case(name: str, score: Callable[..., float], **options: Any) -> Case:
    """A case whose f is its `pooling`, or the convolution where it has one."""

    def pool(model: AnswerModel) -> Pool:
        pools = {"last": last, "mean": mean, "max": maxima, None: lambda states: convolved(model, states)}
        return pools[options.get("pooling")]

    def paper(model: AnswerModel, q: list[int], a: list[int]) -> float:
        return score(model, q, a, pool(model))

    def attention(model: AnswerModel, q: list[int], a: list[int]) -> tuple[None, Vector]:
        return None, alpha(model, q, a, pool(model))

    return Case(name, {"hidden": HIDDEN, **options}, paper, attention if score is attentive else None)


CNN = {"filters": 10, "window": WINDOW}

CASES = [
    case("qa-lstm", siamese, pooling="max"),
    case("qa-lstm", siamese, pooling="mean"),
    case("qa-lstm", siamese, pooling="last"),
    case("qa-lstm", siamese, pooling="max", similarity="gesd"),
    case("qa-lstm-cnn", siamese, **CNN),
    case("qa-lstm-cnn", siamese, **CNN, similarity="gesd"),
    case("attention-lstm", attentive, pooling="max"),
    case("attention-lstm", attentive, pooling="mean"),
    case("attention-lstm", attentive, pooling="mean", similarity="gesd"),
    case("attention-lstm", attentive, cnn=True, **CNN),
    case("attention-lstm", attentive, cnn=True, **CNN, similarity="gesd"),
]
