"""Attentive pooling: each text's token weights depend on the other text (dos Santos et al. 2016, section 3).

    Q, A = encoder(q), encoder(a)                      (M, C), (L, C)
    G = tanh(Q U A^T)                                  (M, L)   soft alignment
    g_q = max over answer tokens of G,  g_a = max over question tokens of G
    σ = softmax(g)                                     over the text's own tokens
    r_q = σ_q^T Q,  r_a = σ_a^T A                      (C,)
    s(q, a) = cos(r_q, r_a)

tanh is monotonic, so max(tanh(G)) = tanh(max(G)): M + L values of tanh are computed instead of M x L.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ap_ranker.models.base import Attention, CosineModel, States
from ap_ranker.models.pooling import masked_softmax, row_and_column_max
from ap_ranker.models.spec import Bounds, Option
from ap_ranker.text.batch import TokenBatch

SHARPNESS = Option(
    1.0,
    "multiplies the attention scores, which tanh keeps in -1..1, before their softmax",
    bounds=Bounds(above=0, most=1_000),
)


class AttentivePooling(CosineModel):
    """The cosine of two texts, each pooled with attention from the other."""

    encoder: nn.Module

    def __init__(self, state_size: int, sharpness: float) -> None:
        super().__init__()
        self.sharpness = sharpness
        # A small identity: training starts from the dot product of token states, in the range where tanh is not
        # saturated. With a random U of the usual size every g is near 1 at first, so the attention is uniform.
        self.U = nn.Parameter(0.1 * torch.eye(state_size))

    @torch.no_grad()
    def begin_evenly(self) -> None:
        """Begin with hardly any attention.

        Attention to the words that two texts share, which U begins with, makes all answers alike that have these words:
        untrained, good word vectors rank better without it.
        """
        self.U.mul_(0.01)

    def encode_questions(self, batch: TokenBatch) -> States:
        encoded = self.encode(batch)
        states = encoded.per_token["states"]
        return States(encoded.mask, {"states": states, "probes": self.probes(states @ self.U)})

    def probes(self, rows: Tensor) -> Tensor:
        """Convert rows of Q U for `project`, once per question: (B, M, C) -> (B, M, ·)."""
        return rows

    def read(self, answers: States) -> Any:
        """The input of `project` and `pool`: the (N, L, C) states."""
        return answers.per_token["states"]

    def project(self, answers: Any, probes: Tensor) -> Tensor:
        """(R, ·) -> (R, N, L): the products of R rows of Q U and the answers' states."""
        states = answers.flatten(0, 1)
        # A CPU reads tall matrices row by row faster than it multiplies with their transpose.
        products = probes @ states.T if len(probes) >= states.shape[1] else (states @ probes.T).T.contiguous()
        return products.unflatten(1, answers.shape[:2])

    def pool(self, answers: Any, weights: Tensor) -> Tensor:
        """(N, B, L) -> (N, B, C): the sums of each answer's states."""
        pooled: Tensor = weights @ answers
        return pooled

    def attention_weights(self, questions: TokenBatch, answers: TokenBatch) -> Attention:
        """σ_q and σ_a."""
        states = self.encode_answers(answers)
        sigma_q, sigma_a = self._attention(self.encode_questions(questions), states, self.read(states))
        return Attention(sigma_q.transpose(1, 2), sigma_a)

    def match(self, questions: States, answers: States) -> Tensor:
        Q, read = questions.per_token["states"], self.read(answers)  # noqa: N806
        sigma_q, sigma_a = self._attention(questions, answers, read)
        r_a = self.pool(read, sigma_a.transpose(0, 1)).transpose(0, 1)  # (B, N, C)
        # r_q itself is not computed: its product with r_a and its length need M numbers per pair instead of C.
        weights = sigma_q.transpose(1, 2)  # (B, N, M)
        dot = (weights * (r_a @ Q.mT)).sum(dim=2)
        squared = (weights * (weights @ (Q @ Q.mT))).sum(dim=2)
        squared = squared.clamp(min=1e-24)  # a root has no slope at 0, which a question of unknown words may have
        return dot / (squared.sqrt() * torch.linalg.vector_norm(r_a, dim=2)).clamp(min=1e-12)

    def _attention(self, questions: States, answers: States, read: Any) -> tuple[Tensor, Tensor]:
        """Weights of the question's (B, M, N) and the answer's (B, N, L) tokens."""
        probes, question_mask, answer_mask = questions.per_token["probes"], questions.mask, answers.mask
        # One matrix product for all pairs, (B·M, C) x (C, N·L); the longest dimension is last.
        G = self.project(read, probes.flatten(0, 1)).unflatten(0, probes.shape[:2])  # (B, M, N, L)  # noqa: N806
        # Padding is masked in place without autograd: it is never the largest, so it gets no gradient anyway.
        values = G.detach()
        values.masked_fill_(~answer_mask, float("-inf"))
        if not question_mask.all():
            values[~question_mask] = float("-inf")
        g_q, g_a = row_and_column_max(G, 3, 1)
        sigma_q = masked_softmax(self.sharpness * torch.tanh(g_q), question_mask.unsqueeze(2), dim=1)
        return sigma_q, masked_softmax(self.sharpness * torch.tanh(g_a), answer_mask, dim=2)
