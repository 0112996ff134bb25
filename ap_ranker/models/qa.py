"""QA-CNN and QA-biLSTM: each text is encoded into one vector on its own (dos Santos et al. 2016, section 2).

Q = encoder(E)            (M, C)   convolution or biLSTM over the word embeddings
r = tanh(max over tokens) (C,)     eq. 1
s(q, a) = cos(r_q, r_a)            eq. 2

QA-CNN with `similarity: gesd` is Arch-II + GESD of Feng et al. 2015.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ap_ranker.models.encoders import BiLSTM, Convolution
from ap_ranker.models.kinds import SIMILARITY, Siamese
from ap_ranker.models.operations import max_pool
from ap_ranker.models.spec import DROPOUT, HIDDEN, WINDOW, Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.batch import TokenBatch


class MaxPooled(Siamese):
    """A text's vector is the maximum of each filter or unit over its tokens."""

    encoder: Convolution | BiLSTM

    def represent(self, batch: TokenBatch) -> Tensor:
        states = self.encoder(self.embedding(batch), batch.mask)
        return torch.tanh(max_pool(states, batch.mask))


class QACNN(MaxPooled):
    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.encoder = Convolution(inputs.embedding_size, options.filters, options.window)


class QABiLSTM(MaxPooled):
    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.encoder = BiLSTM(inputs.embedding_size, options.hidden)


# Sizes and recipes: the paper's table of hyper-parameters for InsuranceQA.
_QA_CNN = ModelSpec(
    name="qa-cnn",
    paper="dos Santos, Tan, Xiang & Zhou, Attentive Pooling Networks",
    year=2016,
    family="attentive-pooling",
    cached="one vector",
    build=QACNN,
    options={
        "filters": Option(4000, "convolution filters, so also the size of a text's vector"),
        "window": replace(WINDOW, default=2),
        "similarity": SIMILARITY,
        "dropout": DROPOUT,
    },
    recipe=Recipe("hinge", "sgd", 0.05, "inverse", batch_size=1, margin=0.009),
)
_QA_BILSTM = replace(
    _QA_CNN,
    name="qa-bilstm",
    build=QABiLSTM,
    options={"hidden": HIDDEN, "similarity": SIMILARITY, "dropout": DROPOUT},
    recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.1),
)

SPECS = [_QA_CNN, _QA_BILSTM]
