"""AP-CNN and AP-biLSTM: attentive pooling of words (dos Santos et al. 2016, section 3).

The score is computed in attentive.py; this file encodes the words:

    Q, A = encoder(E_q), encoder(E_a)                  (M, C), (L, C)
"""

from __future__ import annotations

from torch import Tensor

from ap_ranker.models.attentive import SHARPNESS, AttentivePooling
from ap_ranker.models.base import States
from ap_ranker.models.encoders import BiLSTM, Convolution, FramedWords, WordEmbedding
from ap_ranker.models.spec import DROPOUT, WINDOW, Inputs, ModelSpec, Option, Recipe
from ap_ranker.text.batch import TokenBatch


class AttentivePoolingWords(AttentivePooling):
    """Attentive pooling whose token states come from word vectors."""

    embedding: WordEmbedding

    def __init__(self, embedding: WordEmbedding, encoder: Convolution | BiLSTM, sharpness: float) -> None:
        super().__init__(encoder.state_size, sharpness)
        self.embedding = embedding
        self.encoder = encoder

    def encode(self, batch: TokenBatch) -> States:
        return States(batch.mask, {"states": self.encoder(self.embedding(batch), batch.mask)})


class AttentivePoolingCNN(AttentivePoolingWords):
    """Computes the same scores without the answers' states: Q U A^T = (Q U W) Z^T + Q U b, and likewise for r_a.

    The convolution A = Z W^T + b is linear, so the question's rows become filters. An answer is stored as token ids,
    some hundred bytes instead of as many thousand, and a match reads D numbers per token instead of C.
    """

    encoder: Convolution

    def encode_answers(self, batch: TokenBatch) -> States:
        return States(batch.mask, {"ids": self.embedding.apply_word_dropout(batch)})

    def read(self, answers: States) -> FramedWords:
        return self.embedding.framed(answers.per_token["ids"], self.encoder.left, self.encoder.right)

    def probes(self, rows: Tensor) -> Tensor:
        return self.encoder.filters(rows)

    def project(self, answers: FramedWords, probes: Tensor) -> Tensor:
        return self.encoder.project(answers, probes)

    def pool(self, answers: FramedWords, weights: Tensor) -> Tensor:
        return self.encoder.pool(answers, weights)


def ap_cnn(inputs: Inputs, *, filters: int, window: int, sharpness: float, dropout: float) -> AttentivePooling:
    """AP-CNN."""
    embedding = WordEmbedding(inputs, dropout)
    return AttentivePoolingCNN(embedding, Convolution(inputs.embedding_size, filters, window), sharpness)


def ap_bilstm(inputs: Inputs, *, hidden: int, sharpness: float, dropout: float) -> AttentivePooling:
    """AP-biLSTM."""
    embedding = WordEmbedding(inputs, dropout)
    return AttentivePoolingWords(embedding, BiLSTM(inputs.embedding_size, hidden), sharpness)


_PAPER = "dos Santos, Tan, Xiang & Zhou, Attentive Pooling Networks"

# Sizes and recipes: the paper's table of hyper-parameters for InsuranceQA.
SPECS = [
    ModelSpec(
        name="ap-cnn",
        paper=_PAPER,
        year=2016,
        family="attentive-pooling",
        cached="token ids",
        build=ap_cnn,
        attention_over="both",
        options={
            "filters": Option(400, "convolution filters, so also the size of a token's state"),
            "window": Option(3, "words that a filter sees at once", bounds=WINDOW),
            "sharpness": SHARPNESS,
            "dropout": DROPOUT,
        },
        recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.5),
    ),
    ModelSpec(
        name="ap-bilstm",
        paper=_PAPER,
        year=2016,
        family="attentive-pooling",
        cached="token states",
        build=ap_bilstm,
        attention_over="both",
        options={
            "hidden": Option(141, "units of the LSTM in each direction"),
            "sharpness": SHARPNESS,
            "dropout": DROPOUT,
        },
        recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.2),
    ),
]
