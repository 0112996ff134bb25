from __future__ import annotations

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import Matrix, Vector, bilstm, cosine, dot, embed, gesd, softmax, weighted_sum
from naive.case import Case


def read(model: AnswerModel, ids: list[int]) -> Matrix:
    return bilstm(model.encoder, embed(model, ids))


def importance(model: AnswerModel, ids: list[int]) -> Vector:
    w = model.w.weight.tolist()[0]
    return softmax([dot(w, h) for h in bilstm(model.importance, read(model, ids))])


def represent(model: AnswerModel, ids: list[int]) -> Vector:
    return weighted_sum(importance(model, ids), read(model, ids))


def attention(model: AnswerModel, q: list[int], a: list[int]) -> tuple[Vector, Vector]:
    return importance(model, q), importance(model, a)


def lw_bilstm(model: AnswerModel, q: list[int], a: list[int]) -> float:
    r_q, r_a = represent(model, q), represent(model, a)
    return gesd(r_q, r_a) if model.options.similarity == "gesd" else cosine(r_q, r_a)


CASES = [
    Case("lw-bilstm", {"hidden": 6, "importance": 5, "similarity": "cosine"}, lw_bilstm, attention),
    Case("lw-bilstm", {"hidden": 6, "importance": 5, "similarity": "gesd"}, lw_bilstm, attention),
]
