"""Keeps the weights of the epoch that ranks the dev questions best; untrained ones are epoch 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback


class BestEpoch(TrainerCallback):
    """Measures a model before training and after each epoch, and keeps the best weights, the first of equal ones.

    Attributes:
        number: that of the best epoch.
        measured: of each epoch, from 0.
    """

    def __init__(self, model: torch.nn.Module, measure: Callable[[], float]) -> None:
        self.model = model
        self.measure = measure
        self.number = 0
        self.measured: list[float] = []
        self._weights: dict[str, Tensor] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the untrained model, as training has prepared it: with the same precision as later."""
        self._add()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure what was learnt so far."""
        self._add()

    def restore(self) -> None:
        """Give the model its best weights back."""
        self.model.load_state_dict(self._weights)

    def _add(self) -> None:
        value = self.measure()
        if not self.measured or value > max(self.measured):
            self.number = len(self.measured)
            self._weights = {}
            for name, weights in self.model.state_dict().items():
                self._weights[name] = weights.detach().to("cpu", copy=True)
        self.measured.append(value)
