"""Where a run computes: on the one device that is asked for, or in several processes, which share each batch.

Every process gets the same batch, encodes its share of the questions and answers, gathers the states of the other
answers, scores its questions with all answers, and gathers the other scores. So the loss equals that of one process,
and every answer of the batch is a negative whichever process encoded it.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather
from transformers import TrainingArguments

from ap_ranker.errors import InputError
from ap_ranker.processes import number_on_machine

logger = logging.getLogger(__name__)


def processes() -> int:
    """The number of processes."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    return 1


def wait_for_all() -> None:
    """Block until every process has called this."""
    if processes() > 1:
        dist.barrier()


def share(n: int, device: torch.device) -> Tensor:
    """The positions in 0 ... n - 1 that this process computes.

    All shares have equal sizes: the last ones wrap around to 0, and `gather` drops the duplicates.
    """
    size = -(-n // processes())
    start = dist.get_rank() * size if processes() > 1 else 0
    return torch.arange(start, start + size, device=device) % n


def gather(values: Tensor, n: int) -> Tensor:
    """Concatenate all processes' (n / processes, ...) values to (n, ...), with gradients."""
    if processes() == 1:
        return values
    sent = values if values.is_floating_point() else values.long()  # not all backends send truth values
    return torch.cat(all_gather(sent))[:n].to(values.dtype)


class OnOneDevice(TrainingArguments):
    """Arguments of a Trainer for a run on one device; mixed into those of other libraries, too.

    Without `torchrun`, the Trainer of transformers would split batches among all GPUs (`DataParallel`): each would see
    a part of the negatives only. `on` is the device, a GPU with its number; InputError if `torchrun` has given this
    process another GPU.
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
    if device.type != "cuda" or number_on_machine() is not None:
        return
    count = torch.cuda.device_count()
    if count > 1:
        logger.warning(
            "Training on %s, one of %d GPUs. To share the work among all of them, start the command as "
            "torchrun --nproc-per-node %d -m ap_ranker train ...",
            *(device, count, count),
        )
