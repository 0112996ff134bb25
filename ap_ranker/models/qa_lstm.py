"""QA-LSTM, QA-LSTM/CNN and attention LSTM (Tan et al. 2015, section 3).

    H = biLSTM(E)                                      (T, C)   states h(t) of a text
    QA-LSTM, 3.1:
    f = the mean or the maximum over H, or both directions' last states
    QA-LSTM/CNN, 3.2:
    f = max over t of tanh(F [h(t) ; ... ; h(t+k-1)] + b)       k is the window
    s(q, a) = cos(f(q), f(a))
    QA-LSTM with attention, 3.3:
    m(t) = tanh(W_a h_a(t) + W_q f(q))
    α = softmax over t of w^T m(t)
    s(q, a) = cos(f(q), f(α(1) h_a(1), α(2) h_a(2), ...))

With attention and `cnn`, f is that of 3.2, also for the weighted answer; in Tan et al. (3.4) the attention itself uses
the question's mean instead of f(q).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ap_ranker.models.base import PairModel, States
from ap_ranker.models.encoders import BiLSTM, Convolution, WordEmbedding
from ap_ranker.models.pooling import ends_pool, masked_softmax, max_pool, mean_pool
from ap_ranker.models.siamese import SIMILARITY, Siamese
from ap_ranker.models.similarity import gesd, unit
from ap_ranker.models.spec import DROPOUT, WINDOW, Inputs, ModelSpec, Option, Recipe
from ap_ranker.text.batch import TokenBatch

Pooling = Callable[[Tensor, Tensor], Tensor]
"""f: (N, T, C) states and (N, T) mask -> (N, ·)."""

POOLINGS: dict[str, Pooling] = {"last": ends_pool, "mean": mean_pool, "max": max_pool}
"""f of QA-LSTM."""


class ConvolvedPooling(nn.Module):
    """f of QA-LSTM/CNN."""

    def __init__(self, state_size: int, filters: int, window: int) -> None:
        super().__init__()
        self.convolution = Convolution(state_size, filters, window)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(N, T, C) -> (N, filters)."""
        return torch.tanh(max_pool(self.convolution(states, mask), mask))  # tanh is monotonic, so it may come last


class QALSTM(Siamese):
    """A text's vector is f of its biLSTM states."""

    embedding: WordEmbedding

    def __init__(self, embedding: WordEmbedding, lstm: BiLSTM, f: Pooling, similarity: str) -> None:
        super().__init__(similarity)
        self.embedding = embedding
        self.lstm = lstm
        self.f = f

    def represent(self, batch: TokenBatch) -> Tensor:
        return self.f(self.lstm(self.embedding(batch), batch.mask), batch.mask)


class AttentionLSTM(PairModel):
    """The question's vector weights each state of the answer before f pools them."""

    embedding: WordEmbedding
    temperature = Siamese.temperature

    def __init__(
        self,
        inputs: Inputs,
        *,
        hidden: int,
        pooling: str,
        cnn: bool,
        filters: int,
        window: int,
        similarity: str,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embedding = WordEmbedding(inputs, dropout)
        self.lstm = BiLSTM(inputs.embedding_size, hidden)
        size = self.lstm.state_size  # of the attention layer as well: the paper does not specify it
        self.f: Pooling = ConvolvedPooling(size, filters, window) if cnn else POOLINGS[pooling]
        self.similarity = similarity
        self.W_a = nn.Linear(size, size, bias=False)
        self.W_q = nn.Linear(filters if cnn else size, size, bias=False)
        self.w = nn.Linear(size, 1, bias=False)

    def encode(self, batch: TokenBatch) -> States:
        """Answers: h_a and W_a h_a."""
        H = self.lstm(self.embedding(batch), batch.mask)  # noqa: N806 - the paper's name
        return States(batch.mask, {"states": H, "projected": self.W_a(H)})

    def encode_questions(self, batch: TokenBatch) -> States:
        """Questions: f(q)."""
        f_q = self.f(self.lstm(self.embedding(batch), batch.mask), batch.mask)
        return States(batch.mask, per_text={"vector": f_q})

    def pair_attention_weights(self, questions: States, answers: States) -> tuple[None, Tensor]:
        """α."""
        m = torch.tanh(
            answers.per_token["projected"] + self.W_q(questions.per_text["vector"]).unsqueeze(1)
        )  # (P, L, C)
        return None, masked_softmax(self.w(m).squeeze(2), answers.mask)

    def compare(self, questions: States, answers: States) -> Tensor:
        f_q, H = questions.per_text["vector"], answers.per_token["states"]  # noqa: N806
        _, alpha = self.pair_attention_weights(questions, answers)
        f_a = self.f(alpha.unsqueeze(2) * H, answers.mask)
        if self.similarity == "gesd":
            return gesd(f_q.unsqueeze(1), f_a.unsqueeze(1)).flatten()
        return (unit(f_q) * unit(f_a)).sum(dim=1)

    def scale(self, scores: Tensor) -> Tensor:
        return scores if self.similarity == "gesd" else (1 + scores) / 2


def qa_lstm(inputs: Inputs, *, hidden: int, pooling: str, similarity: str, dropout: float) -> QALSTM:
    """QA-LSTM."""
    embedding = WordEmbedding(inputs, dropout)
    return QALSTM(embedding, BiLSTM(inputs.embedding_size, hidden), POOLINGS[pooling], similarity)


def qa_lstm_cnn(inputs: Inputs, *, hidden: int, filters: int, window: int, similarity: str, dropout: float) -> QALSTM:
    """QA-LSTM/CNN."""
    embedding = WordEmbedding(inputs, dropout)
    lstm = BiLSTM(inputs.embedding_size, hidden)
    return QALSTM(embedding, lstm, ConvolvedPooling(lstm.state_size, filters, window), similarity)


_PAPER = "Tan, dos Santos, Xiang & Zhou, LSTM-based Deep Learning Models for Non-factoid Answer Selection"
_HIDDEN = Option(141, "units of the LSTM in each direction")
_FILTERS = Option(1000, "filters over the LSTM's states; the paper uses up to 4000, which is slow on a CPU")
_WINDOW = Option(2, "states that a filter sees at once", bounds=WINDOW)
_RECIPE = Recipe("hinge", "sgd", 1.1, batch_size=20, margin=0.2)

# Sizes and recipe: the paper's section 4 for InsuranceQA; its best pooling is the maximum.
SPECS = [
    ModelSpec(
        name="qa-lstm",
        paper=_PAPER,
        year=2015,
        family="global-local",
        cached="one vector",
        build=qa_lstm,
        options={
            "hidden": _HIDDEN,
            "pooling": Option("max", "how a text's states become its vector", tuple(POOLINGS)),
            "similarity": SIMILARITY,
            "dropout": DROPOUT,
        },
        recipe=_RECIPE,
    ),
    ModelSpec(
        name="qa-lstm-cnn",
        paper=_PAPER,
        year=2015,
        family="global-local",
        cached="one vector",
        build=qa_lstm_cnn,
        options={
            "hidden": _HIDDEN,
            "filters": _FILTERS,
            "window": _WINDOW,
            "similarity": SIMILARITY,
            "dropout": DROPOUT,
        },
        recipe=_RECIPE,
    ),
    ModelSpec(
        name="attention-lstm",
        paper=_PAPER,
        year=2015,
        family="global-local",
        cached="token states",
        build=AttentionLSTM,
        attention_over="answer",
        options={
            "hidden": _HIDDEN,
            "pooling": Option("max", "how the states become one vector, without `cnn`", ("mean", "max")),
            "cnn": Option(False, "a convolution over the states replaces `pooling`"),
            "filters": _FILTERS,
            "window": _WINDOW,
            "similarity": SIMILARITY,
            "dropout": DROPOUT,
        },
        recipe=_RECIPE,
        objective="listwise",
    ),
]
