"""The contract of every model: `encode` a text on its own, `match` encoded questions with encoded answers.

The trainer, the ranker, the evaluator and the cache know nothing else about a model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ap_ranker.models.encoders import WordEmbedding
from ap_ranker.text.batch import TokenBatch


@dataclass(frozen=True)
class States:
    """What `encode` keeps of N texts: all that `match` needs of them, and nothing about the other side.

    A model fills the fields it needs. `states[rows]` selects texts, `States.stack` joins texts of different lengths.

    Attributes:
        tokens: (N, T, C) one state per token; zero on padding.
        mask: (N, T) bool; True on real tokens.
        vector: (N, C) one state per text.
    """

    tokens: Tensor | None = None
    mask: Tensor | None = None
    vector: Tensor | None = None

    def _items(self) -> dict[str, Tensor]:
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def __len__(self) -> int:
        return len(next(iter(self._items().values())))

    def __getitem__(self, rows: slice | Tensor | Sequence[int]) -> States:
        return States(**{name: value[rows] for name, value in self._items().items()})

    def split(self) -> list[States]:
        """One `States` per text, without its padding."""
        singles = [self[row : row + 1] for row in range(len(self))]
        if self.mask is None:
            return singles
        lengths = self.mask.sum(dim=1).tolist()
        return [
            States(**{name: v if name == "vector" else v[:, :length] for name, v in single._items().items()})
            for single, length in zip(singles, lengths, strict=True)
        ]

    @classmethod
    def stack(cls, parts: Sequence[States]) -> States:
        """Join several `States` into one, padding the shorter ones."""
        joined = {
            name: pad_sequence([text for part in parts for text in getattr(part, name)], batch_first=True)
            for name in parts[0]._items()
        }
        return cls(**joined)


class AnswerModel(nn.Module, ABC):
    """A scorer of question-answer pairs that splits into `encode` and `match`.

    B questions, N answers, M question tokens, L answer tokens, C state size.

    Attributes:
        embedding: turns token ids into word vectors; training loads pre-trained ones into it.
    """

    embedding: WordEmbedding

    @abstractmethod
    def encode(self, batch: TokenBatch) -> States:
        """States of N texts. A text's states do not depend on the other texts of the batch, nor on its padding."""

    @abstractmethod
    def match(self, questions: States, answers: States) -> Tensor:
        """(B, N) scores of every question with every answer; higher is better."""

    @abstractmethod
    def scale(self, scores: Tensor) -> Tensor:
        """Map scores to the interval 0 to 1, keeping their order. Not a probability."""

    def encode_questions(self, batch: TokenBatch) -> States:
        """As `encode`; a model that reads the two sides differently overrides this and `encode_answers`."""
        return self.encode(batch)

    def encode_answers(self, batch: TokenBatch) -> States:
        """As `encode`."""
        return self.encode(batch)

    def forward(self, questions: TokenBatch, answers: TokenBatch) -> Tensor:
        """(B, N) scores of B questions with N answers, encoded here and now."""
        return self.match(self.encode_questions(questions), self.encode_answers(answers))


class CosineModel(AnswerModel):
    """A model whose score is the cosine of two vectors, between -1 and 1."""

    def scale(self, scores: Tensor) -> Tensor:
        return (1 + scores) / 2


def unit(vectors: Tensor) -> Tensor:
    """Vectors (..., C) divided by their length, so that a dot product is a cosine; a zero vector stays zero."""
    return nn.functional.normalize(vectors, dim=-1)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension that gives masked-out positions no weight; `mask` broadcasts."""
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
