"""Texts encoded on their own into one vector each, and an LSTM with attention.

QA-CNN and QA-biLSTM (dos Santos et al. 2016, section 2)

    Q = encoder(E)            (M, C)   convolution or biLSTM over the word embeddings
    r = tanh(max over tokens) (C,)     eq. 1
    s(q, a) = cos(r_q, r_a)            eq. 2

QA-CNN with `similarity: gesd` is Arch-II + GESD of Feng et al. 2015.

QA-LSTM, QA-LSTM/CNN and attention LSTM (Tan et al. 2015, section 3).

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

LW-biLSTM (Rücklé & Gurevych 2017): a second biLSTM weights a text's tokens without seeing the other text.

    H = biLSTM(E)                      (T, C)
    H' = biLSTM'(H)                    (T, C')   reads the states of the first
    α = softmax over t of w^T h'(t)
    r = Σ α(t) h(t)                    (C,)
    s(q, a) = cos(r_q, r_a)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from ap_ranker.models.base import SIMILARITY, Attention, CosineModel, PairModel, Siamese, States
from ap_ranker.models.layers import BiLSTM, Convolution
from ap_ranker.models.operations import ends_pool, gesd, masked_softmax, max_pool, mean_pool, unit
from ap_ranker.models.spec import DROPOUT, HIDDEN, WINDOW, Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import TokenBatch

Pooling = Callable[[Tensor, Tensor], Tensor]
"""f: (N, T, C) states and (N, T) mask -> (N, ·)."""

POOLINGS: dict[str, Pooling] = {"last": ends_pool, "mean": mean_pool, "max": max_pool}


class MaxPooled(Siamese):
    """A text's vector is the maximum over its tokens of each filter (QA-CNN, `convolves`) or unit (QA-biLSTM)."""

    def __init__(self, inputs: Inputs, options: Options, *, convolves: bool) -> None:
        super().__init__(inputs, options)
        size = inputs.embedding_size
        self.encoder = Convolution(size, options.filters, options.window) if convolves else BiLSTM(size, options.hidden)

    def represent(self, batch: TokenBatch) -> Tensor:
        if isinstance(self.encoder, Convolution) and batch.ids.is_cpu:  # a GPU is slowed by text after text
            ids = self.embedding.apply_word_dropout(batch)
            words = self.embedding.framed(ids, self.encoder.left, self.encoder.right)
            return torch.tanh(self.encoder.maxima(words, batch.mask))
        return torch.tanh(max_pool(self.encoder(self.embedding(batch), batch.mask), batch.mask))


class ConvolvedPooling(nn.Module):
    """f of QA-LSTM/CNN."""

    def __init__(self, state_size: int, filters: int, window: int) -> None:
        super().__init__()
        self.convolution = Convolution(state_size, filters, window)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        return torch.tanh(max_pool(self.convolution(states, mask), mask))  # tanh is monotonic, so it may come last


def pooling_of(options: Options, state_size: int, *, convolves: bool) -> Pooling:
    """f, by the options: that of QA-LSTM/CNN, or a pooling."""
    if convolves:
        return ConvolvedPooling(state_size, options.filters, options.window)
    return POOLINGS[options.pooling]


class QALSTM(Siamese):
    """A text's vector is f of its biLSTM states; if it `convolves`, f is that of QA-LSTM/CNN."""

    def __init__(self, inputs: Inputs, options: Options, *, convolves: bool) -> None:
        super().__init__(inputs, options)
        self.lstm = BiLSTM(inputs.embedding_size, options.hidden)
        self.f = pooling_of(options, self.lstm.state_size, convolves=convolves)

    def represent(self, batch: TokenBatch) -> Tensor:
        return self.f(self.lstm(self.embedding(batch), batch.mask), batch.mask)


class LWBiLSTM(Siamese):
    """A text's vector is the sum of its states, weighted by their importance."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.encoder = BiLSTM(inputs.embedding_size, options.hidden)
        self.importance = BiLSTM(self.encoder.state_size, options.importance)
        self.w = nn.Linear(self.importance.state_size, 1, bias=False)

    def read(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """H (N, T, C) and α (N, T)."""
        H = self.encoder(self.embedding(batch), batch.mask)
        scores = self.w(self.importance(H, batch.mask)).squeeze(2)
        return H, masked_softmax(scores, batch.mask)

    def represent(self, batch: TokenBatch) -> Tensor:
        H, alpha = self.read(batch)
        return (alpha.unsqueeze(1) @ H).squeeze(1)

    def attention_weights(self, questions: TokenBatch, answers: TokenBatch) -> Attention:
        _, alpha_q = self.read(questions)
        _, alpha_a = self.read(answers)
        return Attention(alpha_q.unsqueeze(1).expand(-1, len(alpha_a), -1), alpha_a.expand(len(alpha_q), -1, -1))


class AttentionLSTM(CosineModel, PairModel):
    """The question's vector weights each state of the answer before f pools them."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.lstm = BiLSTM(inputs.embedding_size, options.hidden)
        size = self.lstm.state_size  # of the attention layer as well: the paper does not specify it
        self.f = pooling_of(options, size, convolves=options.cnn)
        self.W_a = nn.Linear(size, size, bias=False)
        self.W_q = nn.Linear(options.filters if options.cnn else size, size, bias=False)
        self.w = nn.Linear(size, 1, bias=False)

    def encode(self, batch: TokenBatch) -> States:
        H = self.lstm(self.embedding(batch), batch.mask)
        return States(batch.mask, {"states": H, "projected": self.W_a(H)})

    def encode_questions(self, batch: TokenBatch) -> States:
        f_q = self.f(self.lstm(self.embedding(batch), batch.mask), batch.mask)
        return States(batch.mask, per_text={"vector": f_q})

    def pair_attention_weights(self, questions: States, answers: States) -> tuple[None, Tensor]:
        of_question = self.W_q(questions.per_text["vector"]).unsqueeze(1)
        m = torch.tanh(answers.per_token["projected"] + of_question)  # (P, L, C)
        return None, masked_softmax(self.w(m).squeeze(2), answers.mask)

    def compare(self, questions: States, answers: States) -> Tensor:
        f_q = questions.per_text["vector"]
        H = answers.per_token["states"]
        _, alpha = self.pair_attention_weights(questions, answers)
        f_a = self.f(alpha.unsqueeze(2) * H, answers.mask)
        if self.by_gesd:
            return gesd(f_q.unsqueeze(1), f_a.unsqueeze(1)).flatten()
        return (unit(f_q) * unit(f_a)).sum(dim=1)


_OTHERS = {"similarity": SIMILARITY, "dropout": DROPOUT}

# Sizes and recipes: the paper's table of hyper-parameters for InsuranceQA.
QA_CNN = ModelSpec(
    name="qa-cnn",
    paper="dos Santos, Tan, Xiang & Zhou, Attentive Pooling Networks",
    year=2016,
    family="attentive-pooling",
    cached="one vector",
    build=partial(MaxPooled, convolves=True),
    options={
        "filters": Option(4000, "convolution filters, so also the size of a text's vector"),
        "window": replace(WINDOW, default=2),
        **_OTHERS,
    },
    recipe=Recipe("hinge", "sgd", 0.05, batch_size=1, margin=0.009, epochs=25, own_negatives=True),
)
QA_BILSTM = replace(
    QA_CNN,
    name="qa-bilstm",
    build=partial(MaxPooled, convolves=False),
    options={"hidden": HIDDEN} | _OTHERS,
    recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.1, epochs=25, own_negatives=True),
)

_POOLING = Option("max", "how a text's states become its vector", tuple(POOLINGS))
_CONVOLUTION = {
    "filters": Option(1000, "filters over the LSTM's states; the paper uses up to 4000, which is slow on a CPU"),
    "window": replace(WINDOW, default=2, meaning="states that a filter sees at once"),
}
# Sizes and recipe: the paper's section 4 for InsuranceQA; its best pooling is the maximum.
QA_LSTM = ModelSpec(
    name="qa-lstm",
    paper="Tan, dos Santos, Xiang & Zhou, LSTM-based Deep Learning Models for Non-factoid Answer Selection",
    year=2015,
    family="global-local",
    cached="one vector",
    build=partial(QALSTM, convolves=False),
    options={"hidden": HIDDEN, "pooling": _POOLING} | _OTHERS,
    recipe=Recipe("hinge", "sgd", 1.1, batch_size=20, margin=0.2, own_negatives=True),
)
QA_LSTM_CNN = replace(
    QA_LSTM,
    name="qa-lstm-cnn",
    build=partial(QALSTM, convolves=True),
    options={"hidden": HIDDEN} | _CONVOLUTION | _OTHERS,
)
ATTENTION_LSTM = replace(
    QA_LSTM,
    name="attention-lstm",
    cached="token states",
    build=AttentionLSTM,
    attention_over="answer",
    options={
        "hidden": HIDDEN,
        "pooling": Option("max", "how the states become one vector, without `cnn`", ("mean", "max")),
        "cnn": Option(False, "a convolution over the states replaces `pooling`"),
        **_CONVOLUTION,
        **_OTHERS,
    },
    objective="listwise",
)

# Sizes and recipe: the authors' configuration for InsuranceQA v2, where questions and answers share all weights.
LW_BILSTM = ModelSpec(
    name="lw-bilstm",
    paper="Rücklé & Gurevych, Representation Learning for Answer Selection with LSTM-Based Importance Weighting",
    year=2017,
    cached="one vector",
    build=LWBiLSTM,
    attention_over="both",
    options={
        "hidden": HIDDEN,
        "importance": Option(141, "units, in each direction, of the LSTM that weights the tokens"),
        **_OTHERS,
    },
    recipe=Recipe("hinge", "adam", 4e-4, batch_size=20, margin=0.2, own_negatives=True),
)
