"""QA-CNN and QA-biLSTM: each text becomes one vector on its own (dos Santos et al. 2016, section 2).

Q = encoder(E)            (M, C)   convolution or biLSTM over the word embeddings
r = tanh(max over tokens) (C,)     eq. 1
s(q, a) = cos(r_q, r_a)            eq. 2
"""

from __future__ import annotations

import torch
from torch import Tensor

from ap_ranker.models.base import CosineModel, States, unit
from ap_ranker.models.encoders import BiLSTM, Convolution, WordEmbedding
from ap_ranker.text.batch import TokenBatch


class MaxPooled(CosineModel):
    """The cosine of two max-pooled texts; the answer's whole computation is done before the question is known."""

    def __init__(self, embedding: WordEmbedding, encoder: Convolution | BiLSTM) -> None:
        super().__init__()
        self.embedding = embedding
        self.encoder = encoder

    def encode(self, batch: TokenBatch) -> States:
        states = self.encoder(self.embedding(batch), batch.mask)
        strongest = states.masked_fill(~batch.mask.unsqueeze(2), float("-inf")).amax(dim=1)
        return States(vector=unit(torch.tanh(strongest)))

    def match(self, questions: States, answers: States) -> Tensor:
        assert questions.vector is not None and answers.vector is not None
        return questions.vector @ answers.vector.T


def qa_cnn(vocabulary_size: int, embedding_size: int, *, filters: int, window: int, dropout: float) -> MaxPooled:
    """QA-CNN: `filters` convolution filters over `window` words."""
    embedding = WordEmbedding(vocabulary_size, embedding_size, dropout)
    return MaxPooled(embedding, Convolution(embedding_size, filters, window))


def qa_bilstm(vocabulary_size: int, embedding_size: int, *, hidden: int, dropout: float) -> MaxPooled:
    """QA-biLSTM: `hidden` units in each direction."""
    embedding = WordEmbedding(vocabulary_size, embedding_size, dropout)
    return MaxPooled(embedding, BiLSTM(embedding_size, hidden))
