"""What several papers' equations are made of, one number at a time."""

from __future__ import annotations

from math import exp, sqrt, tanh

from torch import Tensor, nn

from ap_ranker.models.base import AnswerModel
from ap_ranker.models.layers import BiLSTM

Vector = list[float]
Matrix = list[Vector]


def embed(model: AnswerModel, ids: list[int]) -> Matrix:
    assert model.embedding is not None
    return [model.embedding.vectors.weight[i].tolist() for i in ids]


def dot(x: Vector, y: Vector) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def norm(x: Vector) -> float:
    return sqrt(dot(x, x))


def cosine(x: Vector, y: Vector) -> float:
    """0 where one of the two has no direction."""
    lengths = norm(x) * norm(y)
    return dot(x, y) / lengths if lengths else 0.0


def distance(x: Vector, y: Vector) -> float:
    return sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)))


def gesd(x: Vector, y: Vector) -> float:
    return 1 / (1 + distance(x, y)) / (1 + exp(-(dot(x, y) + 1)))


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def relu(x: Vector) -> Vector:
    return [max(v, 0.0) for v in x]


def softmax(x: Vector) -> Vector:
    total = sum(map(exp, x))
    return [exp(v) / total for v in x]


def shares(x: Vector) -> Vector:
    """What part of their sum each is; all 0 where there is nothing to share."""
    total = sum(x)
    return [v / total if total else 0.0 for v in x]


def add(x: Vector, y: Vector) -> Vector:
    return [a + b for a, b in zip(x, y, strict=True)]


def multiply(x: Vector, y: Vector) -> Vector:
    return [a * b for a, b in zip(x, y, strict=True)]


def matvec(weight: Tensor, x: Vector) -> Vector:
    return [dot(row, x) for row in weight.tolist()]


def affine(layer: nn.Linear, x: Vector) -> Vector:
    result = matvec(layer.weight, x)
    return result if layer.bias is None else add(result, layer.bias.tolist())


def weighted_sum(weights: Vector, states: Matrix) -> Vector:
    return [dot(weights, list(column)) for column in zip(*states, strict=True)]


def maxima(states: Matrix) -> Vector:
    return [max(column) for column in zip(*states, strict=True)]


def mean(states: Matrix) -> Vector:
    return [sum(column) / len(states) for column in zip(*states, strict=True)]


def convolve(layer: nn.Linear, states: Matrix, window: int) -> Matrix:
    """As many states as tokens, zeros beyond the text's ends."""
    zero = [0.0] * len(states[0])
    result = []
    for m in range(len(states)):
        z: Vector = []
        for k in range(m - (window - 1) // 2, m + window // 2 + 1):
            z += states[k] if 0 <= k < len(states) else zero
        result.append(affine(layer, z))
    return result


def lstm(cell: nn.LSTM, states: Matrix, layer: int = 0) -> Matrix:
    """One layer, from the first token to the last."""
    w_x, w_h, b_x, b_h = (
        getattr(cell, f"{kind}_l{layer}") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    size = w_h.shape[1]
    h, c, result = [0.0] * size, [0.0] * size, []
    for x in states:
        gates = [sum(parts) for parts in zip(matvec(w_x, x), b_x.tolist(), matvec(w_h, h), b_h.tolist(), strict=True)]
        i, f, g, o = (gates[k * size : (k + 1) * size] for k in range(4))
        c = [sigmoid(f[j]) * c[j] + sigmoid(i[j]) * tanh(g[j]) for j in range(size)]
        h = [sigmoid(o[j]) * tanh(c[j]) for j in range(size)]
        result.append(h)
    return result


def bilstm(encoder: BiLSTM, states: Matrix) -> Matrix:
    backward = lstm(encoder.backwards.lstm, states[::-1])[::-1]
    return [f + b for f, b in zip(lstm(encoder.forwards.lstm, states), backward, strict=True)]


def two_layers(head: nn.Sequential, x: Vector) -> Vector:
    """A hidden relu layer and the output of a classifier."""
    return affine(head[2], relu(affine(head[0], x)))


def log_odds(logits: Vector) -> float:
    from math import log

    return logits[-1] - log(sum(map(exp, logits[:-1])))
