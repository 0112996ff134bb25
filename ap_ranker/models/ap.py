"""Attentive pooling, AP-CNN and AP-biLSTM: the pair decides which tokens count (dos Santos et al. 2016, section 3).

    Q, A = encoder(E_q), encoder(E_a)                  (M, C), (L, C)
    G = tanh(Q U A^T)                                  (M, L)   soft alignment
    g_q = max over answer tokens of G,  g_a = max over question tokens of G
    σ = softmax(g)                                     over the text's own tokens
    r_q = σ_q^T Q,  r_a = σ_a^T A                      (C,)
    s(q, a) = cos(r_q, r_a)

tanh is monotonic, so max(tanh(G)) = tanh(max(G)): it is taken of M + L numbers instead of M x L.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ap_ranker.models.base import CosineModel, States
from ap_ranker.models.encoders import BiLSTM, Convolution, WordEmbedding
from ap_ranker.models.pooling import masked_softmax
from ap_ranker.models.similarity import unit
from ap_ranker.models.spec import DROPOUT, Inputs, ModelSpec, Option, Recipe
from ap_ranker.text.batch import TokenBatch


@dataclass(frozen=True)
class Attention:
    """How much each token counts for each pair; the weights of a text sum to 1.

    Attributes:
        questions: (B, N, M) weights of the question's tokens.
        answers: (B, N, L) weights of the answer's tokens.
    """

    questions: Tensor
    answers: Tensor


class AttentivePooling(CosineModel):
    """The cosine of two texts, each pooled with attention from the other; token states are encoded beforehand."""

    embedding: WordEmbedding

    def __init__(self, embedding: WordEmbedding, encoder: Convolution | BiLSTM) -> None:
        super().__init__()
        self.embedding = embedding
        self.encoder = encoder
        # A small identity: training starts from the plain dot product of token states, in the range where tanh is not
        # saturated. A random U of the usual size starts with every g near 1, which is no attention at all.
        self.U = nn.Parameter(0.1 * torch.eye(encoder.state_size))

    def encode(self, batch: TokenBatch) -> States:
        return States(tokens=self.encoder(self.embedding(batch), batch.mask), mask=batch.mask)

    def attention(self, questions: States, answers: States) -> Attention:
        """The attention vectors σ_q and σ_a of every pair."""
        (Q, question_mask), (A, answer_mask) = _tokens(questions), _tokens(answers)  # noqa: N806 - the paper's names
        (B, M, C), (N, L, _) = Q.shape, A.shape  # noqa: N806
        # One matrix product for all pairs: (B·M, C) x (C, N·L).
        G = ((Q @ self.U).view(B * M, C) @ A.reshape(N * L, C).T).view(B, M, N, L)  # noqa: N806
        real = question_mask.view(B, M, 1, 1) & answer_mask.view(1, 1, N, L)
        G = G.masked_fill(~real, float("-inf"))  # noqa: N806
        g_q = torch.tanh(G.amax(dim=3)).transpose(1, 2)  # (B, N, M)
        g_a = torch.tanh(G.amax(dim=1))  # (B, N, L)
        return Attention(masked_softmax(g_q, question_mask.unsqueeze(1)), masked_softmax(g_a, answer_mask))

    def match(self, questions: States, answers: States) -> Tensor:
        (Q, _), (A, _) = _tokens(questions), _tokens(answers)  # noqa: N806
        attention = self.attention(questions, answers)
        r_q = attention.questions @ Q  # (B, N, C)
        r_a = (attention.answers.transpose(0, 1) @ A).transpose(0, 1)  # (B, N, C)
        return (unit(r_q) * unit(r_a)).sum(dim=2)


def _tokens(states: States) -> tuple[Tensor, Tensor]:
    assert states.tokens is not None and states.mask is not None
    return states.tokens, states.mask


def ap_cnn(inputs: Inputs, *, filters: int, window: int, dropout: float) -> AttentivePooling:
    """AP-CNN."""
    embedding = WordEmbedding(inputs, dropout)
    return AttentivePooling(embedding, Convolution(inputs.embedding_size, filters, window))


def ap_bilstm(inputs: Inputs, *, hidden: int, dropout: float) -> AttentivePooling:
    """AP-biLSTM."""
    embedding = WordEmbedding(inputs, dropout)
    return AttentivePooling(embedding, BiLSTM(inputs.embedding_size, hidden))


_PAPER = "dos Santos, Tan, Xiang & Zhou, Attentive Pooling Networks"

# Sizes and recipes: the paper's table of hyper-parameters for InsuranceQA.
SPECS = [
    ModelSpec(
        name="ap-cnn",
        paper=_PAPER,
        year=2016,
        family="attentive-pooling",
        cached="token states",
        build=ap_cnn,
        options={
            "filters": Option(400, "convolution filters, so also the size of a token's state"),
            "window": Option(3, "words that a filter sees at once"),
            "dropout": DROPOUT,
        },
        recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.5),
    ),
    ModelSpec(
        name="ap-bilstm",
        paper=_PAPER,
        year=2016,
        family="attentive-pooling",
        cached="token states",
        build=ap_bilstm,
        options={"hidden": Option(141, "units of the LSTM in each direction"), "dropout": DROPOUT},
        recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.2),
    ),
]
