"""The contract of every model: `encode` a text on its own, `match` encoded questions with encoded answers.

The trainer, the ranker, the evaluator and the cache know nothing else about a model. Methods that only few models need
have a default: `training_scores`, `load_pretrained`, `fit`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ap_ranker.models.encoders import WordEmbedding
from ap_ranker.models.statistics import CorpusStatistics
from ap_ranker.text.batch import TokenBatch

TensorFunction = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class States:
    """The output of `encode` for N texts: everything that `match` needs, independent of the other side.

    Names contain no dots; `ids` always means token ids.

    Attributes:
        mask: (N, T) bool; True on real tokens, or on other positions that have states. Every model sets it, even
            without states per token: T is the length of the longest text.
        per_token: (N, T, C) numbers by name, zero on padding; or (N, T) integers.
        per_text: (N, C) numbers by name.
    """

    mask: Tensor
    per_token: Mapping[str, Tensor] = field(default_factory=dict)
    per_text: Mapping[str, Tensor] = field(default_factory=dict)

    def map(self, token_function: TensorFunction, text_function: TensorFunction) -> States:
        """Apply one function to the mask and all tensors per token, and another to all tensors per text."""
        return States(
            token_function(self.mask),
            {name: token_function(value) for name, value in self.per_token.items()},
            {name: text_function(value) for name, value in self.per_text.items()},
        )

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, rows: slice | Tensor | Sequence[int]) -> States:
        return self.map(lambda value: value[rows], lambda value: value[rows])

    def split(self) -> list[States]:
        """One `States` per text, without its padding."""
        return [self.selected(row) for row in torch.arange(len(self)).split(1)]

    def selected(self, rows: Tensor) -> States:
        """The texts of these rows, padded only to the longest of them."""
        longest = int(self.mask[rows].sum(dim=1).max())
        return self.map(lambda value: value[:, :longest][rows], lambda value: value[rows])

    @classmethod
    def stack(cls, parts: Sequence[States]) -> States:
        """Join several `States` into one, padding the shorter ones."""

        def padded(tensors: Iterable[Tensor]) -> Tensor:
            return pad_sequence([text for tensor in tensors for text in tensor], batch_first=True)

        return cls(
            padded(part.mask for part in parts),
            {name: padded(part.per_token[name] for part in parts) for name in parts[0].per_token},
            {name: torch.cat([part.per_text[name] for part in parts]) for name in parts[0].per_text},
        )


@dataclass(frozen=True)
class StoredStates:
    """The states of N texts as a cache stores them: one text after the other, in the cache's dtype, without padding.

    Attributes:
        lengths: (N,) number of tokens of each text; R in all.
        per_token: (R, C) numbers or (R,) integers by name; the scales of numbers `x` in int8, one a row, as `x.scale`.
        per_text: (N, C) numbers by name, likewise.
    """

    lengths: np.ndarray
    per_token: Mapping[str, Tensor]
    per_text: Mapping[str, Tensor]

    @property
    def starts(self) -> np.ndarray:
        """(N,) the row of each text's first token."""
        starts: np.ndarray = np.cumsum(self.lengths) - self.lengths
        return starts


JudgedCandidates = tuple[States, States, Tensor]
"""The states of one question, those of its N candidates, and (N,) bool: which candidates are right."""


@dataclass(frozen=True)
class Attention:
    """The attention weights of each token for each pair, (B, N, M) and (B, N, L); `None` for a side without any.

    They sum to 1 over a text and are 0 on padding.
    """

    questions: Tensor | None
    answers: Tensor | None


class AnswerModel(nn.Module, ABC):
    """A scorer of question-answer pairs that splits into `encode` and `match`.

    B questions, N answers, P pairs, M question tokens, L answer tokens, C state size.

    Attributes:
        embedding: the word vectors; training loads pre-trained ones into it. `None` for a model without any.
        statistics: word counts of the answers, set by training. `None` for a model without any.
        temperature: the default divisor of the scores in the in-batch softmax; 1 for log-odds.
        supports_quantization: whether states may be stored in fewer bits than float32.
        stored_bits: the fewest bits per number that cost the model nothing; its states are stored so, unless asked
            otherwise: 32, 8 or 4.
        fit_questions: maximum number of questions for `fit`.
    """

    embedding: WordEmbedding | None
    statistics: CorpusStatistics | None
    temperature: float = 1.0
    supports_quantization: bool = True
    stored_bits: int = 32
    fit_questions: int = 500

    def __init__(self) -> None:
        super().__init__()
        self.embedding = None
        self.statistics = None

    @abstractmethod
    def encode(self, batch: TokenBatch) -> States:
        """States of N texts. A text's states depend neither on the other texts of the batch nor on padding."""

    @abstractmethod
    def match(self, questions: States, answers: States) -> Tensor:
        """(B, N) scores of every question with every answer; higher is better."""

    @abstractmethod
    def scale(self, scores: Tensor) -> Tensor:
        """Map scores to the interval 0 to 1, keeping their order. The results are not probabilities."""

    def word_vectors(self) -> Tensor | None:
        """(V, D) the vector of each word, as long as the model counts the word; `None` for a model without any."""
        return None if self.embedding is None else self.embedding.vectors.weight.detach()

    def encode_questions(self, batch: TokenBatch) -> States:
        """As `encode`; a model that reads the two sides differently overrides this and `encode_answers`."""
        return self.encode(batch)

    def encode_answers(self, batch: TokenBatch) -> States:
        return self.encode(batch)

    def attention_weights(self, questions: TokenBatch, answers: TokenBatch) -> Attention | None:
        """The weights that `match` gives the tokens of the sides in `ModelSpec.attention_over`; `None` for no sides."""
        return None

    def reads_stored(self, dtypes: Mapping[str, torch.dtype]) -> bool:
        """Whether `match_stored` can read states per token of these dtypes, here and now."""
        return False

    def match_stored(self, question: States, answers: StoredStates) -> Tensor:
        """(N,) scores of one question, if `reads_stored`: what `match` computes, up to rounding, without gradients."""
        raise NotImplementedError

    def match_pairs(self, questions: States, answers: States, rows: Tensor, columns: Tensor) -> Tensor:
        """(P,) scores of question `rows[p]` with answer `columns[p]`, for a few of the B x N pairs."""
        # `match` is called once per answer, so that its states are not copied for each of its questions.
        order = columns.argsort()
        distinct, counts = columns[order].unique_consecutive(return_counts=True)
        groups = zip(distinct.tolist(), order.split(counts.tolist()), strict=True)
        scores = [self.match(questions.selected(rows[pairs]), answers[c : c + 1])[:, 0] for c, pairs in groups]
        return torch.cat(scores)[order.argsort()]

    def training_scores(self, questions: States, answers: States, wanted: Tensor, classes: int) -> Tensor:
        """(B, N) scores for the objective, or (B, N, K) logits of a classifier of more than two classes.

        Models that can score some pairs more cheaply than all override this: pairs that are not `wanted` (B, N) may
        have any score.
        """
        return self.match(questions, answers)

    def text_vectors(self, states: States) -> Tensor | None:
        """(N, C) vectors of length 1 of whole texts, to be compared by their cosine; from `states.per_text` only."""
        return None

    def pooled_only(self) -> AnswerModel | None:
        """The same model with the cosine of its pooled vectors as its score: what its attention has to beat."""
        return None

    def load_pretrained(self, folder: Path, sample: Iterable[TokenBatch]) -> None:
        """Initialise from a pretrained encoder's folder; `sample` are training texts. By default this does nothing."""

    def fit(self, questions: Iterable[JudgedCandidates]) -> None:
        """Fit weights to the training questions, encoded lazily, before any gradient. By default this does nothing."""

    def parameter_groups(self, rate: float, encoder_rate: float) -> list[dict[str, Any]]:
        """The trained parameters with their learning rates, as the optimisers of torch expect them.

        `encoder_rate` is that of a pretrained encoder, `rate` that of parameters that begin at random.
        """
        return [{"params": [parameter for parameter in self.parameters() if parameter.requires_grad], "lr": rate}]

    def cache_frozen_states(self) -> AbstractContextManager[None]:
        """A context in which the model may cache the outputs of its frozen parts, so that it reads no text twice."""
        return nullcontext()

    def forward(self, questions: TokenBatch, answers: TokenBatch) -> Tensor:
        """(B, N) scores of B questions with N answers, encoding both."""
        return self.match(self.encode_questions(questions), self.encode_answers(answers))
