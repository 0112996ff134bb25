"""Compare-aggregate: each answer word is compared with the part of the question it attends to (Wang & Jiang 2017).

Equations of section 2:

    Q̄ = σ(W^i Q + b^i) ⊙ tanh(W^u Q + b^u),  Ā likewise      eq. 1   a gate without memory; (M, C), (L, C)
    G = softmax((W^g Q̄)^T Ā),  h_j = Σ_i G_ij q̄_i            eq. 2   over the question's words
    t_j = f(ā_j, h_j)                                         eq. 3-8 the comparison:
        nn          ReLU(W [ā ; h] + b)
        ntn         ReLU(ā^T T^[1..C] h + b)
        euccos      [|ā - h|₂ ; cos(ā, h)]
        sub         (ā - h) ⊙ (ā - h)
        mult        ā ⊙ h
        submult-nn  ReLU(W [(ā - h) ⊙ (ā - h) ; ā ⊙ h] + b)
    r = CNN([t_1 ... t_L])                                    eq. 9   windows of 1 to 5 words, relu, maximum over words
    s(q, a) = w^T tanh(W^s r + b^s) + b                       under a softmax over the question's answers

The paper's b^g is left out: it adds the same to all scores of an answer word, so the softmax of eq. 2 cancels it.

`clip` is dynamic-clip attention (Bian et al. 2017). Of each answer word's weights over the question, `k-max` keeps the
k largest and `k-threshold` those above the threshold. The remaining weights are normalised to sum to 1; a word without
any has h = 0. Bian et al. attend and compare in both directions, here as in Wang and Jiang it is one direction.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from ap_ranker.models.base import PairModel, States, hidden_layer
from ap_ranker.models.layers import Convolution
from ap_ranker.models.operations import masked_softmax, max_pool, unit
from ap_ranker.models.spec import DROPOUT, Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import TokenBatch

WINDOWS = range(1, 6)


class Comparison(nn.Module):
    """t = f(a, h), one of the six functions of eq. 3 to 8."""

    def __init__(self, kind: str, hidden: int) -> None:
        super().__init__()
        self.kind = kind
        self.state_size = 2 if kind == "euccos" else hidden
        if kind in ("nn", "submult-nn"):
            self.layer: nn.Linear | nn.Bilinear = nn.Linear(2 * hidden, hidden)
        elif kind == "ntn":
            self.layer = nn.Bilinear(hidden, hidden, hidden)

    def forward(self, a: Tensor, h: Tensor) -> Tensor:
        match self.kind:
            case "nn":
                return torch.relu(self.layer(torch.cat([a, h], dim=2)))
            case "ntn":
                # Slice by slice: the gradient of nn.Bilinear's own forward is a hundred times slower.
                products = [(a @ T * h).sum(dim=2) for T in self.layer.weight]
                return torch.relu(torch.stack(products, dim=2) + self.layer.bias)
            case "euccos":
                return torch.stack([torch.linalg.vector_norm(a - h, dim=2), (unit(a) * unit(h)).sum(dim=2)], dim=2)
            case "sub":
                return (a - h).square()
            case "mult":
                return a * h
            case _:
                return torch.relu(self.layer(torch.cat([(a - h).square(), a * h], dim=2)))


def clip(weights: Tensor, options: Options) -> Tensor:
    """(P, L, M) attention weights, of which only the largest stay, normalised to sum to 1 again."""
    if options.clip == "none":
        return weights
    if options.clip == "k-max":
        values, positions = weights.topk(min(options.k, weights.shape[2]), dim=2)
        kept = torch.zeros_like(weights).scatter(2, positions, values)
    else:
        kept = weights * (weights > options.threshold)
    return kept / kept.sum(dim=2, keepdim=True).clamp(min=1e-5)  # far below any weight worth keeping


class CompareAggregate(PairModel):
    """Compares every answer word with its aligned question words; a CNN aggregates the comparisons."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        hidden = options.hidden
        self.input_gate = nn.Linear(inputs.embedding_size, hidden)  # W^i
        self.update = nn.Linear(inputs.embedding_size, hidden)  # W^u
        self.attention = nn.Linear(hidden, hidden, bias=False)  # W^g
        self.comparison = Comparison(options.comparison, hidden)
        self.convolutions = nn.ModuleList([Convolution(self.comparison.state_size, hidden, w) for w in WINDOWS])
        self.head = hidden_layer(len(WINDOWS) * hidden, hidden, 1, nn.Tanh)

    def encode(self, batch: TokenBatch) -> States:
        words = self.embedding(batch)
        states = torch.sigmoid(self.input_gate(words)) * torch.tanh(self.update(words))
        return States(batch.mask, {"states": states * batch.mask.unsqueeze(2)})

    def encode_questions(self, batch: TokenBatch) -> States:
        states = self.encode(batch).per_token["states"]
        return States(batch.mask, {"states": states, "projected": self.attention(states)})

    def align(self, questions: States, answers: States) -> Tensor:
        """(P, L, M): G, the attention of each answer word to each question word."""
        WQ = questions.per_token["projected"]
        A = answers.per_token["states"]
        return clip(masked_softmax(A @ WQ.mT, questions.mask.unsqueeze(1)), self.options)

    def pair_attention_weights(self, questions: States, answers: States) -> tuple[Tensor, None]:
        """Each question word's share of all answer words' attention, 0 where `clip` leaves none."""
        attention = (self.align(questions, answers) * answers.mask.unsqueeze(2)).sum(dim=1)
        return attention / attention.sum(dim=1, keepdim=True).clamp(min=1e-5), None

    def compare(self, questions: States, answers: States) -> Tensor:
        Q = questions.per_token["states"]
        A = answers.per_token["states"]
        G = self.align(questions, answers)
        T = self.comparison(A, G @ Q) * answers.mask.unsqueeze(2)
        # relu is monotonic: max(relu(x)) = relu(max(x)).
        r = [torch.relu(max_pool(convolution(T, answers.mask), answers.mask)) for convolution in self.convolutions]
        return self.head(torch.cat(r, dim=1)).squeeze(1)


# Sizes and recipe, k and the threshold: the authors' own code, for WikiQA (with Adamax for Adam).
SPEC = ModelSpec(
    name="compare-aggregate",
    paper="Wang & Jiang, A Compare-Aggregate Model for Matching Text Sequences",
    year=2017,
    cached="token states",
    build=CompareAggregate,
    attention_over="question",
    options={
        "hidden": Option(150, "size of a token's state, filters of each window, units of the last layer"),
        "comparison": Option(
            "mult",
            "how an answer word is compared with its part of the question",
            ("nn", "ntn", "euccos", "sub", "mult", "submult-nn"),
        ),
        "clip": Option("none", "which attention weights count (Bian et al. 2017)", ("none", "k-max", "k-threshold")),
        "k": Option(5, "weights that `clip: k-max` keeps"),
        "threshold": Option(0.08, "what a weight must exceed for `clip: k-threshold`", least=0, most=0.99),
        "dropout": replace(DROPOUT, default=0.1),
    },
    recipe=Recipe("listwise", "adam", 0.004, batch_size=10, dropout=0.04),
    objective="listwise",
)
