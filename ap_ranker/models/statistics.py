"""Words as such: how often a corpus has them, and which of them two texts share. B questions, N answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from ap_ranker.text.batch import PAD, UNKNOWN


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
        containing, occurrences = Counter(chain.from_iterable(map(set, read))), Counter(chain.from_iterable(read))
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
    first_q, first_a = first_occurrence(question_ids), first_occurrence(answer_ids)
    shared = ((term_frequency(question_ids, answer_ids) > 0) & first_q[:, None, :]).sum(dim=2)
    sizes = first_q.sum(dim=1)[:, None] * first_a.sum(dim=1)[None, :]
    return shared / sizes.clamp(min=1).to(dtype).sqrt()
