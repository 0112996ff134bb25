from __future__ import annotations

from math import tanh

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import (
    Matrix,
    Vector,
    add,
    affine,
    bilstm,
    dot,
    embed,
    log_odds,
    matvec,
    mean,
    multiply,
    softmax,
    two_layers,
    weighted_sum,
)
from naive.case import Case


def subtract(x: Vector, y: Vector) -> Vector:
    return [a - b for a, b in zip(x, y, strict=True)]


def without(states: Matrix, i: int) -> Vector:
    """The forward state before token i and the backward state after it."""
    half = len(states[0]) // 2
    zero = [0.0] * half
    before = states[i - 1][:half] if i > 0 else zero
    after = states[i + 1][half:] if i + 1 < len(states) else zero
    return before + after


def inter_weights(model: AnswerModel, own: Matrix, other: Matrix) -> Vector:
    t_avg = mean(other)
    scores = []
    for i, s in enumerate(own):
        seen = subtract(s, without(own, i)) if model.options.weights == "skip" else s
        hidden = add(affine(model.W_own, seen), matvec(model.W_other.weight, t_avg))
        scores.append(affine(model.w_inter, [tanh(x) for x in hidden])[0])
    return softmax(scores)


def attention(model: AnswerModel, q: list[int], a: list[int]) -> tuple[Vector, Vector]:
    S, T = (bilstm(model.encoder, embed(model, ids)) for ids in (q, a))  # noqa: N806
    return inter_weights(model, S, T), inter_weights(model, T, S)


def alignment_features(model: AnswerModel, own: Matrix, other: Matrix) -> Vector:
    weights = inter_weights(model, own, other)
    residual, parallel, orthogonal = [], [], []
    for s in own:
        found = weighted_sum(softmax([dot(s, t) for t in other]), other)
        residual.append([abs(x) for x in subtract(s, found)])
        parallel.append([dot(s, found) / dot(found, found) * x for x in found])
        orthogonal.append(subtract(s, parallel[-1]))
    if model.options.alignment == "direct":
        return weighted_sum(weights, residual)
    return weighted_sum(weights, parallel) + weighted_sum(weights, orthogonal)


def self_attentive(model: AnswerModel, states: Matrix) -> Vector:
    scores = [affine(model.w_self, [tanh(x) for x in affine(model.W_self, s)])[0] for s in states]
    return weighted_sum(softmax(scores), states)


def score(model: AnswerModel, q: list[int], a: list[int]) -> float:
    S, T = (bilstm(model.encoder, embed(model, ids)) for ids in (q, a))  # noqa: N806
    v_s, v_t = self_attentive(model, S), self_attentive(model, T)
    features = alignment_features(model, S, T) + alignment_features(model, T, S)
    features += multiply(v_s, v_t) + [abs(x) for x in subtract(v_s, v_t)]
    return log_odds(two_layers(model.head, features))


CASES = [
    Case("iwan", {"hidden": 6, "alignment": "orthogonal", "weights": "attention"}, score, attention),
    Case("iwan", {"hidden": 6, "alignment": "direct", "weights": "attention"}, score, attention),
    Case("iwan", {"hidden": 6, "alignment": "orthogonal", "weights": "skip", "classes": 3}, score, attention),
]
