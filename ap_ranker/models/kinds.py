"""Kinds of models: of word vectors; by the cosine of two vectors; pair by pair; by classes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import torch
from torch import Tensor, nn

from ap_ranker.models.base import AnswerModel, Attention, States
from ap_ranker.models.encoders import WordEmbedding
from ap_ranker.models.operations import gesd, unit
from ap_ranker.models.spec import DROPOUT, Bounds, Inputs, Option, Options
from ap_ranker.text.batch import TokenBatch

PAIRS_AT_ONCE = 1024
"""Pairs that a `PairModel` compares at once: more need memory for token-by-token matrices and gain no speed."""

SIMILARITY = Option("cosine", "how two vectors are compared: cosine, or GESD of Feng et al. 2015", ("cosine", "gesd"))
CLASSES = Option(2, "number of classes of the answers' labels; `train` takes it from the data", bounds=Bounds(2, 100))
CLASSIFIER = {"classes": CLASSES, "dropout": replace(DROPOUT, default=0.1)}
"""The options that classifiers share."""


class WordModel(AnswerModel):
    """A model of word vectors."""

    embedding: WordEmbedding

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(options)
        self.embedding = WordEmbedding(inputs, getattr(options, "dropout", 0.0))


class CosineModel(AnswerModel):
    """A model whose score is the cosine of two vectors, -1 to 1, or by the option `similarity` their GESD, 0 to 1."""

    temperature = 0.05  # the values of both lie close together: a softmax over them could not become confident

    @property
    def by_gesd(self) -> bool:
        return getattr(self.options, "similarity", "cosine") == "gesd"

    def scale(self, scores: Tensor) -> Tensor:
        return scores if self.by_gesd else (1 + scores) / 2


class Siamese(CosineModel, WordModel):
    """s(q, a) = cos(r_q, r_a), or GESD(r_q, r_a); all else is computed before the question is known."""

    @abstractmethod
    def represent(self, batch: TokenBatch) -> Tensor:
        """(N, C) one vector per text."""

    def encode(self, batch: TokenBatch) -> States:
        vector = self.represent(batch)
        return States(batch.mask, per_text={"vector": vector if self.by_gesd else unit(vector)})

    def match(self, questions: States, answers: States) -> Tensor:
        q, a = questions.per_text["vector"], answers.per_text["vector"]
        return gesd(q, a) if self.by_gesd else q @ a.T

    def text_vectors(self, states: States) -> Tensor:
        return unit(states.per_text["vector"])


class PairModel(WordModel):
    """A model that compares aligned pairs: P questions with P answers. Scores are log-odds."""

    @abstractmethod
    def compare(self, questions: States, answers: States) -> Tensor:
        """(P,) score of each question with the answer at the same position."""

    def pair_attention_weights(self, questions: States, answers: States) -> tuple[Tensor | None, Tensor | None]:
        """(P, M) and (P, L) attention weights of each question and of the answer at the same position."""
        return None, None

    def attention_weights(self, questions: TokenBatch, answers: TokenBatch) -> Attention | None:
        question_states, answer_states = self.encode_questions(questions), self.encode_answers(answers)
        rows, columns = _every_pair(question_states, answer_states)
        sides = [
            None if weights is None else weights.unflatten(0, (len(question_states), len(answer_states)))
            for weights in self.pair_attention_weights(question_states[rows], answer_states[columns])
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
    """The indices (P,) of the questions and (P,) of the answers of all B x N pairs."""
    rows = torch.arange(len(questions)).repeat_interleave(len(answers))
    return rows, torch.arange(len(answers)).repeat(len(questions))


class Classifier(PairModel):
    """A softmax over K classes, ordered from worst to best; the score is the log-odds of the last class.

    log P(best) / (1 - P(best)) orders answers as P(best) does, and does not saturate.
    """

    head: nn.Sequential

    @abstractmethod
    def features(self, questions: States, answers: States) -> Tensor:
        """(P, ·) the input of `head`, whose outputs are the (P, K) logits."""

    def compare(self, questions: States, answers: States) -> Tensor:
        return log_odds(self.head(self.features(questions, answers)))

    def training_pairs(self, questions: States, answers: States, rows: Tensor, columns: Tensor, classes: int) -> Tensor:
        if classes > 2:
            return self.head(self.features(questions[rows], answers[columns]))
        return super().training_pairs(questions, answers, rows, columns, classes)


def log_odds(logits: Tensor) -> Tensor:
    """(P, K) -> (P,): the last class against all others."""
    return logits[:, -1] - logits[:, :-1].logsumexp(dim=1)


def hidden_layer(inputs: int, hidden: int, classes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """One hidden layer, then one logit per class."""
    return nn.Sequential(nn.Linear(inputs, hidden), activation(), nn.Linear(hidden, classes))
