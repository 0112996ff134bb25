from __future__ import annotations

from torch import nn

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import (
    Matrix,
    Vector,
    add,
    affine,
    distance,
    embed,
    log_odds,
    matvec,
    maxima,
    relu,
    shares,
    two_layers,
    weighted_sum,
)
from naive.case import Case

H = 3


def windows(states: Matrix) -> Matrix:
    """All stretches of H tokens, with H - 1 zero vectors before the text and after it, each as one long vector."""
    zeros = [[0.0] * len(states[0])] * (H - 1)
    padded = zeros + states + zeros
    return [[x for state in padded[i : i + H] for x in state] for i in range(len(states) + H - 1)]


def convolution(model: AnswerModel, S: Matrix, F: Matrix | None) -> Matrix:  # noqa: N803
    """relu of the filters' responses to one channel or to two."""
    responses = [affine(model.convolution.linear, z) for z in windows(S)]
    if F is not None:
        second: nn.Linear = model.channel.convolution.linear
        responses = [add(r, matvec(second.weight, z)) for r, z in zip(responses, windows(F), strict=True)]
    return [relu(r) for r in responses]


def similarities(first: Matrix, second: Matrix) -> Matrix:
    return [[1 / (1 + distance(x, y)) for y in second] for x in first]


def transposed(A: Matrix) -> Matrix:  # noqa: N803
    return [list(column) for column in zip(*A, strict=True)]


def times(A: Matrix, W: Matrix) -> Matrix:  # noqa: N803
    """A W, with as many rows of W as A has columns."""
    return [weighted_sum(row, W[: len(row)]) for row in A]


def scaled(states: Matrix, weights: Vector) -> Matrix:
    return [[w * x for x in state] for state, w in zip(states, weights, strict=True)]


def summed(states: Matrix) -> Matrix:
    return [[sum(column) for column in zip(*states[i : i + H], strict=True)] for i in range(len(states) - H + 1)]


Attended = tuple[Matrix, Matrix, Vector, Vector]
"""Convolved question and answer, and the pooling's attention to the places of either."""


def attended(model: AnswerModel, q: list[int], a: list[int], channel: bool, pooling: str) -> Attended:
    S_q, S_a = embed(model, q), embed(model, a)  # noqa: N806
    A = similarities(S_q, S_a)  # noqa: N806
    F_q = times(A, model.channel.W_q.tolist()) if channel else None  # noqa: N806
    F_a = times(transposed(A), model.channel.W_a.tolist()) if channel else None  # noqa: N806
    C_q, C_a = convolution(model, S_q, F_q), convolution(model, S_a, F_a)  # noqa: N806
    if pooling == "convolution":
        A = similarities(C_q, C_a)  # noqa: N806
    return C_q, C_a, [sum(row) for row in A], [sum(row) for row in transposed(A)]


def score(model: AnswerModel, q: list[int], a: list[int], *, channel: bool = False, pooling: str = "max") -> float:
    C_q, C_a, a_q, a_a = attended(model, q, a, channel, pooling)  # noqa: N806
    if pooling == "embeddings":
        C_q, C_a = scaled(summed(C_q), a_q), scaled(summed(C_a), a_a)  # noqa: N806
    elif pooling == "convolution":
        C_q, C_a = summed(scaled(C_q, a_q)), summed(scaled(C_a, a_a))  # noqa: N806
    return log_odds(two_layers(model.head, maxima(C_q) + maxima(C_a)))


def attention(model: AnswerModel, q: list[int], a: list[int]) -> tuple[Vector, Vector]:
    *_, a_q, a_a = attended(model, q, a, model.channel is not None, model.pooling)
    if model.pooling == "convolution":  # place k has the weight of the window of the tokens k - H + 1 ... k
        a_q, a_a = (
            [sum(weights[k] for k in range(len(weights)) if k - H + 1 <= t <= k) for t in range(len(ids))]
            for weights, ids in ((a_q, q), (a_a, a))
        )
    return shares(a_q), shares(a_a)


def abcnn_1(model: AnswerModel, q: list[int], a: list[int]) -> float:
    return score(model, q, a, channel=True)


def abcnn_2(model: AnswerModel, q: list[int], a: list[int]) -> float:
    return score(model, q, a, pooling=model.pooling)


def abcnn_3(model: AnswerModel, q: list[int], a: list[int]) -> float:
    return score(model, q, a, channel=True, pooling=model.pooling)


SIZES = {"filters": 6, "window": H}

CASES = [
    Case("scnn", SIZES, score),
    Case("scnn", SIZES | {"classes": 3}, score),
    Case("abcnn-1", SIZES, abcnn_1),
    Case("abcnn-2", SIZES | {"attention_from": "embeddings"}, abcnn_2, attention),
    Case("abcnn-2", SIZES | {"attention_from": "convolution"}, abcnn_2, attention),
    Case("abcnn-3", SIZES | {"attention_from": "embeddings"}, abcnn_3, attention),
    Case("abcnn-3", SIZES | {"attention_from": "convolution"}, abcnn_3, attention),
]
