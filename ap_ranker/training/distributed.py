"""One batch over several processes: each encodes and scores a share, all see the whole.

Every process is given the same batch. It encodes its share of the questions and answers, collects the other answers'
states, scores its questions with all answers, and collects the other scores. So the loss is that of one process with
the same batch, and every answer of the batch is a negative whichever process encoded it.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather

from ap_ranker.models.base import States
from ap_ranker.processes import process_number


def is_first_process() -> bool:
    """Whether this process writes files and speaks to the user: the only one, or the first that `torchrun` started."""
    return process_number() == 0


def processes() -> int:
    """How many there are."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def wait_for_all() -> None:
    """Go on when every process has come here."""
    if processes() > 1:
        dist.barrier()


def share(n: int, device: torch.device) -> Tensor:
    """The positions, of 0 ... n - 1, that this process computes.

    All processes have equally many: the last ones begin again at 0, and `gather` drops what is double.
    """
    each = -(-n // processes())
    start = dist.get_rank() * each if processes() > 1 else 0
    return torch.arange(start, start + each, device=device) % n


def gather(values: Tensor, n: int) -> Tensor:
    """All processes' (n / processes, ...) values as (n, ...); gradients find their way back."""
    if processes() == 1:
        return values
    if values.is_floating_point():
        return torch.cat(all_gather(values.contiguous()))[:n]
    sent = values.contiguous().long()
    parts = [torch.empty_like(sent) for _ in range(processes())]
    dist.all_gather(parts, sent)
    return torch.cat(parts)[:n].to(values.dtype)


def gather_states(states: States, n: int) -> States:
    """All processes' states; texts of the same batch are equally wide on all of them."""
    if processes() == 1:
        return states
    return states.map(lambda value: gather(value, n), lambda value: gather(value, n))
