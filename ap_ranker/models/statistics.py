"""What the untrained models, and some features, know of a corpus: how often its words occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from ap_ranker.text.batch import UNKNOWN


class CorpusStatistics(nn.Module):
    """Counts over N texts, saved with the weights; nothing is learnt by gradient.

    Attributes:
        documents: () N, the number of texts.
        document_frequency: (V,) how many texts hold each word.
        collection_frequency: (V,) how often each word occurs.
    """

    documents: Tensor
    document_frequency: Tensor
    collection_frequency: Tensor

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.register_buffer("documents", torch.zeros(()))
        self.register_buffer("document_frequency", torch.zeros(vocabulary_size))
        self.register_buffer("collection_frequency", torch.zeros(vocabulary_size))

    def count(self, texts: Iterable[Sequence[int]]) -> None:
        """Count the token ids of the texts, in place of what was counted before."""
        documents, occurrences, holders = 0, Counter[int](), Counter[int]()
        for ids in texts:
            documents += 1
            occurrences.update(ids)
            holders.update(set(ids))
        self.documents.fill_(documents)
        for table, counts in ((self.document_frequency, holders), (self.collection_frequency, occurrences)):
            table.zero_()
            table[list(counts)] = torch.tensor(list(counts.values()), dtype=table.dtype, device=table.device)

    def idf(self, ids: Tensor) -> Tensor:
        """ln(1 + (N - df + 0.5) / (df + 0.5)) of each token, as Lucene has it; 0 on padding and unknown words."""
        frequency = self.document_frequency[ids]
        idf = torch.log1p((self.documents - frequency + 0.5) / (frequency + 0.5))
        return idf.masked_fill(ids <= UNKNOWN, 0.0)


def punctuation(words: Sequence[str]) -> Tensor:
    """(V,) True on the tokens of a vocabulary without any letter or digit."""
    return torch.tensor([not any(map(str.isalnum, word)) for word in words])
