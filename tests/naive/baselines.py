from __future__ import annotations

from math import log

from ap_ranker.models.base import AnswerModel
from ap_ranker.text.tokenizer import UNKNOWN
from naive.arithmetic import cosine, embed, weighted_sum
from naive.case import Case

# The answers that `make_model` in conftest.py counts.
COUNTED = [[2, 3, 4, 3], [4, 5, 6], [7, 2, 8, 9, 9], [4, 1], [3, 4, 10]]


def idf(word: int) -> float:
    if word <= UNKNOWN:
        return 0.0
    df = sum(word in text for text in COUNTED)
    return log(1 + (len(COUNTED) - df + 0.5) / (df + 0.5))


def bm25(model: AnswerModel, q: list[int], a: list[int]) -> float:
    mean_length = sum(map(len, COUNTED)) / len(COUNTED)
    k1, b = model.options.k1, model.options.b
    score = 0.0
    for word in q:
        tf = a.count(word)
        score += idf(word) * tf / (tf + k1 * (1 - b + b * len(a) / mean_length))
    return score


def bow_idf(model: AnswerModel, q: list[int], a: list[int]) -> float:
    return cosine(*(weighted_sum([idf(word) for word in ids], embed(model, ids)) for ids in (q, a)))


CASES = [
    Case("bm25", {}, bm25),
    Case("bm25", {"k1": 2.0, "b": 0.3}, bm25),
    Case("bow-idf", {}, bow_idf),
]
