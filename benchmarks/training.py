"""How long an epoch takes, without the judging of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from transformers import TrainerCallback

from ap_ranker.data.dataset import Dataset
from ap_ranker.training.compare import Contender
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train
from benchmarks.latency import Tell

DEV_QUESTIONS = 20
"""An epoch must be judged, but how well is of no interest here."""


@dataclass(frozen=True)
class Epoch:
    """One pass over the training pairs.

    Attributes:
        model: as the user named it.
        pairs: (question, right answer) pairs that it passed over; with few, answer sentences are among the questions.
        seconds: for the whole pass.
    """

    model: str
    pairs: int
    seconds: float


class EpochClock(TrainerCallback):
    """Times an epoch from its first step to its last: dev questions are ranked after that."""

    pairs = 0
    seconds = 0.0
    _started = 0.0

    def on_epoch_begin(self, *args: Any, **kwargs: Any) -> None:
        self.pairs = len(kwargs["train_dataloader"].dataset)
        self._started = perf_counter()

    def on_epoch_end(self, *args: Any, **kwargs: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # the last steps may still be under way
        self.seconds = perf_counter() - self._started


def measure_epochs(
    contenders: Sequence[Contender], data: Dataset, dev: Dataset, folder: Path, device: torch.device, tell: Tell
) -> list[Epoch]:
    """Train each model for one epoch, with word vectors learnt from nothing.

    Args:
        contenders: the models.
        data: to learn from.
        dev: judges the epoch.
        folder: where the checkpoints are written.
        device: where the models run.
        tell: told of each model.
    """
    epochs = []
    for number, contender in enumerate(contenders):
        tell(f"Training {contender.label} for an epoch")
        config = TrainingConfig(contender.model, contender.options, epochs=1, dev_questions=DEV_QUESTIONS)
        clock = EpochClock()
        train(data, dev, folder / f"trained-{number}", config, device=str(device), callbacks=(clock,))
        epochs.append(Epoch(contender.label, clock.pairs, clock.seconds))
    return epochs
