"""Training on the device that is asked for, where transformers would take the first GPU and all others that it sees."""

from __future__ import annotations

import logging
from typing import Any

import torch
from transformers import TrainingArguments

from ap_ranker.errors import InputError
from ap_ranker.processes import number_on_machine

logger = logging.getLogger(__name__)


class OnOneDevice(TrainingArguments):
    """Arguments of a Trainer for a run on one device; mixed into those of other libraries, too.

    Without `torchrun`, the Trainer of transformers would split batches among all GPUs (`DataParallel`): each would see
    a part of the negatives only. `on` is the device, a GPU with its number.

    Raises:
        InputError: `torchrun` has given this process another GPU.
    """

    def __init__(self, *, on: torch.device, **settings: Any) -> None:
        own = number_on_machine()
        if on.type == "cuda" and own is not None and on.index != own % torch.cuda.device_count():
            raise InputError(
                f"Expected --device auto or cuda under torchrun, which gives each process a GPU of its own, found {on}."
            )
        self._on = on
        super().__init__(use_cpu=on.type == "cpu", **settings)
        if on.type == "cuda":  # accelerate puts the model on the current one, which transformers has set to the first
            torch.cuda.set_device(on)

    @property
    def device(self) -> torch.device:
        """The device; asked for the first time, this begins the communication between processes."""
        _ = super().device
        return self._on

    @property
    def n_gpu(self) -> int:
        """At most one."""
        return min(1, super().n_gpu)


def mention_other_gpus(device: torch.device) -> None:
    """Log how to train on all GPUs, if there are others that this run leaves idle."""
    if device.type == "cuda" and number_on_machine() is None and (count := torch.cuda.device_count()) > 1:
        logger.warning(
            "Training on %s, one of %d GPUs. To share the work among all of them, start the command as "
            "torchrun --nproc-per-node %d -m ap_ranker train ...",
            *(device, count, count),
        )
