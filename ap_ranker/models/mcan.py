"""MCAN: attention adds twelve features to each word's vector instead of pooling (Tay et al. 2018, section 3).

    x = T(e) ⊙ H(e) + (1 - T(e)) ⊙ e                    highway layer over a word vector; H relu, T sigmoid
    S_ij = F(q_i) · F(d_j), F one relu layer            affinity of the words of question q and answer d
    four attentions compute an x̄ for each word x of a text; for a question word q_i:
        max          q̄ = Σ_i softmax_i(max_j S_ij) q_i      the same for all words
        mean         q̄ = Σ_i softmax_i(mean_j S_ij) q_i     the same for all words
        alignment    q̄_i = Σ_j softmax_j(S_ij) d_j
        intra        q̄_i = Σ_k softmax_k(F'(q_i) · F'(q_k)) q_k
    each is cast to three scalars
        f_c = C([x̄ ; x]),  f_m = C(x̄ ⊙ x),  f_s = C(x̄ - x)
    compression C of a vector u
        sum          Σ_i u_i
        nn           ReLU(w · u + b)
        fm           w₀ + Σ_i w_i u_i + Σ_i Σ_{j>i} (v_i · v_j) u_i u_j      a factorisation machine
    h = LSTM([x ; z]), z the word's 4 x 3 scalars       r = [mean(h) ; max(h)]
    softmax(W H₂(H₁([r_q ; r_d ; r_q ⊙ r_d ; r_q - r_d])) + b), H₁ and H₂ highway layers

The two texts share all parameters; each scalar has its own C. Intra-attention needs one text, so `encode` computes it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ap_ranker.models.base import CLASSIFIER, Classifier, States
from ap_ranker.models.layers import LSTM
from ap_ranker.models.operations import align, masked_softmax, max_pool, mean_pool
from ap_ranker.models.spec import Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import TokenBatch


class Highway(nn.Module):
    """A relu layer whose output a gate mixes with its input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.H = nn.Linear(size, size)
        self.T = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        # On a GPU, layers answer in bfloat16 and an LSTM in float16, which `lerp` does not mix.
        H = self.H(x).to(x.dtype)
        T = self.T(x).to(x.dtype)
        return torch.lerp(x, torch.relu(H), torch.sigmoid(T))


class Sum(nn.Module):
    def forward(self, u: Tensor) -> Tensor:
        return u.sum(dim=-1, keepdim=True)


class FactorizationMachine(nn.Module):
    """A linear layer plus all products of two inputs, whose weights are dot products of `factors` numbers per input."""

    def __init__(self, size: int, factors: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, 1)
        self.V = nn.Parameter(torch.empty(size, factors).normal_(std=0.1))

    def forward(self, u: Tensor) -> Tensor:
        pairs = (u @ self.V).square() - u.square() @ self.V.square()  # Σ_i Σ_{j≠i}: each pair twice
        return self.linear(u) + pairs.sum(dim=-1, keepdim=True) / 2


class Cast(nn.Module):
    """f_c, f_m and f_s of one attention."""

    def __init__(self, compression: str, size: int, factors: int) -> None:
        super().__init__()
        self.compressions = nn.ModuleList([compress(compression, n, factors) for n in (2 * size, size, size)])

    def forward(self, x: Tensor, attended: Tensor) -> Tensor:
        """(P, T, D), (P, T, D) -> (P, T, 3)."""
        parts = (torch.cat([attended, x], dim=2), attended * x, attended - x)
        return torch.cat([c(part) for c, part in zip(self.compressions, parts, strict=True)], dim=2)


def compress(kind: str, size: int, factors: int) -> nn.Module:
    """C."""
    if kind == "sum":
        return Sum()
    if kind == "nn":
        linear = nn.Linear(size, 1)
        nn.init.ones_(linear.bias)  # a single relu unit that is 0 for all words would never learn
        return nn.Sequential(linear, nn.ReLU())
    return FactorizationMachine(size, factors)


class MCAN(Classifier):
    """An LSTM reads each text together with attention features that relate it to the other text."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        size = inputs.embedding_size
        self.highway = Highway(size)
        self.F = nn.Sequential(nn.Linear(size, size), nn.ReLU())
        self.F_intra = nn.Sequential(nn.Linear(size, size), nn.ReLU())
        casts = [Cast(options.compression, size, options.factors) for _ in range(4)]
        self.cast_max, self.cast_mean, self.cast_alignment, self.cast_intra = casts
        self.lstm = LSTM(size + 12, options.hidden)
        joined = 4 * 2 * options.hidden
        self.head = nn.Sequential(Highway(joined), Highway(joined), nn.Linear(joined, options.classes))

    def encode(self, batch: TokenBatch) -> States:
        """x, the three scalars of the intra-attention, and F(x)."""
        mask = batch.mask.unsqueeze(2)
        x = self.highway(self.embedding(batch)) * mask
        projected = self.F_intra(x)
        z = self.cast_intra(x, align(projected @ projected.mT, x, batch.mask))
        return States(batch.mask, {"x": x, "intra": z * mask, "F": self.F(x) * mask})

    def pair_attention_weights(self, questions: States, answers: States) -> tuple[Tensor, Tensor]:
        """The mean of the weights of the max and of the mean attention; the other two give a token no weight."""
        S = questions.per_token["F"] @ answers.per_token["F"].mT
        q = self.poolings(S, questions, answers)
        a = self.poolings(S.mT, answers, questions)
        return (q[0] + q[1]) / 2, (a[0] + a[1]) / 2

    def features(self, questions: States, answers: States) -> Tensor:
        S = questions.per_token["F"] @ answers.per_token["F"].mT
        r_q = self.read(S, questions, answers)
        r_d = self.read(S.mT, answers, questions)
        return torch.cat([r_q, r_d, r_q * r_d, r_q - r_d], dim=1)

    def poolings(self, S: Tensor, own: States, other: States) -> list[Tensor]:
        """The weights of the max and of the mean attention, (P, own tokens) each; S as in `read`."""
        largest = S.masked_fill(~other.mask.unsqueeze(1), float("-inf")).amax(dim=2)
        mean = S.sum(dim=2) / other.mask.sum(dim=1, keepdim=True)
        return [masked_softmax(scores, own.mask) for scores in (largest, mean)]

    def read(self, S: Tensor, own: States, other: States) -> Tensor:
        """(P, 2C) vector of one text; S is (P, own tokens, other tokens), zero on padding."""
        x = own.per_token["x"]
        others = other.per_token["x"]
        max_weights, mean_weights = self.poolings(S, own, other)
        largest = (max_weights.unsqueeze(1) @ x).expand_as(x)
        mean = (mean_weights.unsqueeze(1) @ x).expand_as(x)
        z = [self.cast_max(x, largest), self.cast_mean(x, mean), self.cast_alignment(x, align(S, others, other.mask))]
        h = self.lstm(torch.cat([*z, own.per_token["intra"], x], dim=2), own.mask)
        return torch.cat([mean_pool(h, own.mask), max_pool(h, own.mask)], dim=1)


# Sizes and recipe: ours.
SPEC = ModelSpec(
    name="mcan",
    paper="Tay, Luu & Hui, Multi-Cast Attention Networks",
    year=2018,
    cached="token states",
    build=MCAN,
    attention_over="both",
    options={
        "hidden": Option(100, "units of the LSTM; the last layers have eight times as many"),
        "compression": Option("fm", "how a vector becomes one scalar", ("sum", "nn", "fm")),
        "factors": Option(10, "numbers per input of the factorisation machine (`compression: fm`)"),
        **CLASSIFIER,
    },
    recipe=Recipe("pointwise", "adam", 3e-4, weight_decay=1e-6),
    objective="listwise",
)
