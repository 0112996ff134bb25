"""Distributes a batch over several processes: each encodes and scores a share, and all compute the whole loss.

Every process gets the same batch, encodes its share of the questions and answers, gathers the states of the other
answers, scores its questions with all answers, and gathers the other scores. So the loss equals that of one process,
and every answer of the batch is a negative whichever process encoded it.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather

from ap_ranker.models.base import States
from ap_ranker.processes import process_number


def is_first_process() -> bool:
    """Whether this process writes files and prints: it is the only one, or the first one of `torchrun`."""
    return process_number() == 0


def processes() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


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
    if values.is_floating_point():
        return torch.cat(all_gather(values.contiguous()))[:n]
    integers = values.contiguous().long()
    parts = [torch.empty_like(integers) for _ in range(processes())]
    dist.all_gather(parts, integers)
    return torch.cat(parts)[:n].to(values.dtype)


def gather_states(states: States, n: int) -> States:
    """Concatenate all processes' states; a batch has the same width in each of them."""
    return states.map(lambda value: gather(value, n), lambda value: gather(value, n))
