from __future__ import annotations

from math import erf, log, sqrt

from torch import nn

from ap_ranker.models.base import AnswerModel
from naive.arithmetic import Matrix, Vector, add, affine, cosine, dot, matvec, mean, norm, softmax, weighted_sum
from naive.baselines import idf
from naive.case import Case

TINY = {
    "model_type": "bert",
    "vocab_size": 64,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "initializer_range": 0.2,
    "pad_token_id": 0,
}
"""Devlin et al. 2019, as small as it gets; its random weights are large enough for texts to differ."""


def layer_norm(layer: nn.LayerNorm, x: Vector) -> Vector:
    centre = sum(x) / len(x)
    spread = sqrt(sum((v - centre) ** 2 for v in x) / len(x) + 1e-5)
    gain, bias = layer.weight.tolist(), layer.bias.tolist()
    return [g * (v - centre) / spread + b for v, g, b in zip(x, gain, bias, strict=True)]


def gelu(x: Vector) -> Vector:
    return [v * (1 + erf(v / sqrt(2))) / 2 for v in x]


def self_attention(block: nn.Module, states: Matrix, heads: int = 2) -> Matrix:
    q, k, v = ([affine(layer, x) for x in states] for layer in (block.query, block.key, block.value))
    size = len(states[0]) // heads
    found: Matrix = [[] for _ in states]
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        values = [row[part] for row in v]
        for t in range(len(states)):
            weights = softmax([dot(q[t][part], row[part]) / sqrt(size) for row in k])
            found[t] += weighted_sum(weights, values)
    return found


def bert(backbone: nn.Module, ids: list[int]) -> Matrix:
    """The last hidden states; every layer is normalised after what it adds."""
    table = backbone.embeddings
    word, position, kind = (
        getattr(table, f"{name}_embeddings").weight.tolist() for name in ("word", "position", "token_type")
    )
    states = [layer_norm(table.LayerNorm, add(add(word[i], position[t]), kind[0])) for t, i in enumerate(ids)]
    for layer in backbone.encoder.layer:
        out = layer.attention.output
        attended = [affine(out.dense, x) for x in self_attention(layer.attention.self, states)]
        states = [layer_norm(out.LayerNorm, add(x, y)) for x, y in zip(states, attended, strict=True)]
        wide = [gelu(affine(layer.intermediate.dense, x)) for x in states]
        narrow = [affine(layer.output.dense, x) for x in wide]
        states = [layer_norm(layer.output.LayerNorm, add(x, y)) for x, y in zip(states, narrow, strict=True)]
    return states


def mean_state(encoder: nn.Module, ids: list[int]) -> Vector:
    """What sentence encoders compare by its cosine, adapted."""
    return matvec(encoder.adapter.weight, mean(bert(encoder.backbone, ids)))


def unit(x: Vector) -> Vector:
    return [v / norm(x) for v in x]


def token_states(model: AnswerModel, ids: list[int]) -> Matrix:
    return [unit(matvec(model.projection.weight, h)) for h in bert(model.encoder.backbone, ids)]


def pair_states(model: AnswerModel, ids: list[int]) -> Matrix:
    """Of tokens 0 and 1, 2 and 3, ...; the last may be alone."""
    states = token_states(model, ids)
    return [unit(mean(states[start : start + 2])) for start in range(0, len(ids), 2)]


def alpha(model: AnswerModel, q: list[int]) -> Vector:
    u, gamma = model.importance.tolist(), model.rarity.item()
    hidden = bert(model.encoder.backbone, q)
    return softmax([gamma * log(max(idf(word), 0.001)) + dot(h, u) for word, h in zip(q, hidden, strict=True)])


def cosines(model: AnswerModel, q: list[int], a: list[int]) -> Matrix:
    """Of each question token with each pair of answer tokens."""
    answer = pair_states(model, a)
    return [[dot(x, y) for y in answer] for x in token_states(model, q)]


def word_score(model: AnswerModel, q: list[int], a: list[int]) -> float:
    return sum(weight * max(row) for weight, row in zip(alpha(model, q), cosines(model, q, a), strict=True))


def score(model: AnswerModel, q: list[int], a: list[int]) -> float:
    w = model.word_weight.item()
    pooled = cosine(mean_state(model.encoder, q), mean_state(model.encoder, a))
    return (pooled + w * word_score(model, q, a)) / (1 + w)


def attention(model: AnswerModel, q: list[int], a: list[int]) -> tuple[Vector, Vector]:
    received = [0.0] * len(a)
    for weight, row in zip(alpha(model, q), cosines(model, q, a), strict=True):
        best = 2 * row.index(max(row))
        pair = range(best, min(best + 2, len(a)))
        for token in pair:
            received[token] += weight / len(pair)
    return alpha(model, q), received


CASES = [Case("ap-transformer", {"size": size}, score, attention) for size in (0, 6)]
