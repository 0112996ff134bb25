"""What models compute with: states of tokens, which ignore padding; whole vectors; words as such, how often they occur.

Sizes: B questions, N answers or texts, T tokens, C state size, P pairs of M and L tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from ap_ranker.text.tokenizer import PAD, UNKNOWN


def masked_softmax(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Softmax over a dimension that gives masked positions no weight; `mask` broadcasts."""
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=dim)


class _RowAndColumnMax(torch.autograd.Function):
    """The largest values along two dimensions, with one gradient where autograd would add two."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, first: int, second: int) -> tuple[Tensor, Tensor]:
        along_first = scores.max(dim=first)
        along_second = scores.max(dim=second)
        ctx.save_for_backward(along_first.indices, along_second.indices)
        ctx.dims = (first, second)
        ctx.shape = scores.shape
        return along_first.values, along_second.values

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        gradient = gradients[0].new_zeros(ctx.shape)
        for dim, indices, values in zip(ctx.dims, ctx.saved_tensors, gradients, strict=True):
            gradient.scatter_add_(dim, indices.unsqueeze(dim), values.unsqueeze(dim))
        return gradient, None, None


def row_and_column_max(scores: Tensor, first: int, second: int) -> tuple[Tensor, Tensor]:
    """The largest values along the first dimension, and along the second; the gradient of each goes to one element."""
    # Autograd's `amax` spreads it over ties instead, and costs several times as much.
    if not scores.requires_grad:
        return scores.amax(dim=first), scores.amax(dim=second)
    return _RowAndColumnMax.apply(scores, first, second)


def max_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): the largest value of each dimension over the text's tokens."""
    real = states.masked_fill(~mask.unsqueeze(2), float("-inf"))
    # `amax` has a slow gradient; `max` also computes indices.
    if real.requires_grad:
        return real.max(dim=1).values
    return real.amax(dim=1)


def mean_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): the mean over the text's tokens; `states` are zero on padding."""
    return states.sum(dim=1) / mask.sum(dim=1, keepdim=True)


def last_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): the state of the text's last token."""
    last = mask.sum(dim=1) - 1
    return states[torch.arange(len(states), device=states.device), last]


def pool(states: Tensor, mask: Tensor, how: str) -> Tensor:
    """(N, T, C) states, zero where the mask (N, T) is not set -> (N, C), by one of `sentence_modules.Pooling`.

    A mask may have gaps, but no text is without a token.
    """
    if how == "max":
        return max_pool(states, mask)
    if how in ("cls", "lasttoken"):
        reached = mask.long() if how == "cls" else mask.long().cumsum(dim=1)
        return states[torch.arange(len(states), device=states.device), reached.argmax(dim=1)]
    if how == "weightedmean":
        places = torch.arange(1, states.shape[1] + 1, device=states.device) * mask
        return (states * places.unsqueeze(2)).sum(dim=1) / places.sum(dim=1, keepdim=True)
    mean = mean_pool(states, mask)
    if how == "mean":
        return mean
    return mean * mask.sum(dim=1, keepdim=True).sqrt()


def ends_pool(states: Tensor, mask: Tensor) -> Tensor:
    """(N, T, C) -> (N, C): the final states of a biLSTM, forward at the last token, backward at the first."""
    forward, backward = states.chunk(2, dim=2)
    return torch.cat([last_pool(forward, mask), backward[:, 0]], dim=1)


def align(scores: Tensor, others: Tensor, mask: Tensor) -> Tensor:
    """Means of the other text's states, weighted by softmax: (P, M, L), (P, L, C), (P, L) -> (P, M, C)."""
    return masked_softmax(scores, mask.unsqueeze(1)) @ others


def unit(vectors: Tensor) -> Tensor:
    """Vectors (..., C) divided by their length, so that a dot product is a cosine; a zero vector stays zero."""
    vectors = in_float32(vectors)
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    # Not a minimum length, as of `normalize`: the gradient of a zero vector would overflow in float16.
    return vectors / (length + (length == 0))


def in_float32(values: Tensor) -> Tensor:
    """Float32 for half precision, in which a GPU trains, and where 1 - 5e-4 is 1; float64 stays float64."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def exact(values: Tensor) -> Tensor:
    """In float64 where a CPU computes without a gradient: its sums, rounded to float32, are the same in any company.

    In float32 the last bit of a product's row depends on the other rows. A bit matters where it is magnified: in an
    answer's 4 or 8 bits, where it may turn a step, or near the edge of a hyperbolic ball.
    """
    if torch.is_grad_enabled() or values.device.type != "cpu":
        return values
    return values.double()


def gesd(questions: Tensor, answers: Tensor) -> Tensor:
    """1 / (1 + |x - y|) · 1 / (1 + exp(-γ (x·y + c))) with γ = c = 1, between 0 and 1 (Feng et al. 2015, section 3).

    (B, C), (N, C) -> (B, N); leading dimensions, as in (P, 1, C), are aligned pairs.
    """
    distance = torch.cdist(questions, answers, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.sigmoid(questions @ answers.mT + 1) / (1 + distance)


class CorpusStatistics(nn.Module):
    """Counts over N texts, saved with the weights; nothing is learnt by gradient."""

    documents: Tensor  # () N, the number of texts
    document_frequency: Tensor  # (V,) the number of texts that contain each word
    collection_frequency: Tensor  # (V,) the number of occurrences of each word
    punctuation: Tensor  # (V,) True for tokens without any letter or digit; follows from the vocabulary, not saved

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self.register_buffer("documents", torch.zeros(()))
        self.register_buffer("document_frequency", torch.zeros(len(words)))
        self.register_buffer("collection_frequency", torch.zeros(len(words)))
        punctuation = torch.tensor([not any(map(str.isalnum, word)) for word in words])
        self.register_buffer("punctuation", punctuation, persistent=False)

    def count(self, texts: Iterable[Sequence[int]]) -> None:
        """Count the token ids of the texts; replaces earlier counts."""
        read = list(texts)
        self.documents.fill_(len(read))
        containing = Counter(chain.from_iterable(map(set, read)))
        occurrences = Counter(chain.from_iterable(read))
        for table, counts in ((self.document_frequency, containing), (self.collection_frequency, occurrences)):
            table.zero_()
            table[list(counts)] = torch.tensor(list(counts.values()), dtype=table.dtype, device=table.device)

    def idf(self, ids: Tensor) -> Tensor:
        """ln(1 + (N - df + 0.5) / (df + 0.5)) of each token, as in Lucene; 0 on padding and unknown words."""
        frequency = self.document_frequency[ids]
        idf = torch.log1p((self.documents - frequency + 0.5) / (frequency + 0.5))
        return idf.masked_fill(ids <= UNKNOWN, 0.0)

    def without_punctuation(self, ids: Tensor) -> Tensor:
        """The token ids with padding in place of punctuation marks."""
        return ids.masked_fill(self.punctuation[ids], PAD)


def term_frequency(question_ids: Tensor, answer_ids: Tensor) -> Tensor:
    """How often each question token occurs in each answer, unknown words never: (B, M), (N, L) -> (B, N, M)."""
    same = question_ids[:, None, :, None] == answer_ids[None, :, None, :]
    return (same & (question_ids > UNKNOWN)[:, None, :, None]).sum(dim=3)


def first_occurrence(ids: Tensor) -> Tensor:
    """(N, T) True on the first token of each known word of a text."""
    earlier = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril(-1)
    repeated = ((ids[:, :, None] == ids[:, None, :]) & earlier).any(dim=2)
    return ~repeated & (ids > UNKNOWN)


def bag_cosine(question_ids: Tensor, answer_ids: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """(B, M), (N, L) -> (B, N): |shared words| / sqrt(|words of q| · |words of a|), the cosine of 0/1 vectors."""
    first_q = first_occurrence(question_ids)
    first_a = first_occurrence(answer_ids)
    shared = ((term_frequency(question_ids, answer_ids) > 0) & first_q[:, None, :]).sum(dim=2)
    sizes = first_q.sum(dim=1)[:, None] * first_a.sum(dim=1)[None, :]
    return shared / sizes.clamp(min=1).to(dtype).sqrt()
