"""The result as data, as tables and as Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from ap_ranker.evaluation.markdown import markdown_table
from benchmarks.latency import Latency
from benchmarks.peers import CROSS_ENCODER, CROSS_ENCODER_LIMITED
from benchmarks.pipeline import RETRIEVED, RETURNED, Growth, PipelineTimes
from benchmarks.systems import MAX_TOKENS
from benchmarks.training import Epoch


@dataclass(frozen=True)
class Benchmark:
    """All that was measured in one run.

    Attributes:
        data: where it was read from.
        answers: different texts.
        questions: how many were timed.
        machine: what it ran on, in words.
        copy_bandwidth: bytes per second that the GPU copies; `None` on a CPU.
        latency: each number of candidates in turn, with all systems.
        pipeline: each of our models in a search pipeline.
        growth_model: the model of `growth`.
        growth: the smallest store first.
        training: an epoch of each model that was trained; empty without training.
        notes: what a reader must know, a sentence or two each.
    """

    data: str
    answers: int
    questions: int
    machine: str
    copy_bandwidth: float | None
    latency: list[Latency]
    pipeline: list[PipelineTimes]
    growth_model: str
    growth: list[Growth]
    training: list[Epoch]
    notes: list[str]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


@dataclass(frozen=True)
class TextTable:
    """A table to print or to write.

    Attributes:
        title: what it shows.
        header: of its columns; the first one holds names, the others numbers.
        groups: of rows that belong together.
    """

    title: str
    header: list[str]
    groups: list[list[list[str]]]

    def markdown(self) -> str:
        rows = [row for part in self.groups for row in part]
        return f"### {self.title}\n\n{markdown_table(self.header, rows)}"


def tables(benchmark: Benchmark) -> list[TextTable]:
    """All parts of the result; an epoch's only if one was trained."""
    parts = [_latency(benchmark.latency), _pipeline(benchmark.pipeline), _growth(benchmark)]
    return [*parts, _training(benchmark.training)] if benchmark.training else parts


def markdown(benchmark: Benchmark) -> str:
    """All tables, one after the other, and the notes."""
    notes = "\n".join(f"- {note}" for note in benchmark.notes)
    return "\n\n".join([*(table.markdown() for table in tables(benchmark)), notes]) + "\n"


def _latency(rows: Sequence[Latency]) -> TextTable:
    def ratios(row: Latency, cross_encoder: str) -> str:
        found = row.times_faster.get(cross_encoder)
        return f"{short(found.warm)} × / {short(found.cold)} ×" if found else ""

    columns: dict[str, Callable[[Latency], str]] = {
        "system": lambda row: row.system,
        "candidates": lambda row: f"{row.candidates:,}",
        "cold p50": lambda row: short(row.cold.p50),
        "cold p95": lambda row: short(row.cold.p95),
        "warm p50": lambda row: short(row.warm.p50),
        "warm p95": lambda row: short(row.warm.p95),
        "questions/s": lambda row: short(row.questions_per_second),
        "faster warm / cold": lambda row: ratios(row, CROSS_ENCODER),
        f"at {MAX_TOKENS} tokens": lambda row: ratios(row, CROSS_ENCODER_LIMITED),
        "bytes per answer": lambda row: "–" if row.bytes_per_answer is None else f"{row.bytes_per_answer:,.0f}",
        "weights": lambda row: "–" if row.weights_megabytes is None else f"{short(row.weights_megabytes)} MB",
        "of bandwidth": lambda row: "" if row.bandwidth_share is None else f"{row.bandwidth_share:.1%}",
    }
    used = {title: cell for title, cell in columns.items() if any(cell(row) for row in rows)}
    groups = [
        [[cell(row) for cell in used.values()] for row in group]
        for _, group in groupby(rows, key=lambda row: row.candidates)
    ]
    return TextTable("Ranking the candidates of a question (ms)", list(used), groups)


def _pipeline(rows: Sequence[PipelineTimes]) -> TextTable:
    parts = ("pipeline", "retriever", "ranker", "rest", "one_component")
    titles = (*parts[:-1], "as one component")
    header = ["model", *(f"{title} {point}" for title in titles for point in ("p50", "p95"))]
    cells = [[row.model, *(short(value) for part in parts for value in asdict(row)[part].values())] for row in rows]
    return TextTable(
        f"The whole pipeline: BM25's {RETRIEVED} best, then the {RETURNED} best of these (ms)", header, [cells]
    )


def _growth(benchmark: Benchmark) -> TextTable:
    cells = [
        [f"{row.answers:,}", f"{row.candidates:,.0f}", short(row.retriever.p50), short(row.ranker.p50)]
        for row in benchmark.growth
    ]
    header = ["answers", "candidates", "retriever p50", f"{benchmark.growth_model} p50"]
    return TextTable("While the corpus grows, warm (ms)", header, [cells])


def _training(rows: Sequence[Epoch]) -> TextTable:
    cells = [[row.model, f"{row.pairs:,}", f"{short(row.seconds)} s", short(row.pairs / row.seconds)] for row in rows]
    return TextTable("Training", ["model", "pairs", "an epoch", "pairs/s"], [cells])


def short(value: float) -> str:
    """A number with three digits that count, at most two of them after the point."""
    size = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{min(max(2 - size, 0), 2)}f}"
