from __future__ import annotations

from functools import partial
from math import tanh

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import Matrix, bilstm, convolve, cosine, embed, softmax, weighted_sum
from naive.case import Case


def attentive(model: AnswerModel, Q: Matrix, A: Matrix, sharpness: float) -> float:  # noqa: N803
    U = model.U.tolist()  # noqa: N806
    G = [  # noqa: N806
        [tanh(sum(q[i] * U[i][j] * a[j] for i in range(len(q)) for j in range(len(a)))) for a in A] for q in Q
    ]
    sigma_q = softmax([sharpness * max(row) for row in G])
    sigma_a = softmax([sharpness * max(column) for column in zip(*G, strict=True)])
    return cosine(weighted_sum(sigma_q, Q), weighted_sum(sigma_a, A))


def ap_cnn(model: AnswerModel, q: list[int], a: list[int], sharpness: float = 1.0) -> float:
    return attentive(model, *(convolve(model.encoder.linear, embed(model, ids), 3) for ids in (q, a)), sharpness)


def ap_bilstm(model: AnswerModel, q: list[int], a: list[int], sharpness: float = 1.0) -> float:
    return attentive(model, *(bilstm(model.encoder, embed(model, ids)) for ids in (q, a)), sharpness)


CASES = [
    Case("ap-cnn", {"filters": 12, "window": 3}, ap_cnn),
    Case("ap-cnn", {"filters": 12, "window": 3, "sharpness": 3.0}, partial(ap_cnn, sharpness=3.0)),
    Case("ap-bilstm", {"hidden": 6}, ap_bilstm),
    Case("ap-bilstm", {"hidden": 6, "sharpness": 3.0}, partial(ap_bilstm, sharpness=3.0)),
]
