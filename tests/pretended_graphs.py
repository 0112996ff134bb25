"""Streams and graphs of the pretended GPU (`pretended_cuda.py`), which obey the rules of CUDA's.

- What is captured is kept as its operators, their arguments and the memory of their results. A replay computes them
  again in that memory, from what the arguments' memory has by then. Until the first replay it holds garbage.
- A replay leaves garbage in the results of the other graphs of its pool, which may lie in the same memory.
- During a capture, nothing may ask what was computed, copy from or to the CPU, or wait for the GPU. In the mode
  `global`, no other thread may take memory either. Who does so has spoilt the capture: its end raises, too, and leaves
  the thread on the stream of the capture, as torch does.
- An operator that ran on no side stream before lacks its workspace in a capture. The default stream cannot be captured.

Nothing is learnt here of work that two streams do in the wrong order: everything is done at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
ASKING = {aten.is_nonzero.default, aten.item.default, aten._local_scalar_dense.default, aten.masked_select.default}
"""What waits for a number of the GPU, beside the operators that torch's own tags name."""

REFUSED = "CUDA error: operation not permitted when stream is capturing"
SPOILT = "CUDA error: operation failed due to a previous error during capture"


class Stream:
    """In whose order work is done."""

    def __init__(self, device: Any = None) -> None:
        pass

    def wait_stream(self, other: Stream) -> None:
        pass

    def wait_event(self, event: Event) -> None:
        pass


class Event:
    """A moment in the work of a stream."""

    def record(self, stream: Stream | None = None) -> None:
        pass


DEFAULT = Stream()


class _Here(threading.local):
    stream = DEFAULT


here = _Here()


@contextmanager
def stream(wanted: Stream) -> Iterator[None]:
    """Work is done on this stream within, and afterwards on the one before."""
    before = here.stream
    here.stream = wanted
    try:
        yield
    finally:
        here.stream = before


def current_stream(device: Any = None) -> Stream:
    return here.stream


@dataclass
class _Capture:
    thread: int
    mode: str
    steps: list[tuple[Callable[[], Any], list[Tensor]]] = field(default_factory=list)
    own: dict[int, Tensor] = field(default_factory=dict)  # memory that was taken within, by its address
    is_spoilt: bool = False


class _Process:
    """What all threads share."""

    underway: _Capture | None = None


process = _Process()
warm: set[Any] = set()


def is_capturing() -> bool:
    """Whether what this thread does now is captured."""
    return process.underway is not None and process.underway.thread == threading.get_ident()


def refuse() -> None:
    """What no capture allows to its thread."""
    if process.underway is not None and is_capturing():
        process.underway.is_spoilt = True
        raise RuntimeError(REFUSED)


def check_memory() -> None:
    """Taking memory may be a call that spoils captures of others, too."""
    if process.underway is not None and process.underway.mode == "global" and not is_capturing():
        process.underway.is_spoilt = True
        raise RuntimeError(REFUSED)


def check_operator(operator: Any, args: tuple[Any, ...]) -> None:
    """Refuse an operator whose result, or its shape, the CPU would have to know."""
    if here.stream is not DEFAULT and not is_capturing():
        warm.add(operator)
    if not is_capturing():
        return
    asks = operator in ASKING or torch.Tag.data_dependent_output in operator.tags
    if torch.Tag.dynamic_output_shape in operator.tags:
        positions = args[1] if operator is aten.index.Tensor else []
        asks = operator is not aten.index.Tensor or any(p is not None and p.dtype == torch.bool for p in positions)
    if asks or operator not in warm:
        refuse()


def tensors_in(values: Any) -> list[Tensor]:
    """All tensors of nested arguments or results."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    if not isinstance(values, list | tuple):
        return []
    found: list[Tensor] = []
    for value in values:
        found += tensors_in(value)
    return found


def record(compute: Callable[[], Any], args: Any, results: Any) -> None:
    """Keep what was computed, if this is captured; all tensors lie in the CPU's memory."""
    if process.underway is None or not is_capturing():
        return
    known = {values.untyped_storage().data_ptr() for values in tensors_in(args)}
    for values in tensors_in(results):
        if values.untyped_storage().data_ptr() not in known:
            process.underway.own[values.data_ptr()] = values
    process.underway.steps.append((compute, tensors_in(results)))


class Pool:
    """Memory that several graphs share."""

    def __init__(self) -> None:
        self.graphs: list[CUDAGraph] = []


class CUDAGraph:
    """As torch's."""

    capture: _Capture
    pool: Pool

    def replay(self) -> None:
        """Compute everything once more."""
        launched("replay")
        for other in self.pool.graphs:
            if other is not self:
                other.spoil()
        with torch._C.DisableTorchFunctionSubclass():
            for compute, results in self.capture.steps:
                for kept, new in zip(results, tensors_in(compute()), strict=True):
                    if new.data_ptr() != kept.data_ptr():
                        kept.copy_(new)

    def spoil(self) -> None:
        """Leave garbage in all memory that was taken while this was captured."""
        with torch._C.DisableTorchFunctionSubclass():
            for values in self.capture.own.values():
                values.fill_(float("nan") if values.is_floating_point() else 0)


class graph:  # noqa: N801 - as torch's
    """Capture what is done within."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Pool | None = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        self.cuda_graph = cuda_graph
        self.stream = stream or Stream()
        self.mode = capture_error_mode
        cuda_graph.pool = pool or Pool()

    def __enter__(self) -> None:
        if self.stream is DEFAULT:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        if process.underway is not None:
            raise RuntimeError("Only one capture may be underway at a time in the process.")
        self.before = here.stream
        here.stream = self.stream
        process.underway = _Capture(threading.get_ident(), self.mode)

    def __exit__(self, *_: object) -> None:
        assert process.underway is not None
        capture = process.underway
        process.underway = None
        if capture.is_spoilt:
            raise RuntimeError(SPOILT)
        here.stream = self.before
        self.cuda_graph.capture = capture
        self.cuda_graph.pool.graphs.append(self.cuda_graph)
        self.cuda_graph.spoil()


def launched(name: str) -> None:
    """Is called for each operation that a GPU would start, for those who count them."""


REPLACED = {
    "Stream": Stream,
    "Event": Event,
    "stream": stream,
    "current_stream": current_stream,
    "CUDAGraph": CUDAGraph,
    "graph": graph,
    "graph_pool_handle": Pool,
    "is_current_stream_capturing": is_capturing,
}
"""What of `torch.cuda` is of this module."""
