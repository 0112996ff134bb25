from __future__ import annotations

from math import acosh

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import Vector, add, affine, distance, embed, norm, relu
from naive.case import Case


def represent(model: AnswerModel, ids: list[int]) -> Vector:
    z = [0.0] * model.projection.out_features
    for e in embed(model, ids):
        z = add(z, relu(affine(model.projection, e)))
    length, edge = norm(z), 1 - 5e-4
    return z if length <= edge else [x * edge / length for x in z]


def hyperqa(model: AnswerModel, q: list[int], a: list[int]) -> float:
    x, y = represent(model, q), represent(model, a)
    d = acosh(1 + 2 * distance(x, y) ** 2 / ((1 - norm(x) ** 2) * (1 - norm(y) ** 2)))
    return model.w_f.item() * d + model.b_f.item()


CASES = [Case("hyperqa", {"projection": 6}, hyperqa)]
