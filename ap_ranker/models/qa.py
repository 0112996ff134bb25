"""QA-CNN and QA-biLSTM: each text is encoded into one vector on its own (dos Santos et al. 2016, section 2).

Q = encoder(E)            (M, C)   convolution or biLSTM over the word embeddings
r = tanh(max over tokens) (C,)     eq. 1
s(q, a) = cos(r_q, r_a)            eq. 2
"""

from __future__ import annotations

import torch
from torch import Tensor

from ap_ranker.models.encoders import BiLSTM, Convolution, WordEmbedding
from ap_ranker.models.pooling import max_pool
from ap_ranker.models.siamese import SIMILARITY, Siamese
from ap_ranker.models.spec import DROPOUT, WINDOW, Inputs, ModelSpec, Option, Recipe
from ap_ranker.text.batch import TokenBatch


class MaxPooled(Siamese):
    """A text's vector is the maximum of each filter or unit over its tokens."""

    embedding: WordEmbedding

    def __init__(self, embedding: WordEmbedding, encoder: Convolution | BiLSTM, similarity: str) -> None:
        super().__init__(similarity)
        self.embedding = embedding
        self.encoder = encoder

    def represent(self, batch: TokenBatch) -> Tensor:
        states = self.encoder(self.embedding(batch), batch.mask)
        return torch.tanh(max_pool(states, batch.mask))


def qa_cnn(inputs: Inputs, *, filters: int, window: int, similarity: str, dropout: float) -> MaxPooled:
    """QA-CNN; with `similarity: gesd` it is Arch-II + GESD of Feng et al. 2015."""
    embedding = WordEmbedding(inputs, dropout)
    return MaxPooled(embedding, Convolution(inputs.embedding_size, filters, window), similarity)


def qa_bilstm(inputs: Inputs, *, hidden: int, similarity: str, dropout: float) -> MaxPooled:
    """QA-biLSTM."""
    embedding = WordEmbedding(inputs, dropout)
    return MaxPooled(embedding, BiLSTM(inputs.embedding_size, hidden), similarity)


_PAPER = "dos Santos, Tan, Xiang & Zhou, Attentive Pooling Networks"

# Sizes and recipes: the paper's table of hyper-parameters for InsuranceQA.
SPECS = [
    ModelSpec(
        name="qa-cnn",
        paper=_PAPER,
        year=2016,
        family="attentive-pooling",
        cached="one vector",
        build=qa_cnn,
        options={
            "filters": Option(4000, "convolution filters, so also the size of a text's vector"),
            "window": Option(2, "words that a filter sees at once", bounds=WINDOW),
            "similarity": SIMILARITY,
            "dropout": DROPOUT,
        },
        recipe=Recipe("hinge", "sgd", 0.05, "inverse", batch_size=1, margin=0.009),
    ),
    ModelSpec(
        name="qa-bilstm",
        paper=_PAPER,
        year=2016,
        family="attentive-pooling",
        cached="one vector",
        build=qa_bilstm,
        options={
            "hidden": Option(141, "units of the LSTM in each direction"),
            "similarity": SIMILARITY,
            "dropout": DROPOUT,
        },
        recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.1),
    ),
]
