"""IWAN: how far each word differs from its counterpart, weighted by its importance (Shen et al. 2017, section 3).

    s_i = [→h_i ; ←h_i], t_j likewise                   biLSTM states of the two texts S (M words) and T (L words)
    M_ij = s_i · t_j                                    word-level similarity matrix
    ŝ_i = Σ_j softmax_j(M_ij) t_j                       alignment layer; t̂_j likewise
    alignment features of a word
        direct        s^r_i = |s_i - ŝ_i|
        orthogonal    s^p_i = (s_i·ŝ_i / ŝ_i·ŝ_i) ŝ_i,  s^o_i = s_i - s^p_i
    inter-weighted layer, t_avg the mean of the t_j
        attention     w_i = softmax_i(w₂ · tanh(W₁ [s_i ; t_avg] + b₁))
        skip          the same of [s_i - s^skip_i ; t_avg], s^skip_i = [→h_{i-1} ; ←h_{i+1}]: the text without word i
    s^r = Σ_i w_i s^r_i                                 and so for s^p, s^o and for T
    v_s = Σ_i softmax_i(w₄ · tanh(W₃ s_i + b₃)) s_i     self-attention over one text alone
    softmax(W₆ relu(W₅ [s^r ; t^r ; v_s ⊙ v_t ; |v_s - v_t|] + b₅) + b₆)     orthogonal: s^p, s^o for s^r, and so for T

The option `weights` selects one of the paper's two inter-weighted layers, IWAN-att or IWAN-skip. S and T share all
parameters. The biases b₁ and b₃ are ours. W₁ [s_i ; t_avg] is a sum of two parts that each depend on one text only, so
`encode` computes both.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ap_ranker.models.base import CLASSIFIER, Classifier, States, hidden_layer
from ap_ranker.models.layers import BiLSTM
from ap_ranker.models.operations import align, in_float32, masked_softmax, mean_pool
from ap_ranker.models.spec import Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import TokenBatch


class IWAN(Classifier):
    """Sums up, word by word, how well each text is aligned with the other."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.encoder = BiLSTM(inputs.embedding_size, options.hidden)
        size = self.encoder.state_size
        hidden = options.hidden
        self.W_own = nn.Linear(size, hidden)  # the half of W₁ for the word
        self.W_other = nn.Linear(size, hidden, bias=False)  # the half of W₁ for the other text
        self.w_inter = nn.Linear(hidden, 1, bias=False)
        self.W_self = nn.Linear(size, hidden)
        self.w_self = nn.Linear(hidden, 1, bias=False)
        self.head = hidden_layer((4 if options.alignment == "direct" else 6) * size, hidden, options.classes)

    def encode(self, batch: TokenBatch) -> States:
        """The words' states and their products with W₁; v, and the mean state's product with W₁ for the other text."""
        states = self.encoder(self.embedding(batch), batch.mask)
        important = states - skipped(states) if self.options.weights == "skip" else states
        self_attention = self.w_self(torch.tanh(self.W_self(states)))
        v = weighted_sum(masked_softmax(self_attention.squeeze(2), batch.mask), states)
        average = self.W_other(mean_pool(states, batch.mask))
        own = self.W_own(important) * batch.mask.unsqueeze(2)
        return States(batch.mask, {"states": states, "own": own}, {"v": v, "average": average})

    def features(self, questions: States, answers: States) -> Tensor:
        M = questions.per_token["states"] @ answers.per_token["states"].mT
        aligned = [*self.summarise(M, questions, answers), *self.summarise(M.mT, answers, questions)]
        v_s = questions.per_text["v"]
        v_t = answers.per_text["v"]
        return torch.cat([*aligned, v_s * v_t, (v_s - v_t).abs()], dim=1)

    def inter_weights(self, own: States, other: States) -> Tensor:
        """(P, own tokens): w of one text's words."""
        scores = self.w_inter(torch.tanh(own.per_token["own"] + other.per_text["average"].unsqueeze(1)))
        return masked_softmax(scores.squeeze(2), own.mask)

    def pair_attention_weights(self, questions: States, answers: States) -> tuple[Tensor, Tensor]:
        """The inter-weights w. The additional self-attention weights of v are not included."""
        return self.inter_weights(questions, answers), self.inter_weights(answers, questions)

    def summarise(self, scores: Tensor, own: States, other: States) -> list[Tensor]:
        """The weighted sums, (P, C) each, of one text's alignment features; `scores` are (P, own, other tokens)."""
        states = own.per_token["states"]
        counterparts = align(scores, other.per_token["states"], other.mask)
        weights = self.inter_weights(own, other)
        if self.options.alignment == "direct":
            return [weighted_sum(weights, (states - counterparts).abs())]
        # |ŝ|² is zero if all aligned states are zero: then there is no parallel part.
        squares = in_float32(counterparts).square().sum(dim=2, keepdim=True).clamp(min=1e-12)
        parallel = (states * counterparts).sum(dim=2, keepdim=True) / squares * counterparts
        return [weighted_sum(weights, part) for part in (parallel, states - parallel)]


def skipped(states: Tensor) -> Tensor:
    """(N, T, C) -> (N, T, C): s^skip, the biLSTM's states just before and just after each word."""
    forward, backward = states.chunk(2, dim=2)
    before = nn.functional.pad(forward[:, :-1], (0, 0, 1, 0))
    after = nn.functional.pad(backward[:, 1:], (0, 0, 0, 1))
    return torch.cat([before, after], dim=2)


def weighted_sum(weights: Tensor, states: Tensor) -> Tensor:
    """(P, T), (P, T, C) -> (P, C)."""
    return (weights.unsqueeze(2) * states).sum(dim=1)


# Sizes and recipe: ours.
SPEC = ModelSpec(
    name="iwan",
    paper="Shen, Yang & Deng, Inter-Weighted Alignment Network for Sentence Pair Modeling",
    year=2017,
    cached="token states",
    build=IWAN,
    attention_over="both",
    options={
        "hidden": Option(150, "units of the LSTM in each direction, of the attention layers and of the last one"),
        "alignment": Option(
            "orthogonal", "how a word differs from its counterpart in the other text", ("direct", "orthogonal")
        ),
        "weights": Option("attention", "what determines a word's weight: IWAN-att or IWAN-skip", ("attention", "skip")),
        **CLASSIFIER,
    },
    recipe=Recipe("pointwise", "adam", 1e-3, batch_size=32),
    objective="listwise",
)
