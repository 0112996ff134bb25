from __future__ import annotations

from collections.abc import Callable
from math import tanh
from typing import Any

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import Matrix, Vector, bilstm, convolve, cosine, embed, softmax, weighted_sum
from naive.case import Case


def sigmas(model: AnswerModel, Q: Matrix, A: Matrix, sharpness: float) -> tuple[Vector, Vector]:  # noqa: N803
    U = model.U.tolist()  # noqa: N806
    G = [  # noqa: N806
        [tanh(sum(q[i] * U[i][j] * a[j] for i in range(len(q)) for j in range(len(a)))) for a in A] for q in Q
    ]
    row_maxima, column_maxima = [max(row) for row in G], [max(column) for column in zip(*G, strict=True)]
    return softmax([sharpness * g for g in row_maxima]), softmax([sharpness * g for g in column_maxima])


def case(
    name: str, read: Callable[[AnswerModel, list[int]], Matrix], options: dict[str, Any], sharpness: float
) -> Case:
    """Attentive pooling of the states that `read` makes of a text."""

    def attention(model: AnswerModel, q: list[int], a: list[int]) -> tuple[Vector, Vector]:
        return sigmas(model, read(model, q), read(model, a), sharpness)

    def score(model: AnswerModel, q: list[int], a: list[int]) -> float:
        r_q, r_a = (
            weighted_sum(sigma, read(model, ids)) for sigma, ids in zip(attention(model, q, a), (q, a), strict=True)
        )
        return cosine(r_q, r_a)

    return Case(name, options, score, attention)


def convolved(model: AnswerModel, ids: list[int]) -> Matrix:
    return convolve(model.encoder.linear, embed(model, ids), 3)


def read_both_ways(model: AnswerModel, ids: list[int]) -> Matrix:
    return bilstm(model.encoder, embed(model, ids))


CASES = [
    case("ap-cnn", convolved, {"filters": 12, "window": 3}, 1.0),
    case("ap-cnn", convolved, {"filters": 12, "window": 3, "sharpness": 3.0}, 3.0),
    case("ap-bilstm", read_both_ways, {"hidden": 6}, 1.0),
    case("ap-bilstm", read_both_ways, {"hidden": 6, "sharpness": 3.0}, 3.0),
]
