"""The contract of every model: `encode` a text on its own, `match` encoded questions with encoded answers.

The trainer, the ranker, the evaluator and the cache know nothing else about a model. What few models need beside it is
a method that does the usual thing, or nothing, in all others: `training_scores`, `load_pretrained`, `fit`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ap_ranker.models.encoders import WordEmbedding
from ap_ranker.models.statistics import CorpusStatistics
from ap_ranker.text.batch import TokenBatch

PAIRS_AT_ONCE = 1024
"""Pairs that a `PairModel` compares in one go: more need memory for their token-by-token matrices and gain no speed."""

Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class States:
    """What `encode` keeps of N texts: all that `match` needs of them, and nothing about the other side.

    `states[rows]` selects texts, `States.stack` joins texts of different lengths. Names hold no dots; `ids` are token
    ids wherever they occur.

    Attributes:
        mask: (N, T) bool; True on real tokens, or on whatever else of a text has states of its own. Every model has it,
            also one that keeps nothing per token: T tells how long the texts are.
        per_token: (N, T, C) numbers by their name, zero on padding; or (N, T) integers.
        per_text: (N, C) numbers by their name.
    """

    mask: Tensor
    per_token: Mapping[str, Tensor] = field(default_factory=dict)
    per_text: Mapping[str, Tensor] = field(default_factory=dict)

    def map(self, of_tokens: Change, of_texts: Change) -> States:
        """The same states after a change of the tensors with T columns, mask included, and one of the others."""
        per_token = {name: of_tokens(value) for name, value in self.per_token.items()}
        return States(of_tokens(self.mask), per_token, {name: of_texts(value) for name, value in self.per_text.items()})

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, rows: slice | Tensor | Sequence[int]) -> States:
        return self.map(lambda value: value[rows], lambda value: value[rows])

    def split(self) -> list[States]:
        """One `States` per text, without its padding."""
        return [self.selected(row) for row in torch.arange(len(self)).split(1)]

    def selected(self, rows: Tensor) -> States:
        """The texts of these rows, without the padding that none of them needs."""
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


JudgedCandidates = tuple[States, States, Tensor]
"""One question's states, those of its N candidates, and (N,) bool: which of these answer it."""


@dataclass(frozen=True)
class Attention:
    """How much each token counts for each pair; the weights of a text sum to 1, and are 0 on padding.

    Attributes:
        questions: (B, N, M) weights of the question's tokens; `None` where the model weighs answers only.
        answers: (B, N, L) weights of the answer's tokens; `None` where the model weighs questions only.
    """

    questions: Tensor | None
    answers: Tensor | None


class AnswerModel(nn.Module, ABC):
    """A scorer of question-answer pairs that splits into `encode` and `match`.

    B questions, N answers, P pairs, M question tokens, L answer tokens, C state size.

    Attributes:
        embedding: turns token ids into word vectors; training loads pre-trained ones into it. `None` where a model
            needs no vectors.
        statistics: how often the words occur in the answers; training counts them. `None` where a model needs none.
        temperature: what in-batch softmax divides the scores by unless told otherwise; 1 for log-odds.
        supports_quantization: whether its states may be kept in fewer bits than float32.
    """

    embedding: WordEmbedding | None
    statistics: CorpusStatistics | None
    temperature: float = 1.0
    supports_quantization: bool = True

    def __init__(self) -> None:
        super().__init__()
        self.embedding = None
        self.statistics = None

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

    def attention_weights(self, questions: TokenBatch, answers: TokenBatch) -> Attention | None:
        """The weights with which `match` counts the tokens of every pair, encoded here and now.

        `None`: its scores come from no such weights. A model that returns some says in its `ModelSpec` whose.
        """
        return None

    def match_pairs(self, questions: States, answers: States, rows: Tensor, columns: Tensor) -> Tensor:
        """(P,) scores of question `rows[p]` with answer `columns[p]`, where few of all B x N pairs are wanted.

        One `match` per answer: its states are not copied for each of its questions.
        """
        order = columns.argsort()
        distinct, counts = columns[order].unique_consecutive(return_counts=True)
        groups = zip(distinct.tolist(), order.split(counts.tolist()), strict=True)
        scores = [self.match(questions.selected(rows[places]), answers[c : c + 1])[:, 0] for c, places in groups]
        return torch.cat(scores)[order.argsort()]

    def training_scores(self, questions: States, answers: States, wanted: Tensor, classes: int) -> Tensor:
        """What the objective sees of a batch, for models that can score a part of it at less cost than all of it.

        Args:
            questions: of B questions.
            answers: of N answers.
            wanted: (B, N) bool, the pairs that the objective looks at; any others may have any score.
            classes: K, in how many classes the answers are labelled.

        Returns:
            (B, N) scores, or (B, N, K) logits of a model that tells more than two classes apart.
        """
        return self.match(questions, answers)

    def pooled_only(self) -> AnswerModel | None:
        """The same model with the cosine of its pooled vectors as its score: what its attention has to beat.

        `None` for a model without pooled vectors.
        """
        return None

    def load_pretrained(self, folder: Path, sample: Iterable[TokenBatch]) -> None:
        """Begin with weights that exist already, where the model has a use for them; by default nothing happens.

        Args:
            folder: of a pretrained encoder.
            sample: some of the training texts, read when they are asked for.

        Raises:
            InputError: the encoder is not there, or is damaged.
        """

    def fit(self, questions: Iterable[JudgedCandidates]) -> None:
        """Set weights before anything is learnt by gradient; by default nothing happens.

        Args:
            questions: the training questions, encoded when they are asked for.
        """

    def parameter_groups(self, rate: float, encoder_rate: float) -> list[dict[str, Any]]:
        """What training changes, each with its learning rate, as the optimisers of torch take it.

        Args:
            rate: of what begins at random.
            encoder_rate: of a pretrained encoder, for the models that have one.
        """
        return [{"params": [parameter for parameter in self.parameters() if parameter.requires_grad], "lr": rate}]

    def cache_frozen_states(self) -> AbstractContextManager[None]:
        """Within, the model may keep what its frozen parts make of texts, and read none of them twice."""
        return nullcontext()

    def forward(self, questions: TokenBatch, answers: TokenBatch) -> Tensor:
        """(B, N) scores of B questions with N answers, encoded here and now."""
        return self.match(self.encode_questions(questions), self.encode_answers(answers))


class CosineModel(AnswerModel):
    """A model whose score is the cosine of two vectors, between -1 and 1."""

    temperature = 0.05  # cosines must be spread out before a softmax over them can become sure

    def scale(self, scores: Tensor) -> Tensor:
        return (1 + scores) / 2


class PairModel(AnswerModel):
    """A model whose last step has no shape but the pair's own: P questions beside P answers.

    Scores are log-odds.
    """

    @abstractmethod
    def compare(self, questions: States, answers: States) -> Tensor:
        """(P,) score of each question with the answer in the same place."""

    def pair_attention_weights(self, questions: States, answers: States) -> tuple[Tensor | None, Tensor | None]:
        """(P, M) and (P, L): what `attention_weights` returns, of each question and of the answer in the same place."""
        return None, None

    def attention_weights(self, questions: TokenBatch, answers: TokenBatch) -> Attention | None:
        own, others = self.encode_questions(questions), self.encode_answers(answers)
        rows, columns = _every_pair(own, others)
        sides = [
            None if weights is None else weights.unflatten(0, (len(own), len(others)))
            for weights in self.pair_attention_weights(own[rows], others[columns])
        ]
        return Attention(*sides) if any(side is not None for side in sides) else None

    def match(self, questions: States, answers: States) -> Tensor:
        rows, columns = _every_pair(questions, answers)
        return self.match_pairs(questions, answers, rows, columns).view(len(questions), len(answers))

    def match_pairs(self, questions: States, answers: States, rows: Tensor, columns: Tensor) -> Tensor:
        parts = zip(rows.split(PAIRS_AT_ONCE), columns.split(PAIRS_AT_ONCE), strict=True)
        return torch.cat([self.compare(questions.selected(part), answers.selected(others)) for part, others in parts])

    def training_scores(self, questions: States, answers: States, wanted: Tensor, classes: int) -> Tensor:
        rows, columns = wanted.nonzero(as_tuple=True)
        scores = self.training_pairs(questions, answers, rows, columns, classes)
        return scores.new_zeros(*wanted.shape, *scores.shape[1:]).index_put((rows, columns), scores)

    def training_pairs(self, questions: States, answers: States, rows: Tensor, columns: Tensor, classes: int) -> Tensor:
        """(P,) scores, or (P, K) logits, of question `rows[p]` with answer `columns[p]`, as `training_scores`."""
        return self.match_pairs(questions, answers, rows, columns)

    def scale(self, scores: Tensor) -> Tensor:
        return torch.sigmoid(scores)


def _every_pair(questions: States, answers: States) -> tuple[Tensor, Tensor]:
    """The places (P,) of the questions and (P,) of the answers of all B x N pairs."""
    rows = torch.arange(len(questions)).repeat_interleave(len(answers))
    return rows, torch.arange(len(answers)).repeat(len(questions))
