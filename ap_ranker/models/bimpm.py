"""BiMPM: bilateral multi-perspective matching (Wang, Hamza & Florian 2017).

    p = words (+ letters by an LSTM)                                    word representation layer
    h = biLSTM(p), forward and backward states apart                    context representation layer, eq. 1-2
    m_k = cos(W_k ∘ v1, W_k ∘ v2), k = 1 ... K perspectives             m = f_m(v1, v2; W), eq. 3-4

Each token of one text is matched with the other text, in both directions of the LSTM and both ways (matching layer):

    full             f_m(h_i, the other's last state; W1, W2)           eq. 5
    max-pooling      max over j of f_m(h_i, h_j; W3, W4)                eq. 6
    attentive        f_m(h_i, mean of h_j weighted by α_ij; W5, W6),    α_ij = cos(h_i, h_j), eq. 7-9
    max-attentive    f_m(h_i, the h_j with the largest α_ij; W7, W8)

    aggregation: a second biLSTM over the 8 K matches of each token; its two last states of both texts
    prediction: hidden layer, softmax over classes

There are no attention weights to show: α is a cosine of either sign, one for every two tokens and each direction, and
no token has a weight of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ap_ranker.models.base import CLASSIFIER, Classifier, States, hidden_layer
from ap_ranker.models.layers import LSTM, BiLSTM
from ap_ranker.models.operations import ends_pool, in_float32, last_pool, unit
from ap_ranker.models.spec import Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import TokenBatch

LETTER_SIZE = 20
"""The number of dimensions of a letter's vector (section 4.1)."""

SPELLING_SIZE = 50
"""The number of dimensions of a word's vector that is made of its letters (section 4.1)."""

LONGEST_WORD = 20
"""The number of letters that are read of a word."""

MOST_COSINES = 10_000_000
"""The maximum number of cosines, of two tokens by one perspective, that are in memory to find the largest ones."""

NO_COSINE = -2.0
"""What stands in place of a cosine with padding: it is below any cosine, so that it is never the largest one."""


class Spelling(nn.Module):
    """An LSTM that makes a word's vector from its letters, so that words without training get one, too."""

    letters: Tensor

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        alphabet = {letter: row for row, letter in enumerate(sorted(set("".join(words))), start=1)}
        table = torch.zeros(len(words), LONGEST_WORD, dtype=torch.long)
        for row, word in enumerate(words):
            ids = [alphabet[letter] for letter in word[:LONGEST_WORD]]
            table[row, : len(ids)] = torch.tensor(ids)
        self.register_buffer("letters", table, persistent=False)  # follows from the vocabulary
        self.embedding = nn.Embedding(len(alphabet) + 1, LETTER_SIZE, padding_idx=0)
        self.lstm = LSTM(LETTER_SIZE, SPELLING_SIZE)

    def forward(self, ids: Tensor) -> Tensor:
        """(N, T) -> (N, T, 50); each word of the batch is read once."""
        distinct, positions = ids.unique(return_inverse=True)
        letters = self.letters[distinct]
        mask = letters > 0
        return last_pool(self.lstm(self.embedding(letters), mask), mask)[positions]


class Matching(nn.Module):
    """The four strategies for the states of one direction of the LSTM; texts are matched both ways.

    W is (4, K, C): the K perspectives of each strategy. Both texts' states are zero on padding; so are all matches.
    """

    def __init__(self, size: int, perspectives: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.empty(4, perspectives, size).uniform_(-1, 1))

    def forward(
        self, first: Tensor, second: Tensor, first_end: Tensor, second_end: Tensor, real: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(P, M, C), (P, L, C), their ends (P, C), both tokens real (P, M, L) -> matches (P, M, 4K), (P, L, 4K)."""
        full, max_pooling, attentive, max_attentive = self.W
        alpha = unit(first) @ unit(second).mT
        largest_of_first, largest_of_second = largest_matches(first, second, max_pooling, real)
        mean = weighted_sums(second, alpha)
        nearest = nearest_states(second, alpha, real)
        matches_of_first = [
            multi_perspective_cosine(first, second_end.unsqueeze(1), full),
            largest_of_first,
            multi_perspective_cosine(first, mean, attentive),
            multi_perspective_cosine(first, nearest, max_attentive),
        ]
        mean = weighted_sums(first, alpha.mT)
        nearest = nearest_states(first, alpha.mT, real.mT)
        matches_of_second = [
            multi_perspective_cosine(second, first_end.unsqueeze(1), full),
            largest_of_second,
            multi_perspective_cosine(second, mean, attentive),
            multi_perspective_cosine(second, nearest, max_attentive),
        ]
        return torch.cat(matches_of_first, dim=2), torch.cat(matches_of_second, dim=2)


def multi_perspective_cosine(first: Tensor, second: Tensor, W: Tensor) -> Tensor:
    """f_m: cos(W_k ∘ v1, W_k ∘ v2) for all k: (P, M, C), (P, M or 1, C), (K, C) -> (P, M, K)."""
    # Matrix products with W² avoid a tensor of P x M x K x C.
    squares = W.square()
    return (first * second) @ squares.T / (_norms(first, squares) * _norms(second, squares))


def weighted_sums(others: Tensor, alpha: Tensor) -> Tensor:
    """The other text's states, weighted by α: (P, L, C), (P, M, L) -> (P, M, C), each in the direction of the mean."""
    # The length of a mean does not count in a cosine: of the sum of the weights, by which eq. 8 divides, the sign does.
    return (alpha @ others) * alpha.sum(dim=2, keepdim=True).sign()


def nearest_states(others: Tensor, alpha: Tensor, real: Tensor) -> Tensor:
    """The other text's state with the largest α: (P, L, C), (P, M, L), (P, M, L) -> (P, M, C)."""
    nearest = alpha.masked_fill(~real, NO_COSINE).argmax(dim=2, keepdim=True)
    return others.gather(1, nearest.expand(-1, -1, others.shape[2]))


def largest_matches(first: Tensor, second: Tensor, W: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Each token's largest f_m with any token of the other text: (P, M, C), (P, L, C) -> (P, M, K), (P, L, K)."""
    batch_size = max(1, MOST_COSINES // (len(W) * real[0].numel()))
    if batch_size >= len(first):
        return _largest_matches(first, second, W, real)
    # The backward pass computes the cosines again: those of long texts do not all fit into memory.
    batches = zip(first.split(batch_size), second.split(batch_size), real.split(batch_size), strict=True)
    maxima = [checkpoint(_largest_matches, q, a, W, mask, use_reentrant=False) for q, a, mask in batches]
    largest_of_first = torch.cat([of_first for of_first, _ in maxima])
    largest_of_second = torch.cat([of_second for _, of_second in maxima])
    return largest_of_first, largest_of_second


def _largest_matches(first: Tensor, second: Tensor, W: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    P, M, C = first.shape
    K = len(W)
    squares = W.square()
    dots = (first.unsqueeze(1) * squares.view(1, K, 1, C)).view(P, K * M, C) @ second.transpose(1, 2)
    norms_of_first = _norms(first, squares).transpose(1, 2)  # (P, K, M)
    norms_of_second = _norms(second, squares).transpose(1, 2)  # (P, K, L)
    cosines = dots.view(P, K, M, -1) / (norms_of_first.unsqueeze(3) * norms_of_second.unsqueeze(2))
    cosines = cosines.masked_fill(~real.unsqueeze(1), NO_COSINE)
    largest_of_first = cosines.amax(dim=3).transpose(1, 2)
    largest_of_second = cosines.amax(dim=2).transpose(1, 2)
    # Zero on padding.
    return largest_of_first * real.any(dim=2, keepdim=True), largest_of_second * real.any(dim=1).unsqueeze(2)


def _norms(states: Tensor, squares: Tensor) -> Tensor:
    """|W_k ∘ v| for all k, by the squares of W: (P, T, C), (K, C) -> (P, T, K)."""
    # The minimum keeps the cosine of padding, a zero vector, at zero and its gradient finite.
    return in_float32(states.square() @ squares.T).clamp_min(1e-24).sqrt()


class BiMPM(Classifier):
    """Matches each text's tokens with the other text, by four strategies and K perspectives; a biLSTM aggregates."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        hidden = options.hidden
        perspectives = options.perspectives
        self.spelling = Spelling(inputs.words) if options.characters else None
        self.context = BiLSTM(inputs.embedding_size + (SPELLING_SIZE if options.characters else 0), hidden)
        self.forward_matching = Matching(hidden, perspectives)
        self.backward_matching = Matching(hidden, perspectives)
        self.aggregation = BiLSTM(8 * perspectives, hidden)
        self.head = hidden_layer(4 * hidden, 2 * hidden, options.classes, nn.Tanh)

    def encode(self, batch: TokenBatch) -> States:
        words = self.embedding(batch)
        if self.spelling is not None:
            visible = words.any(dim=2, keepdim=True)  # neither padding nor hidden by word dropout
            words = torch.cat([words, self.spelling(batch.ids) * visible], dim=2)
        forwards, backwards = self.context(words, batch.mask).chunk(2, dim=2)
        return States(batch.mask, {"forwards": forwards, "backwards": backwards})

    def features(self, questions: States, answers: States) -> Tensor:
        real = questions.mask.unsqueeze(2) & answers.mask.unsqueeze(1)
        q = questions.per_token["forwards"]
        a = answers.per_token["forwards"]
        q_end = last_pool(q, questions.mask)
        a_end = last_pool(a, answers.mask)
        q_forwards, a_forwards = self.forward_matching(q, a, first_end=q_end, second_end=a_end, real=real)
        # The backward LSTM ends at the first token.
        q = questions.per_token["backwards"]
        a = answers.per_token["backwards"]
        q_backwards, a_backwards = self.backward_matching(q, a, first_end=q[:, 0], second_end=a[:, 0], real=real)
        of_questions = self._aggregated(q_forwards, q_backwards, questions.mask)
        of_answers = self._aggregated(a_forwards, a_backwards, answers.mask)
        return torch.cat([of_questions, of_answers], dim=1)

    def _aggregated(self, forwards: Tensor, backwards: Tensor, mask: Tensor) -> Tensor:
        """(P, T, 4K) matches of the forward and of the backward states -> (P, C) the two last states of a text."""
        matches = torch.cat([forwards, backwards], dim=2)
        return ends_pool(self.aggregation(matches, mask), mask)


SPEC = ModelSpec(
    name="bimpm",
    paper="Wang, Hamza & Florian, Bilateral Multi-Perspective Matching for Natural Language Sentences",
    year=2017,
    cached="token states",
    build=BiMPM,
    options={
        "hidden": Option(100, "units of both LSTMs in each direction"),
        "perspectives": Option(20, "perspectives: ways to weight the dimensions of two states that are compared"),
        "characters": Option(False, "read the letters of each word, too (the paper does)"),
        **CLASSIFIER,
    },
    recipe=Recipe("pointwise", dropout=0.1),
    objective="listwise",
)
