from __future__ import annotations

from math import log, tanh

from torch import nn

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import Vector, affine, dot, embed, log_odds, lstm, matvec
from naive.case import Case


def last_state(model: AnswerModel, cell: nn.LSTM, ids: list[int]) -> Vector:
    states = embed(model, ids)
    for layer in range(cell.num_layers):
        states = lstm(cell, states, layer)
    return states[-1]


def overlap(model: AnswerModel, q: list[int], a: list[int]) -> Vector:
    words_q, words_a = ({word for word in ids if word > 1} for ids in (q, a))
    texts, frequency = model.statistics.documents.item(), model.statistics.document_frequency.tolist()
    shared = words_q & words_a
    idf = sum(log(1 + (texts - frequency[w] + 0.5) / (frequency[w] + 0.5)) for w in shared)
    size = len(words_q) + len(words_a) or 1
    return [len(shared) / size, idf / size]


def score(model: AnswerModel, q: list[int], a: list[int]) -> float:
    x, y = last_state(model, model.q_lstm.lstm, q), last_state(model, model.a_lstm.lstm, a)
    size = len(x)
    correlation = [sum(x[i] * y[(k + i) % size] for i in range(size)) for k in range(size)]
    features = [*correlation, dot(x, matvec(model.M.weight, y)), *overlap(model, q, a)]
    hidden = [tanh(v) for v in affine(model.head[0], features)]
    return log_odds(affine(model.head[2], hidden))


CASES = [
    Case("hd-lstm", {"hidden": 5, "layers": 2, "head": 6}, score),
    Case("hd-lstm", {"hidden": 6, "layers": 1, "head": 6, "classes": 3}, score),
]
