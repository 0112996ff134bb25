"""Milliseconds per question: every system on the same candidates, with nothing cached and with all of them cached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Self

import numpy as np
import torch
from haystack import Document

from benchmarks.corpus import Corpus
from benchmarks.systems import System

SLOW_SECONDS = 5.0
"""A system whose calls take longer is measured on `FEW` questions only, so that a run ends the same day."""

FEW = 3

Tell = Callable[[str], None]
"""Told what is being measured."""


@dataclass(frozen=True)
class Times:
    """Milliseconds: half of the calls took at most `p50`, 95 of 100 at most `p95`."""

    p50: float
    p95: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """Of at least one call."""
        p50, p95 = np.percentile(seconds, (50, 95)) * 1000
        return cls(float(p50), float(p95))


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as another system with the same candidates: its p50 divided by ours."""

    warm: float
    cold: float


@dataclass(frozen=True)
class Latency:
    """One system with one number of candidates.

    Attributes:
        system: its name.
        candidates: how many documents it ranked per question.
        questions: how many questions were timed.
        cold: nothing cached.
        warm: the same candidates once more, with another question.
        questions_per_second: 1 / mean warm time, of one process.
        bytes_per_answer: what it keeps of a document; `None` for systems that keep nothing.
        weights_megabytes: of its parameters; `None` without any.
        bandwidth_share: bytes kept of the candidates per warm second, as a share of what the device can copy; `None`
            on a CPU, and for systems without a state per token.
        times_faster: than each of the systems compared with, by name.
    """

    system: str
    candidates: int
    questions: int
    cold: Times
    warm: Times
    questions_per_second: float
    bytes_per_answer: float | None
    weights_megabytes: float | None
    bandwidth_share: float | None = None
    times_faster: dict[str, Ratio] = field(default_factory=dict)


def timed(run: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[float, Any]:
    """The seconds of a call, and its result.

    On a GPU a call may return before its work is done, but not here: components return Python floats, and so they wait.
    """
    started = perf_counter()
    result = run(*args, **kwargs)
    return perf_counter() - started, result


def measure(
    systems: Sequence[System], corpus: Corpus, candidates: Sequence[int], bandwidth: float | None, tell: Tell
) -> list[Latency]:
    """Time every system with every number of candidates.

    The questions' loop is the outer one and the systems' the inner one, so that whatever else the machine does meets
    all systems alike.

    Args:
        systems: what to time.
        corpus: the questions and the answers.
        candidates: how many answers are ranked per question, once for each number.
        bandwidth: bytes that the device copies per second; `None` on a CPU.
        tell: told of each question.
    """
    pools = corpus.candidates(max(candidates))
    return [row for n in candidates for row in _measure(systems, corpus, n, pools, bandwidth, tell)]


def _measure(
    systems: Sequence[System],
    corpus: Corpus,
    n: int,
    pools: Sequence[list[Document]],
    bandwidth: float | None,
    tell: Tell,
) -> list[Latency]:
    cold: dict[str, list[float]] = {system.name: [] for system in systems}
    warm: dict[str, list[float]] = {system.name: [] for system in systems}
    for system in systems:
        tell(f"{n:,} candidates: warming up {system.name}")
        _warm_up(system, corpus.questions[0], pools[0][:n])
    for number, ((question, other), pool) in enumerate(zip(corpus.questions, pools, strict=True)):
        for system in systems:
            name = system.name
            # Not the slowest call decides: that one may be the machine's fault.
            if number >= FEW and min(cold[name]) > SLOW_SECONDS:
                continue
            tell(f"{n:,} candidates: question {number + 1} of {len(pools)}, {name}")
            system.forget()
            cold[name].append(timed(system.run, question, pool[:n])[0])
            warm[name].append(timed(system.run, other, pool[:n])[0] if system.caches else cold[name][-1])
    return [_row(system, n, cold[system.name], warm[system.name], bandwidth) for system in systems]


def _warm_up(system: System, questions: tuple[str, str], documents: list[Document]) -> None:
    """Run a system twice, or once if that takes so long that nothing is left to warm up."""
    first, second = questions
    if timed(system.run, first, documents)[0] <= SLOW_SECONDS:
        system.run(second, documents)


def _row(system: System, n: int, cold: list[float], warm: list[float], bandwidth: float | None) -> Latency:
    entries, kept = system.cached
    times = Times.of(warm)
    return Latency(
        system=system.name,
        candidates=n,
        questions=len(cold),
        cold=Times.of(cold),
        warm=times,
        questions_per_second=1 / float(np.mean(warm)),
        bytes_per_answer=kept / entries if entries else None,
        weights_megabytes=None if system.weights is None else system.weights / 1e6,
        # The cache was emptied before the last question: what it holds now are that question's candidates.
        bandwidth_share=kept / (times.p50 / 1000) / bandwidth if bandwidth and system.token_states else None,
    )


def copy_bandwidth(device: torch.device) -> float:
    """Bytes per second that a GPU reads and writes while it copies a gigabyte."""
    source = torch.empty(2**30, dtype=torch.uint8, device=device)
    target = source.clone()
    torch.cuda.synchronize(device)
    started = perf_counter()
    for _ in range(10):
        target.copy_(source)
    torch.cuda.synchronize(device)
    return 10 * 2 * source.nbytes / (perf_counter() - started)
