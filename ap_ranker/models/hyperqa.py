"""HyperQA: a text is a point in hyperbolic space, without LSTM, convolution or attention (Tay et al. 2018).

x_i = relu(W e_i + b)                                      one projection for all words
z = Σ x_i,  shortened if needed to lie in the open unit ball
d(q, a) = arcosh(1 + 2 |q-a|² / ((1-|q|²) (1-|a|²)))       hyperbolic distance
s(q, a) = w_f d(q, a) + b_f

Since cosh(2x) = 1 + 2 sinh²(x), d = 2 arsinh(|q-a| / sqrt((1-|q|²) (1-|a|²))). Unlike arcosh near 1, arsinh has no
infinite slope at distance 0 and no loss of precision there. `MARGIN` keeps all slopes finite near the ball's edge.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ap_ranker.models.base import States, WordModel
from ap_ranker.models.operations import exact, in_float32
from ap_ranker.models.spec import DROPOUT, Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import TokenBatch

MARGIN = 5e-4
"""Minimum distance of a point from the edge of the ball. For two points there, (1-|q|²) (1-|a|²) is about 1e-6, which
the authors' program adds to the product instead; nearer points would leave float32 too few digits of 1-|q|²."""


class HyperQA(WordModel):
    """The nearer two texts lie in the hyperbolic ball, the higher their score."""

    supports_quantization = False  # near the ball's edge the last digits decide

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.projection = nn.Linear(inputs.embedding_size, options.projection)
        # Texts of more than a word or two lie at the edge. Two points there at a Euclidean distance of 1 have an
        # initial score of 0, so initial scores have both signs.
        self.w_f = nn.Parameter(torch.tensor(-1.0))
        self.b_f = nn.Parameter(torch.tensor(2 * math.asinh(0.5 / MARGIN)))

    def encode(self, batch: TokenBatch) -> States:
        words = self.embedding(batch)
        layer = self.projection
        x = torch.relu(F.linear(exact(words), exact(layer.weight), exact(layer.bias))) * batch.mask.unsqueeze(2)
        z = in_float32(x).sum(dim=1)
        point = z * ((1 - MARGIN) / z.norm(dim=1, keepdim=True).clamp(min=1 - MARGIN))
        return States(batch.mask, per_text={"point": point.to(in_float32(words).dtype)})

    def match(self, questions: States, answers: States) -> Tensor:
        q = questions.per_text["point"]
        a = answers.per_text["point"]
        distance = torch.cdist(q, a, compute_mode="donot_use_mm_for_euclid_dist")
        to_edge_q = 1 - q.square().sum(dim=1)
        to_edge_a = 1 - a.square().sum(dim=1)
        d = 2 * torch.asinh(distance / torch.outer(to_edge_q, to_edge_a).sqrt())
        return self.w_f * d + self.b_f


SPEC = ModelSpec(
    name="hyperqa",
    paper="Tay, Tuan & Hui, Hyperbolic Representation Learning for Fast and Efficient Neural Question Answering",
    year=2018,
    cached="one vector",
    build=HyperQA,
    options={
        "projection": Option(300, "size of a text's vector; with 300-d word vectors the paper's 90K parameters"),
        "dropout": DROPOUT,
    },
    # The paper tunes the numbers for each data set; these are ours.
    recipe=Recipe("hinge", "adam", 1e-3, batch_size=50, margin=1.0),
)
