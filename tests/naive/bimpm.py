from __future__ import annotations

from math import tanh

from torch import Tensor

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import (
    Matrix,
    Vector,
    affine,
    bilstm,
    cosine,
    embed,
    log_odds,
    lstm,
    maxima,
    multiply,
    weighted_sum,
)
from naive.case import Case

WORDS = ["[PAD]", "[UNK]", "parcel", "refund", "the", "a", "bike", "where", "my", "is", "open", "link", "helmet"]
"""The words of the test's vocabulary: their letters are read."""


def spell(model: AnswerModel, word: str) -> Vector:
    """The last state of an LSTM over the letters, which are numbered from 1 in the order of their code points."""
    letters = sorted(set("".join(WORDS)))
    rows = model.spelling.embedding.weight.tolist()
    return lstm(model.spelling.lstm.lstm, [rows[letters.index(letter) + 1] for letter in word])[-1]


def represent(model: AnswerModel, ids: list[int]) -> Matrix:
    words = embed(model, ids)
    if model.spelling is None:
        return words
    return [vector + spell(model, WORDS[i]) for vector, i in zip(words, ids, strict=True)]


def f_m(v1: Vector, v2: Vector, W: Tensor) -> Vector:  # noqa: N803
    return [cosine(multiply(w, v1), multiply(w, v2)) for w in W.tolist()]


def match(states: Matrix, others: Matrix, end: Vector, W: Tensor) -> Matrix:  # noqa: N803
    """Full, max-pooling, attentive and max-attentive matches of each state, one after the other."""
    result = []
    for h in states:
        alpha = [cosine(h, other) for other in others]
        mean = [x / sum(alpha) for x in weighted_sum(alpha, others)]
        best = others[alpha.index(max(alpha))]
        pooled = maxima([f_m(h, other, W[1]) for other in others])
        result.append(f_m(h, end, W[0]) + pooled + f_m(h, mean, W[2]) + f_m(h, best, W[3]))
    return result


def halves(states: Matrix) -> tuple[Matrix, Matrix]:
    size = len(states[0]) // 2
    return [h[:size] for h in states], [h[size:] for h in states]


def aggregate(model: AnswerModel, states: Matrix, others: Matrix) -> Vector:
    (forward, backward), (other_forward, other_backward) = halves(states), halves(others)
    matches_f = match(forward, other_forward, other_forward[-1], model.forward_matching.W)
    matches_b = match(backward, other_backward, other_backward[0], model.backward_matching.W)
    matches = [f + b for f, b in zip(matches_f, matches_b, strict=True)]
    forward, backward = halves(bilstm(model.aggregation, matches))
    return forward[-1] + backward[0]


def score(model: AnswerModel, q: list[int], a: list[int]) -> float:
    h_q, h_a = (bilstm(model.context, represent(model, ids)) for ids in (q, a))
    ends = aggregate(model, h_q, h_a) + aggregate(model, h_a, h_q)
    return log_odds(affine(model.head[2], [tanh(x) for x in affine(model.head[0], ends)]))


SIZES = {"hidden": 4, "perspectives": 3}

CASES = [
    Case("bimpm", SIZES | {"characters": False}, score),
    Case("bimpm", SIZES | {"characters": True}, score),
]
