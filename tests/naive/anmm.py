from __future__ import annotations

from math import floor

from torch import nn

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import Vector, cosine, dot, embed, matvec, sigmoid, softmax
from naive.case import Case


def bins(word: Vector, answer: list[Vector]) -> Vector:
    """The sum of the signals in each bin [-1, -0.9), ... [0.9, 1), [1, 1]; a little leeway for rounding."""
    sums = [0.0] * 21
    for other in answer:
        signal = cosine(word, other)
        sums[20 if signal > 1 - 1e-5 else floor((signal + 1) * 10)] += signal
    return sums


def attention(model: AnswerModel, q: list[int], a: list[int]) -> tuple[Vector, None]:
    return softmax([dot(model.v.weight.tolist()[0], word) for word in embed(model, q)]), None


def score(model: AnswerModel, q: list[int], a: list[int]) -> float:
    words, answer = embed(model, q), embed(model, a)
    matches = []
    for word in words:
        values = bins(word, answer)
        for layer in model.network:
            if isinstance(layer, nn.Linear):
                values = [sigmoid(value) for value in matvec(layer.weight, values)]
        matches.append(values[0])
    return dot(attention(model, q, a)[0], matches)


CASES = [Case("anmm-1", {}, score, attention), Case("anmm-2", {"weights": 4}, score, attention)]
