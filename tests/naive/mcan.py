from __future__ import annotations

from torch import nn

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import (
    Matrix,
    Vector,
    affine,
    dot,
    embed,
    log_odds,
    lstm,
    maxima,
    mean,
    multiply,
    relu,
    sigmoid,
    softmax,
    weighted_sum,
)
from naive.case import Case


def highway(layer: nn.Module, x: Vector) -> Vector:
    H, T = relu(affine(layer.H, x)), [sigmoid(t) for t in affine(layer.T, x)]  # noqa: N806
    return [t * h + (1 - t) * v for t, h, v in zip(T, H, x, strict=True)]


def compress(c: nn.Module, u: Vector) -> float:
    if type(c).__name__ == "Sum":
        return sum(u)
    if type(c).__name__ == "Sequential":
        return relu(affine(c[0], u))[0]
    V = c.V.tolist()  # noqa: N806
    pairs = sum(dot(V[i], V[j]) * u[i] * u[j] for i in range(len(u)) for j in range(i + 1, len(u)))
    return affine(c.linear, u)[0] + pairs


def cast(layer: nn.Module, x: Vector, attended: Vector) -> Vector:
    parts = [attended + x, multiply(attended, x), [a - b for a, b in zip(attended, x, strict=True)]]
    return [compress(c, part) for c, part in zip(layer.compressions, parts, strict=True)]


def similarities(layer: nn.Sequential, first: Matrix, second: Matrix) -> Matrix:
    return [[dot(relu(affine(layer[0], x)), relu(affine(layer[0], y))) for y in second] for x in first]


def poolings(S: Matrix) -> tuple[Vector, Vector]:  # noqa: N803
    """The weights of the max and of the mean attention over the words of S's rows."""
    return softmax([max(row) for row in S]), softmax([sum(row) / len(row) for row in S])


def attention(model: AnswerModel, q: list[int], a: list[int]) -> tuple[Vector, Vector]:
    Q, D = ([highway(model.highway, x) for x in embed(model, ids)] for ids in (q, a))  # noqa: N806
    of_q, of_d = poolings(similarities(model.F, Q, D)), poolings(similarities(model.F, D, Q))
    return mean(list(of_q)), mean(list(of_d))


def read(model: AnswerModel, own: Matrix, other: Matrix) -> Vector:
    S = similarities(model.F, own, other)  # noqa: N806
    by_max, by_mean = (weighted_sum(weights, own) for weights in poolings(S))
    states = []
    for x, row, intra in zip(own, S, similarities(model.F_intra, own, own), strict=True):
        z = cast(model.cast_max, x, by_max) + cast(model.cast_mean, x, by_mean)
        z += cast(model.cast_alignment, x, weighted_sum(softmax(row), other))
        z += cast(model.cast_intra, x, weighted_sum(softmax(intra), own))
        states.append(z + x)
    h = lstm(model.lstm.lstm, states)
    return mean(h) + maxima(h)


def score(model: AnswerModel, q: list[int], a: list[int]) -> float:
    Q, D = ([highway(model.highway, x) for x in embed(model, ids)] for ids in (q, a))  # noqa: N806
    r_q, r_d = read(model, Q, D), read(model, D, Q)
    joined = r_q + r_d + multiply(r_q, r_d) + [x - y for x, y in zip(r_q, r_d, strict=True)]
    return log_odds(affine(model.head[2], highway(model.head[1], highway(model.head[0], joined))))


CASES = [
    Case("mcan", {"hidden": 4, "compression": "fm", "factors": 3}, score, attention),
    Case("mcan", {"hidden": 4, "compression": "nn", "classes": 3}, score, attention),
    Case("mcan", {"hidden": 4, "compression": "sum"}, score, attention),
]
