"""The contract of every model: `encode` a text on its own, `match` encoded questions with encoded answers.

The trainer, the ranker, the evaluator and the cache know nothing else about a model; what only few need has a default.
Then kinds of models: of word vectors; by the cosine of two vectors; pair by pair; by classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ap_ranker.models.layers import WordEmbedding
from ap_ranker.models.operations import CorpusStatistics, gesd, unit
from ap_ranker.models.spec import DROPOUT, Inputs, Option, Options
from ap_ranker.text.tokenizer import TokenBatch

PAIRS_AT_ONCE = 1024  # of a `PairModel`: more need memory for token-by-token matrices and gain no speed
TOKENS_AT_ONCE = 2**26  # products of two tokens: 256 MB in float32

SIMILARITY = Option("cosine", "how two vectors are compared: cosine, or GESD of Feng et al. 2015", ("cosine", "gesd"))
CLASSES = Option(2, "number of classes of the answers' labels; `train` takes it from the data", least=2, most=100)
CLASSIFIER = {"classes": CLASSES, "dropout": replace(DROPOUT, default=0.1)}
"""The options that classifiers share."""


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

    def map(self, of_tokens: Callable[[Tensor], Tensor], of_texts: Callable[[Tensor], Tensor]) -> States:
        """Apply one function to the mask and all tensors per token, and another to all tensors per text."""
        per_token = {name: of_tokens(value) for name, value in self.per_token.items()}
        return States(of_tokens(self.mask), per_token, {name: of_texts(value) for name, value in self.per_text.items()})

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, rows: slice | Tensor | Sequence[int]) -> States:
        def of_rows(value: Tensor) -> Tensor:
            return value[rows]

        return self.map(of_rows, of_rows)

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
            return pad_sequence(list(chain.from_iterable(tensors)), batch_first=True)

        per_token = {name: padded(part.per_token[name] for part in parts) for name in parts[0].per_token}
        per_text = {name: torch.cat([part.per_text[name] for part in parts]) for name in parts[0].per_text}
        return cls(padded(part.mask for part in parts), per_token, per_text)


@dataclass(frozen=True)
class StoredStates:
    """The states of N texts as a cache stores them: one text after the other, in the cache's dtype, without padding."""

    lengths: np.ndarray  # (N,) number of tokens of each text; R in all
    per_token: Mapping[str, Tensor]  # (R, C) numbers or (R,) integers; scales of numbers `x` in int8 as `x.scale`
    per_text: Mapping[str, Tensor]  # (N, C) numbers, likewise

    @property
    def starts(self) -> np.ndarray:
        """(N,) the row of each text's first token."""
        return np.cumsum(self.lengths) - self.lengths


JudgedCandidates = tuple[States, States, Tensor]
"""The states of one question, those of its N candidates, and (N,) bool: which candidates are right."""


@dataclass(frozen=True)
class Attention:
    """Each token's weight in each pair, (B, N, M) and (B, N, L), summing to 1 over a text; `None`: a side has none."""

    questions: Tensor | None
    answers: Tensor | None


class AnswerModel(nn.Module, ABC):
    """A scorer of question-answer pairs that splits into `encode` and `match`.

    B questions, N answers, P pairs, M question tokens, L answer tokens, C state size.

    Attributes:
        options: the values of its hyper-parameters.
        embedding: the word vectors, into which training loads pre-trained ones; `None` for a model without any.
        statistics: word counts of the answers, set by training; `None` for a model without any.
        temperature: the default divisor of the scores in the in-batch softmax; 1 for log-odds.
        supports_quantization: whether states may be stored in fewer bits than float32.
        stored_bits: the fewest bits per number that cost the model nothing, as which its states are stored: 32 or 8.
        capturable: whether `encode_questions` starts many small operations and needs no number of a GPU on the CPU, so
            that a CUDA graph can hold them.
        fit_questions: maximum number of questions for `fit`.
    """

    embedding: WordEmbedding | None
    statistics: CorpusStatistics | None
    temperature: float = 1.0
    supports_quantization: bool = True
    stored_bits: int = 32
    capturable: bool = False
    fit_questions: int = 500

    def __init__(self, options: Options | None = None) -> None:
        super().__init__()
        self.options = options or Options()
        self.embedding = None
        self.statistics = None

    @abstractmethod
    def encode(self, batch: TokenBatch) -> States:
        """States of N texts. A text's states depend neither on the other texts of the batch nor on padding."""

    @abstractmethod
    def match(self, questions: States, answers: States) -> Tensor:
        """(B, N) scores of every question with every answer; higher is better."""

    def scale(self, scores: Tensor) -> Tensor:
        """Map scores, by default log-odds, to the interval 0 to 1, keeping their order; not to probabilities."""
        return torch.sigmoid(scores)

    def word_vectors(self) -> Tensor | None:
        """(V, D) the vector of each word, as long as the model counts the word; `None` for a model without any."""
        if self.embedding is None:
            return None
        return self.embedding.vectors.weight.detach()

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

    def match_in_parts(self, questions: States, answers: States) -> Tensor:
        """As `match`, of so many answers at once that their products with the questions' tokens fit into memory."""
        at_once = max(1, TOKENS_AT_ONCE // max(1, questions.mask.numel() * answers.mask.shape[1]))
        if at_once >= len(answers):
            return self.match(questions, answers)
        parts = [self.match(questions, answers[start : start + at_once]) for start in range(0, len(answers), at_once)]
        return torch.cat(parts, dim=1)

    def match_pairs(self, questions: States, answers: States, rows: Tensor, columns: Tensor) -> Tensor:
        """(P,) scores of question `rows[p]` with answer `columns[p]`, for a few of the B x N pairs."""
        if questions.mask.is_cuda:  # which scores all pairs of some answers sooner than it starts on the next answer
            return self.match_in_parts(questions, answers)[rows, columns]
        # `match` is called once per answer, so that its states are not copied for each of its questions.
        order = columns.argsort()
        distinct, counts = columns[order].unique_consecutive(return_counts=True)
        groups = zip(distinct.tolist(), order.split(counts.tolist()), strict=True)
        scores = [self.match(questions.selected(rows[pairs]), answers[c : c + 1])[:, 0] for c, pairs in groups]
        return torch.cat(scores)[order.argsort()]

    def training_scores(self, questions: States, answers: States, wanted: Tensor, classes: int) -> Tensor:
        """(B, N) scores for the objective, or (B, N, K) logits of a classifier of more than two classes.

        Pairs that are not `wanted` (B, N) may have any score, if a model scores some pairs more cheaply than all.
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
        """The trained parameters, as torch's optimisers expect them; a pretrained encoder has a rate of its own."""
        return [{"params": [parameter for parameter in self.parameters() if parameter.requires_grad], "lr": rate}]

    def cache_frozen_states(self, *, outlives: bool = True) -> AbstractContextManager[None]:
        """A context in which the model may cache the outputs of its frozen parts, so that it reads no text twice.

        What it adds may outlive the context, for the next run, only if it `outlives`.
        """
        return nullcontext()

    def forward(self, questions: TokenBatch, answers: TokenBatch) -> Tensor:
        """(B, N) scores of B questions with N answers, encoding both."""
        return self.match(self.encode_questions(questions), self.encode_answers(answers))


# --- kinds of models ---


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
        q = questions.per_text["vector"]
        a = answers.per_text["vector"]
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
        question_states = self.encode_questions(questions)
        answer_states = self.encode_answers(answers)
        rows, columns = _all_pairs(question_states, answer_states)
        sides = []
        for weights in self.pair_attention_weights(question_states[rows], answer_states[columns]):
            sides.append(None if weights is None else weights.unflatten(0, (len(question_states), len(answer_states))))
        if any(side is not None for side in sides):
            return Attention(*sides)
        return None

    def match(self, questions: States, answers: States) -> Tensor:
        rows, columns = _all_pairs(questions, answers)
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


def _all_pairs(questions: States, answers: States) -> tuple[Tensor, Tensor]:
    """(B · N,) rows of the questions and of the answers, on their device."""
    device = questions.mask.device
    rows = torch.arange(len(questions), device=device)
    columns = torch.arange(len(answers), device=device)
    return rows.repeat_interleave(len(columns)), columns.repeat(len(rows))


class Classifier(PairModel):
    """A softmax over K classes, worst to best; the score is the log-odds of the last, which order as P does."""

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
