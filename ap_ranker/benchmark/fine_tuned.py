"""What a user would fine-tune instead, with sentence-transformers, on the same pairs from the same encoder.

Both are trained as the library's documentation does it: the bi-encoder with in-batch negatives, the cross-encoder with
wrong answers that the bi-encoder's start ranks highest.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluate import EvaluationSet

EPOCHS, LEARNING_RATE, BATCH_SIZE = 4, 5e-5, 64
"""Of both: the setting with which the bi-encoder was best on the example FAQ's dev questions."""

HARD_NEGATIVES = 4
"""Wrong answers beside each right one that the cross-encoder learns from."""

CROSS_ENCODER_BATCH = 64
"""Pairs per step."""


def check_fine_tuning() -> None:
    """Fail before anything is trained.

    Raises:
        InputError: a package is missing.
    """
    try:
        import datasets  # noqa: F401
        import sentence_transformers  # noqa: F401
    except ImportError as error:
        raise InputError(
            f'Fine-tuning the peers needs an extra, found no {error.name}: pip install "ap-ranker[peers]"'
        ) from error


@dataclass(frozen=True)
class PeerResult:
    """A fine-tuned peer on the test questions.

    Attributes:
        scores: per question, one score per candidate.
        training_seconds: of fine-tuning.
        seconds_per_question: to rank a question's candidates, whose vectors are cached where there are any.
        bytes_per_answer: that are cached; 0 where nothing can be.
        parameters: of the network.
    """

    scores: list[np.ndarray]
    training_seconds: float
    seconds_per_question: float
    bytes_per_answer: int
    parameters: int


class Peer(ABC):
    """A model of sentence-transformers: fine-tuned on a data set, then ranks an evaluation set."""

    name: ClassVar[str]

    def __init__(self, encoder: Path, output: Path, seed: int) -> None:
        self.encoder, self.output, self.seed = encoder, output, seed

    def run(self, data: Dataset, evaluation_set: EvaluationSet) -> PeerResult:
        """Fine-tune and rank; the whole test is ranked once.

        Args:
            data: the pairs to learn from.
            evaluation_set: the questions and candidates to rank.
        """
        started = time.perf_counter()
        self.fine_tune(data)
        trained = time.perf_counter()
        scores, seconds = self.rank(evaluation_set)
        return PeerResult(
            scores=scores,
            training_seconds=trained - started,
            seconds_per_question=seconds / len(evaluation_set.questions),
            bytes_per_answer=self.bytes_per_answer,
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
        )

    model: Any
    bytes_per_answer: int = 0

    @abstractmethod
    def fine_tune(self, data: Dataset) -> None:
        """Learn from the pairs."""

    @abstractmethod
    def rank(self, evaluation_set: EvaluationSet) -> tuple[list[np.ndarray], float]:
        """Scores of each question's candidates, and the seconds that depend on the questions."""

    def _arguments(self, batch_size: int) -> dict[str, Any]:
        return {
            "output_dir": str(self.output),
            "num_train_epochs": EPOCHS,
            "per_device_train_batch_size": batch_size,
            "learning_rate": LEARNING_RATE,
            "warmup_steps": 0.1,
            "seed": self.seed,
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "logging_strategy": "no",
        }


class FineTunedBiEncoder(Peer):
    """One vector per text; the score is their cosine (Reimers & Gurevych 2019)."""

    name = "bi-encoder"

    def fine_tune(self, data: Dataset) -> None:
        import datasets
        from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
        from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
        from sentence_transformers.base.sampler import BatchSamplers
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        self.model = SentenceTransformer(str(self.encoder))
        pairs = [(question.text, data.answers[row].text) for question in data.answerable for row in question.positives]
        columns = dict(zip(("question", "answer"), map(list, zip(*pairs, strict=True)), strict=True))
        SentenceTransformerTrainer(
            model=self.model,
            args=Arguments(**self._arguments(BATCH_SIZE), batch_sampler=BatchSamplers.NO_DUPLICATES),
            train_dataset=datasets.Dataset.from_dict(columns),
            loss=MultipleNegativesRankingLoss(self.model),
        ).train()

    def rank(self, evaluation_set: EvaluationSet) -> tuple[list[np.ndarray], float]:
        answers = self._vectors([answer.text for answer in evaluation_set.dataset.answers])
        self.bytes_per_answer = answers.nbytes // len(answers)
        started = time.perf_counter()
        scores = [
            answers[list(rows)] @ self._vectors([question.text])[0]
            for question, rows in zip(evaluation_set.questions, evaluation_set.pools, strict=True)
        ]
        return scores, time.perf_counter() - started

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        vectors: np.ndarray = self.model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return vectors


class FineTunedCrossEncoder(Peer):
    """Reads question and answer together; nothing can be cached (Nogueira & Cho 2019)."""

    name = "cross-encoder"

    def fine_tune(self, data: Dataset) -> None:
        import datasets
        from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer
        from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments as Arguments
        from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

        self.model = CrossEncoder(str(self.encoder), num_labels=1)
        self.model.max_length = 256  # the encoder's folder says 128 in places, and longer answers are common
        CrossEncoderTrainer(
            model=self.model,
            args=Arguments(**self._arguments(CROSS_ENCODER_BATCH)),
            train_dataset=datasets.Dataset.from_dict(self._labelled(data)),
            loss=BinaryCrossEntropyLoss(self.model),
        ).train()

    def _labelled(self, data: Dataset) -> dict[str, list[Any]]:
        """Each right answer, and the wrong ones that the encoder itself ranks highest for the question."""
        from sentence_transformers import SentenceTransformer

        start = SentenceTransformer(str(self.encoder))
        texts = [answer.text for answer in data.answers]
        answers, questions = (
            start.encode(each, normalize_embeddings=True, show_progress_bar=False)
            for each in (texts, [question.text for question in data.answerable])
        )
        rows: list[tuple[str, str, float]] = []
        for question, vector in zip(data.answerable, questions, strict=True):
            right = set(question.positives)
            wrong = [row for row in np.argsort(-(answers @ vector)).tolist() if row not in right][:HARD_NEGATIVES]
            rows += [(question.text, texts[row], 1.0) for row in question.positives]
            rows += [(question.text, texts[row], 0.0) for row in wrong]
        return dict(zip(("question", "answer", "label"), map(list, zip(*rows, strict=True)), strict=True))

    def rank(self, evaluation_set: EvaluationSet) -> tuple[list[np.ndarray], float]:
        texts = [answer.text for answer in evaluation_set.dataset.answers]
        started = time.perf_counter()
        scores = [
            np.asarray(self.model.predict([(question.text, texts[row]) for row in rows], show_progress_bar=False))
            for question, rows in zip(evaluation_set.questions, evaluation_set.pools, strict=True)
        ]
        return scores, time.perf_counter() - started


PEERS: dict[str, type[Peer]] = {peer.name: peer for peer in (FineTunedBiEncoder, FineTunedCrossEncoder)}
