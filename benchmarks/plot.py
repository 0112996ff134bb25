"""The times of a benchmark as a picture, by matplotlib."""

from __future__ import annotations

import math
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from ap_ranker.files import atomic_file
from benchmarks.peers import CROSS_ENCODER
from benchmarks.report import short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from benchmarks.latency import Latency
    from benchmarks.report import Benchmark

OURS = ("tab:blue", "tab:green", "tab:purple", "tab:cyan", "tab:pink", "tab:olive")
OTHERS = ("black", "dimgrey", "tab:red", "tab:orange", "tab:brown")


def plot_benchmark(benchmark: Benchmark, path: Path) -> None:
    """Draw time against the number of candidates and, if it was measured, the lead over the cross-encoder as bars."""
    from matplotlib.figure import Figure

    rows = benchmark.latency
    colours = _colours(rows, ours={row.model for row in benchmark.pipeline})
    numbers = {row.candidates for row in rows}
    shown = 100 if 100 in numbers else max(numbers)  # 100 is what a pipeline usually retrieves
    compared = [row for row in rows if row.candidates == shown and CROSS_ENCODER in row.times_faster]
    figure = Figure(figsize=(13 if compared else 7.5, 5.4), layout="constrained")
    axes = figure.subplots(1, 2 if compared else 1, squeeze=False)[0]
    _draw_times(axes[0], rows, colours)
    if compared:
        _draw_lead(axes[1], [row for row in compared if row.system != CROSS_ENCODER], CROSS_ENCODER, colours)
    figure.suptitle(f"{benchmark.answers:,} answers, {benchmark.questions} questions; {benchmark.machine}", fontsize=10)
    with atomic_file(path) as draft:
        figure.savefig(draft, format="png", dpi=150)


def _colours(rows: Sequence[Latency], ours: set[str]) -> dict[str, str]:
    """Ours and the others, each from their own colours."""
    names = list(dict.fromkeys(row.system for row in rows))
    mine, others = ([name for name in names if (name in ours) == own] for own in (True, False))
    pairs = (*zip(mine, cycle(OURS), strict=False), *zip(others, cycle(OTHERS), strict=False))
    return dict(pairs)


def _draw_times(axes: Axes, rows: Sequence[Latency], colours: dict[str, str]) -> None:
    """Warm as solid, cold as dashed lines; each system's name stands where its warm line ends."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ends = {}
    for name, colour in colours.items():
        own = [row for row in rows if row.system == name]
        numbers = [row.candidates for row in own]
        warm, cold = [row.warm.p50 for row in own], [row.cold.p50 for row in own]
        ends[name] = warm[-1]
        axes.plot(numbers, warm, color=colour, marker="o", markersize=4)
        if cold != warm:
            axes.plot(numbers, cold, color=colour, linestyle="--", marker="o", markersize=3, alpha=0.6, linewidth=1.2)
    for style, meaning in (("-", "warm: answers cached"), ("--", "cold: nothing cached")):
        axes.plot([], [], color="black", linestyle=style, label=meaning)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sorted({row.candidates for row in rows}))
    axes.xaxis.set_minor_locator(LogLocator(subs=()))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("candidates")
    axes.set_ylabel("milliseconds per question (p50)")
    axes.grid(which="major", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    for name, place in _spread(ends, axes.get_ylim()).items():
        where = axes.get_yaxis_transform()  # the axis' right end, but the line's height
        axes.text(1.01, place, name, color=colours[name], transform=where, verticalalignment="center", fontsize=9)


def _spread(heights: dict[str, float], limits: tuple[float, float]) -> dict[str, float]:
    """Heights on a logarithmic axis, moved as little as makes room for a line of text at each."""
    room = (math.log10(limits[1]) - math.log10(limits[0])) / 22
    names = sorted(heights, key=heights.__getitem__)
    places = [math.log10(heights[name]) for name in names]
    for _ in range(100):  # each round moves neighbours apart that are too close, which may push others
        for lower in range(len(places) - 1):
            if (missing := room - (places[lower + 1] - places[lower])) > 0:
                places[lower] -= missing / 2
                places[lower + 1] += missing / 2
    return {name: 10**place for name, place in zip(names, places, strict=True)}


def _draw_lead(axes: Axes, rows: Sequence[Latency], reference: str, colours: dict[str, str]) -> None:
    """A warm and a paler cold bar for each system, or one where they are equal; the fastest system on top."""
    ordered = sorted(rows, key=lambda row: row.times_faster[reference].warm)
    for place, row in enumerate(ordered):
        ratio = row.times_faster[reference]
        bars = [(0.2, ratio.warm, " warm", 0.9), (-0.2, ratio.cold, " cold", 0.4)]
        for shift, value, name, alpha in bars if ratio.warm != ratio.cold else [(0.0, ratio.warm, "", 0.9)]:
            # Bars begin at 1, equally fast.
            axes.barh(place + shift, value - 1, 0.38, left=1, color=colours[row.system], alpha=alpha)
            where = (max(value, 1), place + shift)
            text = f"{short(value)} ×{name}"
            axes.annotate(text, where, (4, 0), textcoords="offset points", verticalalignment="center", fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.margins(x=0.22)  # room for the numbers
    axes.set_yticks(range(len(ordered)), [row.system for row in ordered])
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel(f"times faster than the {reference}, {ordered[0].candidates:,} candidates")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
