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

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ap_ranker.models.base import CosineModel, States
from ap_ranker.models.encoders import BiLSTM, Convolution, WordEmbedding
from ap_ranker.models.pooling import greatest, masked_softmax
from ap_ranker.models.spec import DROPOUT, Inputs, ModelSpec, Option, Recipe
from ap_ranker.text.batch import PAD, TokenBatch


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
    """The cosine of two texts, each pooled with attention from the other; answers are encoded beforehand."""

    encoder: nn.Module

    def __init__(self, state_size: int, sharpness: float) -> None:
        super().__init__()
        self.sharpness = sharpness
        # A small identity: training starts from the plain dot product of token states, in the range where tanh is not
        # saturated. A random U of the usual size starts with every g near 1, which is no attention at all.
        self.U = nn.Parameter(0.1 * torch.eye(state_size))

    def encode_questions(self, batch: TokenBatch) -> States:
        states = self.encode(batch)
        assert states.tokens is not None
        return replace(states, features=self.probes(states.tokens @ self.U))

    def probes(self, rows: Tensor) -> Tensor:
        """(B, M, C) rows of Q U -> (B, M, ·) what `project` needs of them; computed once per question."""
        return rows

    def read(self, answers: States) -> Tensor:
        """(N, L, ·) what `project` and `pool` work on."""
        assert answers.tokens is not None
        return answers.tokens

    def project(self, answers: Tensor, probes: Tensor) -> Tensor:
        """(R, ·) -> (N, L, R): the products of the answers' states and R rows of Q U."""
        return answers @ probes.T

    def pool(self, answers: Tensor, weights: Tensor) -> Tensor:
        """(N, B, L) -> (N, B, C): the sums of each answer's states."""
        return weights @ answers

    def attention(self, questions: States, answers: States) -> Attention:
        """The attention vectors of every pair."""
        sigma_q, sigma_a = self._attention(questions, answers, self.read(answers))
        return Attention(sigma_q.permute(2, 0, 1), sigma_a.permute(2, 0, 1))

    def match(self, questions: States, answers: States) -> Tensor:
        Q, read = questions.tokens, self.read(answers)  # noqa: N806
        assert Q is not None
        sigma_q, sigma_a = self._attention(questions, answers, read)
        r_a = self.pool(read, sigma_a.transpose(1, 2)).transpose(0, 1)  # (B, N, C)
        # r_q would have as many numbers as r_a; its product with r_a and its length need M instead of C.
        weights = sigma_q.permute(2, 0, 1)  # (B, N, M)
        dot = (weights * (r_a @ Q.mT)).sum(dim=2)
        squared = (weights * (weights @ (Q @ Q.mT))).sum(dim=2)
        return dot / (squared.sqrt() * torch.linalg.vector_norm(r_a, dim=2)).clamp(min=1e-12)

    def _attention(self, questions: States, answers: States, read: Tensor) -> tuple[Tensor, Tensor]:
        """The weights of the question's (N, M, B) and the answer's (N, L, B) tokens."""
        probes, question_mask, answer_mask = questions.features, questions.mask, answers.mask
        assert probes is not None and question_mask is not None and answer_mask is not None
        B, M, _ = probes.shape  # noqa: N806
        # One matrix product for all pairs, (N·L, C) x (C, M·B); B last, because it is longer than M in training.
        G = self.project(read, probes.transpose(0, 1).flatten(0, 1)).unflatten(2, (M, B))  # (N, L, M, B)  # noqa: N806
        # Padding is hidden in place, behind autograd: it gets no gradient anyway, since it is never the greatest.
        hidden = G.detach()
        hidden[~answer_mask] = float("-inf")
        if not question_mask.all():
            hidden.masked_fill_(~question_mask.T, float("-inf"))
        g_q, g_a = greatest(G, 1, 2)
        sigma_q = masked_softmax(self.sharpness * torch.tanh(g_q), question_mask.T, dim=1)
        return sigma_q, masked_softmax(self.sharpness * torch.tanh(g_a), answer_mask.unsqueeze(2), dim=1)


class AttentivePoolingWords(AttentivePooling):
    """Attentive pooling whose token states come from word vectors."""

    embedding: WordEmbedding

    def __init__(self, embedding: WordEmbedding, encoder: Convolution | BiLSTM, sharpness: float) -> None:
        super().__init__(encoder.state_size, sharpness)
        self.embedding = embedding
        self.encoder = encoder

    def encode(self, batch: TokenBatch) -> States:
        return States(tokens=self.encoder(self.embedding(batch), batch.mask), mask=batch.mask)


class AttentivePoolingCNN(AttentivePoolingWords):
    """The same scores without the answers' states: Q U A^T = (Q U W) Z^T + Q U b, and likewise for r_a.

    The convolution A = Z W^T + b is linear, so the question's rows become its filters. An answer is its token ids, some
    hundred bytes instead of as many thousand, and a question reads D numbers per token instead of C.
    """

    encoder: Convolution

    def encode_answers(self, batch: TokenBatch) -> States:
        return States(ids=self.embedding.heard(batch), mask=batch.mask)

    def read(self, answers: States) -> Tensor:
        assert answers.ids is not None
        framed = nn.functional.pad(answers.ids, (self.encoder.left, self.encoder.right), value=PAD)
        words: Tensor = self.embedding.vectors(framed)
        return words

    def probes(self, rows: Tensor) -> Tensor:
        return self.encoder.filters(rows)

    def project(self, answers: Tensor, probes: Tensor) -> Tensor:
        return self.encoder.project(answers, probes)

    def pool(self, answers: Tensor, weights: Tensor) -> Tensor:
        return self.encoder.pool(answers, weights)


def ap_cnn(inputs: Inputs, *, filters: int, window: int, sharpness: float, dropout: float) -> AttentivePooling:
    """AP-CNN."""
    embedding = WordEmbedding(inputs, dropout)
    return AttentivePoolingCNN(embedding, Convolution(inputs.embedding_size, filters, window), sharpness)


def ap_bilstm(inputs: Inputs, *, hidden: int, sharpness: float, dropout: float) -> AttentivePooling:
    """AP-biLSTM."""
    embedding = WordEmbedding(inputs, dropout)
    return AttentivePoolingWords(embedding, BiLSTM(inputs.embedding_size, hidden), sharpness)


SHARPNESS = Option(1.0, "multiplies the attention scores, which tanh keeps in -1..1, before their softmax")

_PAPER = "dos Santos, Tan, Xiang & Zhou, Attentive Pooling Networks"

# Sizes and recipes: the paper's table of hyper-parameters for InsuranceQA.
SPECS = [
    ModelSpec(
        name="ap-cnn",
        paper=_PAPER,
        year=2016,
        family="attentive-pooling",
        cached="token ids",
        build=ap_cnn,
        options={
            "filters": Option(400, "convolution filters, so also the size of a token's state"),
            "window": Option(3, "words that a filter sees at once"),
            "sharpness": SHARPNESS,
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
        options={
            "hidden": Option(141, "units of the LSTM in each direction"),
            "sharpness": SHARPNESS,
            "dropout": DROPOUT,
        },
        recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.2),
    ),
]
