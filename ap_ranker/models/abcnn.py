"""ABCNN: a siamese convolution with attention before it, after it, or both (Yin et al. 2015; SwissAlps 2017).

Sections and symbols: SwissAlps at SemEval-2017. S is a text's word vectors, T tokens; h window, m filters.

    C = relu(conv(S)) + wide: h - 1 zero vectors at both ends    (T + h - 1, m)   "Convolution Layer", "Zero Padding"
    c = max over positions of C                                  (m,)             "Pooling Layer"
    x_h = relu(W [c_q ; c_a] + b);  P = softmax over classes                      "Hidden Layer", "Softmax", eq. 2

scnn is this. The attention matrix is A_ij = 1 / (1 + |S_qi - S_aj|)   (M, L), a row per question token.

    abcnn-1   F_q = A W_q, F_a = A^T W_a, stacked on S_q and S_a as a second input channel ("Convolution Modification")
    abcnn-2   C^w_i = sum of C_i ... C_{i+h-1}, one per token; times the token's attention a_q = row sums of A,
              a_a = column sums; then max-pooling ("Attention Based Pooling")
    abcnn-3   both

`attention_from: convolution` is Yin's pooling: A compares the states of C_q and C_a instead of the words,
and weights them before they are summed: C^w_i = sum of a_k C_k for k = i ... i + h - 1.

A convolution is linear: that of two channels is the sum of one over S, computed once per text, and one over F.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from ap_ranker.models.base import CLASSIFIER, Classifier, States, hidden_layer
from ap_ranker.models.layers import Convolution
from ap_ranker.models.operations import max_pool
from ap_ranker.models.spec import WINDOW, Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import TokenBatch


class WideConvolution(Convolution):
    """One state per window that touches the text: T + h - 1; state i sees the tokens i - h + 1 ... i."""

    def positions(self, mask: Tensor) -> Tensor:
        """(N, T) real tokens -> (N, T + h - 1) real positions. Its last T columns are the tokens' mask again."""
        return nn.functional.pad(mask, (self.window - 1, 0), value=True)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(N, T, D), (N, T) -> (N, T + h - 1, m), zero on padding."""
        # The centred windows of the text with h - 1 empty tokens at both ends.
        return super().forward(nn.functional.pad(states, (0, 0, self.right, self.left)), self.positions(mask))


class SCNN(Classifier):
    """The siamese base: a text's vector is the maximum of each filter over its positions."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.convolution = WideConvolution(inputs.embedding_size, options.filters, options.window)
        self.head = hidden_layer(2 * options.filters, 2 * options.filters, options.classes)

    def encode(self, batch: TokenBatch) -> States:
        convolved = self.convolution(self.embedding(batch), batch.mask)
        vector = torch.relu(max_pool(convolved, self.convolution.positions(batch.mask)))
        return States(batch.mask, per_text={"vector": vector})

    def features(self, questions: States, answers: States) -> Tensor:
        return torch.cat([questions.per_text["vector"], answers.per_text["vector"]], dim=1)


class AttentionChannel(nn.Module):
    """The convolution of the second input channel F = A W, to be added to that of the word vectors."""

    def __init__(self, inputs: Inputs, filters: int, window: int) -> None:
        super().__init__()
        size = (inputs.max_tokens, inputs.embedding_size)
        self.W_q = nn.Parameter(nn.init.xavier_uniform_(torch.empty(size)))
        self.W_a = nn.Parameter(nn.init.xavier_uniform_(torch.empty(size)))
        self.convolution = WideConvolution(inputs.embedding_size, filters, window)
        self.convolution.linear.register_parameter("bias", None)  # the first channel's is enough

    def forward(self, A: Tensor, W: Tensor, mask: Tensor) -> Tensor:
        """(P, T, other T), W_q or W_a, (P, T) -> (P, T + h - 1, m)."""
        return self.convolution(A[:, :, : len(W)] @ W[: A.shape[2]], mask)


class ABCNN(SCNN):
    """Attention as a second channel of the convolution (`channel`), in the pooling (`weighs`), or both."""

    def __init__(self, inputs: Inputs, options: Options, *, channel: bool, weighs: bool) -> None:
        super().__init__(inputs, options)
        self.channel = AttentionChannel(inputs, options.filters, options.window) if channel else None
        self.pooling = options.attention_from if weighs else ""  # "" for plain max-pooling
        self.extra = options.window - 1
        self.compares_words = channel or self.pooling == "embeddings"

    def encode(self, batch: TokenBatch) -> States:
        """Word vectors, and their convolution; h - 1 empty tokens at the end make both equally long."""
        embedded = self.embedding(batch)
        states = {"convolved": self.convolution(embedded, batch.mask)}
        if self.compares_words:
            states["words"] = nn.functional.pad(embedded, (0, 0, 0, self.extra))
        return States(self.convolution.positions(batch.mask), states)

    def pair_attention_weights(self, questions: States, answers: States) -> tuple[Tensor | None, Tensor | None]:
        """The attention a_q and a_a of the pooling, normalised to sum to 1; `None` for max-pooling."""
        if not self.pooling:
            return None, None
        extra = self.extra
        sides = []
        for _, attention, wide in self._attended(questions, answers):
            # By convolution, a_k is the weight of a window of h tokens; h windows contain a token.
            by_windows = self.pooling == "convolution"
            weights = window_sums(attention.unsqueeze(2), extra).squeeze(2) if by_windows else attention
            weights = weights * wide[:, extra:]
            sides.append(weights / weights.sum(dim=1, keepdim=True))
        return sides[0], sides[1]

    def features(self, questions: States, answers: States) -> Tensor:
        return torch.cat([self._pool(*side) for side in self._attended(questions, answers)], dim=1)

    def _attended(self, questions: States, answers: States) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Of both sides, C, the attention of the pooling, and the mask."""
        C_q = questions.per_token["convolved"]
        C_a = answers.per_token["convolved"]
        mask_q = questions.mask[:, self.extra :]
        mask_a = answers.mask[:, self.extra :]
        if self.compares_words:
            S_q = questions.per_token["words"]
            S_a = answers.per_token["words"]
            A = similarity(S_q[:, : mask_q.shape[1]], S_a[:, : mask_a.shape[1]], mask_q, mask_a)
        if self.channel is not None:
            C_q = C_q + self.channel(A, self.channel.W_q, mask_q)
            C_a = C_a + self.channel(A.mT, self.channel.W_a, mask_a)
        C_q = torch.relu(C_q)
        C_a = torch.relu(C_a)
        if self.pooling == "convolution":
            A = similarity(C_q, C_a, questions.mask, answers.mask)
        return [(C_q, A.sum(dim=2), questions.mask), (C_a, A.sum(dim=1), answers.mask)]

    def _pool(self, C: Tensor, attention: Tensor, wide: Tensor) -> Tensor:
        """(P, T + h - 1, m), (P, T), or (P, T + h - 1) with the attention of `convolution`, -> (P, m)."""
        extra = self.extra
        weights = attention.unsqueeze(2)
        if not self.pooling:
            return max_pool(C, wide)
        if self.pooling == "convolution":
            return max_pool(window_sums(weights * C, extra), wide[:, extra:])
        return max_pool(weights * window_sums(C, extra), wide[:, extra:])


def similarity(first: Tensor, second: Tensor, first_mask: Tensor, second_mask: Tensor) -> Tensor:
    """A_ij = 1 / (1 + |x_i - y_j|), zero on padding: (P, M, D), (P, L, D) -> (P, M, L)."""
    # The faster |x|² - 2xy + |y|² has rounding errors: a word's distance from itself would not be 0.
    distance = torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")
    return (first_mask.unsqueeze(2) & second_mask.unsqueeze(1)) / (1 + distance)


def window_sums(states: Tensor, extra: int) -> Tensor:
    """Sums of extra + 1 neighbours: (P, T + extra, C) -> (P, T, C)."""
    length = states.shape[1] - extra
    return torch.stack([states[:, k : k + length] for k in range(extra + 1)]).sum(dim=0)


_SIZES = {
    "filters": Option(50, "convolution filters, so also the size of a text's vector (Yin's; SwissAlps names none)"),
    "window": replace(WINDOW, default=4, meaning="words that a filter sees at once (Yin's; SwissAlps names none)"),
}
_POOLING = {
    "attention_from": Option(
        "embeddings",
        "what the attention of the pooling compares: word vectors (SwissAlps) or convolved ones (Yin)",
        ("embeddings", "convolution"),
    )
}

_SWISSALPS = "Deriu & Cieliebak, SwissAlps at SemEval-2017 Task 3: Attention-based CNN for Community Question Answering"
_YIN = "Yin, Schütze, Xiang & Zhou, ABCNN: Attention-Based Convolutional Neural Network for Modeling Sentence Pairs"

# AdaDelta with L2 regularisation is SwissAlps'; its strength is Yin's for answer selection.
SPEC = ModelSpec(
    name="scnn",
    paper=_SWISSALPS,
    year=2017,
    family="abcnn",
    cached="one vector",
    build=SCNN,
    options=_SIZES | CLASSIFIER,
    recipe=Recipe("pointwise", "adadelta", 1.0, weight_decay=4e-4, embedding_size=200),
    objective="listwise",
)
ABCNN_1 = replace(SPEC, name="abcnn-1", cached="convolved words", build=partial(ABCNN, channel=True, weighs=False))
ABCNN_2 = replace(
    ABCNN_1,
    name="abcnn-2",
    build=partial(ABCNN, channel=False, weighs=True),
    attention_over="both",
    options=_SIZES | _POOLING | CLASSIFIER,
)
ABCNN_3 = replace(ABCNN_2, name="abcnn-3", paper=_YIN, year=2015, build=partial(ABCNN, channel=True, weighs=True))
