from __future__ import annotations

from math import tanh

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import (
    Matrix,
    Vector,
    affine,
    convolve,
    cosine,
    distance,
    dot,
    embed,
    matvec,
    maxima,
    multiply,
    norm,
    relu,
    shares,
    sigmoid,
    softmax,
    weighted_sum,
)
from naive.case import Case


def gate(model: AnswerModel, ids: list[int]) -> Matrix:
    return [
        [sigmoid(i) * tanh(u) for i, u in zip(affine(model.input_gate, x), affine(model.update, x), strict=True)]
        for x in embed(model, ids)
    ]


def clip(model: AnswerModel, weights: Vector) -> Vector:
    if model.options.clip == "none":
        return weights
    if model.options.clip == "k-max":
        ranked = sorted(range(len(weights)), key=lambda i: weights[i], reverse=True)
        kept = [w if i in ranked[: model.options.k] else 0.0 for i, w in enumerate(weights)]
    else:
        kept = [w if w > model.options.threshold else 0.0 for w in weights]
    return shares(kept)


def compare(model: AnswerModel, a: Vector, h: Vector) -> Vector:
    f = model.comparison
    squares = [(x - y) ** 2 for x, y in zip(a, h, strict=True)]
    if f.kind == "nn":
        return relu(affine(f.layer, a + h))
    if f.kind == "ntn":
        slices, bias = f.layer.weight, f.layer.bias.tolist()
        return relu([dot(a, matvec(T, h)) + b for T, b in zip(slices, bias, strict=True)])
    if f.kind == "euccos":
        return [distance(a, h), cosine(a, h) if norm(h) else 0.0]
    if f.kind == "sub":
        return squares
    if f.kind == "mult":
        return multiply(a, h)
    return relu(affine(f.layer, squares + multiply(a, h)))


def alignment(model: AnswerModel, Q: Matrix, A: Matrix) -> Matrix:  # noqa: N803
    return [clip(model, softmax([dot(matvec(model.attention.weight, x), y) for x in Q])) for y in A]


def attention(model: AnswerModel, q: list[int], a: list[int]) -> tuple[Vector, None]:
    """What the answer's words take from each word of the question, in shares."""
    G = alignment(model, gate(model, q), gate(model, a))  # noqa: N806
    return shares([sum(taken[i] for taken in G) for i in range(len(q))]), None


def score(model: AnswerModel, q: list[int], a: list[int]) -> float:
    Q, A = gate(model, q), gate(model, a)  # noqa: N806
    G = alignment(model, Q, A)  # noqa: N806
    T = [compare(model, y, weighted_sum(weights, Q)) for y, weights in zip(A, G, strict=True)]  # noqa: N806
    r: Vector = []
    for window, convolution in enumerate(model.convolutions, start=1):
        r += maxima([relu(state) for state in convolve(convolution.linear, T, window)])
    hidden = [tanh(x) for x in affine(model.head[0], r)]
    return affine(model.head[2], hidden)[0]


COMPARISONS = ["mult", "nn", "ntn", "euccos", "sub", "submult-nn"]
CASES = [
    *(Case("compare-aggregate", {"hidden": 6, "comparison": f, "clip": "none"}, score, attention) for f in COMPARISONS),
    Case("compare-aggregate", {"hidden": 6, "comparison": "mult", "clip": "k-max", "k": 2}, score, attention),
    Case(
        "compare-aggregate",
        {"hidden": 6, "comparison": "mult", "clip": "k-threshold", "threshold": 0.18},
        score,
        attention,
    ),
    # High enough that an answer word keeps some of a four-word question's words, and none of a six-word question's.
    Case(
        "compare-aggregate",
        {"hidden": 6, "comparison": "euccos", "clip": "k-threshold", "threshold": 0.24},
        score,
        attention,
    ),
]
