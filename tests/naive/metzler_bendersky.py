from __future__ import annotations

from itertools import pairwise
from math import log

from ap_ranker.models.base import AnswerModel
from ap_ranker.text.tokenizer import UNKNOWN
from naive.baselines import COUNTED, idf
from naive.case import Case


def probability(word: int) -> float:
    everything = [counted for text in COUNTED for counted in text]
    return (everything.count(word) + 1) / (len(everything) + 1)


def metzler_bendersky(model: AnswerModel, q: list[int], a: list[int]) -> float:
    w = model.weights.tolist()

    def f(tf: int, p: float) -> float:
        return log((tf + model.options.mu * p) / (len(a) + model.options.mu))

    score = 0.0
    for word in q:
        if word > UNKNOWN:
            score += (w[0] + w[1] * idf(word)) * f(a.count(word), probability(word))
    for x, y in pairwise(q):
        if x > UNKNOWN and y > UNKNOWN:
            places = range(len(a))
            p = probability(x) * probability(y)
            side_by_side = sum(a[i] == x and a[i + 1] == y for i in places[:-1])
            around = sum(
                a[i] == x and a[j] == y and 0 < abs(i - j) < model.options.window for i in places for j in places
            )
            score += (w[2] + w[3] * (idf(x) + idf(y))) * f(side_by_side, p)
            score += (w[4] + w[5] * (idf(x) + idf(y))) * f(around, 2 * (model.options.window - 1) * p)
    return score


CASES = [
    Case("metzler-bendersky", {"mu": 20.0, "window": 4}, metzler_bendersky),
    Case("metzler-bendersky", {}, metzler_bendersky),
]
