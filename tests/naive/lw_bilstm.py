from __future__ import annotations

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import Vector, bilstm, cosine, dot, embed, gesd, softmax, weighted_sum
from naive.case import Case


def represent(model: AnswerModel, ids: list[int]) -> Vector:
    states = bilstm(model.encoder, embed(model, ids))
    w = model.w.weight.tolist()[0]
    importance = softmax([dot(w, h) for h in bilstm(model.importance, states)])
    return weighted_sum(importance, states)


def lw_bilstm(model: AnswerModel, q: list[int], a: list[int]) -> float:
    r_q, r_a = represent(model, q), represent(model, a)
    return gesd(r_q, r_a) if model.similarity == "gesd" else cosine(r_q, r_a)


CASES = [
    Case("lw-bilstm", {"hidden": 6, "importance": 5, "similarity": "cosine"}, lw_bilstm),
    Case("lw-bilstm", {"hidden": 6, "importance": 5, "similarity": "gesd"}, lw_bilstm),
]
