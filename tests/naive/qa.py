from __future__ import annotations

from math import exp, tanh

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import Matrix, bilstm, convolve, cosine, distance, dot, embed, maxima
from naive.case import Case


def siamese(model: AnswerModel, Q: Matrix, A: Matrix) -> float:  # noqa: N803
    r_q, r_a = ([tanh(x) for x in maxima(states)] for states in (Q, A))
    if model.options.similarity == "gesd":
        return 1 / (1 + distance(r_q, r_a)) / (1 + exp(-(dot(r_q, r_a) + 1)))
    return cosine(r_q, r_a)


def qa_cnn(model: AnswerModel, q: list[int], a: list[int]) -> float:
    return siamese(model, *(convolve(model.encoder.linear, embed(model, ids), 2) for ids in (q, a)))


def qa_bilstm(model: AnswerModel, q: list[int], a: list[int]) -> float:
    return siamese(model, *(bilstm(model.encoder, embed(model, ids)) for ids in (q, a)))


CASES = [
    Case("qa-cnn", {"filters": 12, "window": 2, "similarity": "cosine"}, qa_cnn),
    Case("qa-cnn", {"filters": 12, "window": 2, "similarity": "gesd"}, qa_cnn),
    Case("qa-bilstm", {"hidden": 6}, qa_bilstm),
]
