"""Draws the plots of the pages into docs/images, from results that are committed as JSON.

    python docs/plots.py

The times are of `python -m benchmarks DATA --models ap-transformer,ap-cnn --json benchmarks/results.json`, which may
also have other models.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
EVERY_STEP = ROOT / "examples" / "every_step" / "results.json"
SMALL_DATA = ROOT / "examples" / "small_data" / "results.json"
BENCHMARK = ROOT / "benchmarks" / "results.json"

SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "ap-ranker", "font.size": 10}
"""Text stays text, and the same numbers give the same file."""

SERVED, WORDINGS, PEER, BM25 = "served", "wordings", "bi-encoder", "BM25"

METHODS = {
    "transformer-fine-tuned": ("ap-transformer, default training", "tab:blue"),
    "transformer-frozen": ("ap-transformer, --quick", "tab:cyan"),
    "transformer-untrained": ("ap-transformer, nothing trained", "tab:green"),
    "glove": ("qa-cnn with GloVe", "tab:purple"),
    "scratch": ("qa-cnn from scratch", "tab:brown"),
}
"""What is drawn of the methods with few pairs: names for a reader, and colours."""

STATES = {
    SERVED: ("the search as served", "tab:blue"),
    WORDINGS: ("with known wordings, nothing trained", "tab:green"),
    PEER: ("bi-encoder, untrained, wordings indexed", "tab:red"),
    BM25: ("BM25", "black"),
}

SYSTEMS = {
    "cross-encoder": "tab:brown",
    "late interaction": "tab:orange",
    PEER: "tab:red",
    "ap-transformer": "tab:blue",
    "ap-cnn": "tab:green",
    BM25: "black",
}
"""What is drawn of the benchmark, with its colours."""


@dataclass(frozen=True)
class Line:
    """What a line shows.

    Attributes:
        name: for a reader.
        colour: of matplotlib.
        points: numbers of questions, pairs or candidates, and the MRR or the milliseconds at each.
    """

    name: str
    colour: str
    points: Mapping[int, float]


def public_faqs() -> tuple[list[Line], int]:
    """MRR of searches by the number of training questions, as the mean of the FAQs that have all sizes; how many."""
    states: defaultdict[tuple[str, int], dict[str, dict[str, Any]]] = defaultdict(dict)
    for cell in json.loads(EVERY_STEP.read_text(encoding="utf-8"))["cells"]:
        if not cell["hubs"]:
            states[cell["faq"], cell["size"]][cell["state"]] = cell
    sizes = sorted({size for _, size in states})
    names = {faq for faq, _ in states}
    faqs = sorted(faq for faq in names if all((faq, size) in states for size in sizes))

    def measured(faq: str, size: int, state: str) -> float:
        """What was measured; nothing is a wording where there are no training questions."""
        own, untrained = states[faq, size], states[faq, 0]["untrained"]
        if state == SERVED:
            is_taken = own["trained"]["recommended"] is not False
            return own["trained"]["mrr"] if is_taken else own.get(WORDINGS, untrained)["mrr"]
        return own.get(state, untrained)["mrr"]

    lines = [
        Line(name, colour, {size: fmean(measured(faq, size, state) for faq in faqs) for size in sizes})
        for state, (name, colour) in STATES.items()
    ]
    return lines, len(faqs)


def few_pairs(data: str) -> list[Line]:
    """MRR of methods by the number of pairs that they learn from; BM25 learns nothing."""
    rows = [row for row in json.loads(SMALL_DATA.read_text(encoding="utf-8")) if row["data"] == data]
    lines = []
    for method, (name, colour) in METHODS.items():
        own = sorted((row for row in rows if row["method"] == method), key=lambda row: row["size"])
        lines.append(Line(name, colour, {row["size"]: fmean(row["model"]["MRR"]) for row in own}))
    sizes = sorted({size for line in lines for size in line.points})
    bm25 = fmean(row["bm25"]["MRR"] for row in rows)
    return [*lines, Line(BM25, "black", dict.fromkeys(sizes, bm25))]


def times(state: str) -> list[Line]:
    """Milliseconds of half of the questions by the number of candidates; the state is `warm` or `cold`."""
    rows = json.loads(BENCHMARK.read_text(encoding="utf-8"))["latency"]
    lines = []
    for system, colour in SYSTEMS.items():
        own = [row for row in rows if row["system"] == system]
        lines.append(Line(system, colour, {row["candidates"]: row[state]["p50"] for row in own}))
    return lines


def draw(axes: Axes, lines: Sequence[Line], title: str, of: str) -> None:
    """One panel: sizes stand at equal distances, with their numbers below."""
    sizes = sorted({size for line in lines for size in line.points})
    for line in lines:
        style = "--" if line.name == BM25 else "-"
        axes.plot(
            [sizes.index(size) for size in line.points],
            list(line.points.values()),
            color=line.colour,
            linestyle=style,
            marker="o",
            markersize=4,
            label=line.name,
        )
    axes.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axes.set(xlabel=of, title=title)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, name: str, folder: Path) -> None:
    """As SVG with a white background, which dark pages need."""
    with rc_context(SETTINGS):
        figure.savefig(folder / name, format="svg", metadata={"Date": None})


def plot_public_faqs(folder: Path = IMAGES) -> None:
    lines, number = public_faqs()
    with rc_context(SETTINGS):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.subplots()
        draw(axes, lines, f"Mean of {number} public FAQs", "training questions")
        axes.set_ylabel("MRR on test questions")
        axes.legend(frameon=False, fontsize=9)
    save(figure, "quality_public_faqs.svg", folder)


@contextmanager
def two_panels(name: str, folder: Path) -> Iterator[tuple[Axes, Axes]]:
    """Two plots side by side, to draw into, with one vertical axis and the legend of the left one; saved at the end."""
    with rc_context(SETTINGS):
        figure = Figure(figsize=(9.5, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        yield left, right
        handles, names = left.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    save(figure, name, folder)


def plot_few_pairs(folder: Path = IMAGES) -> None:
    with two_panels("quality_few_pairs.svg", folder) as (left, right):
        draw(left, few_pairs("faq"), "The example FAQ, 168 entries", "training pairs")
        draw(right, few_pairs("covid"), "A messy FAQ, 1,456 entries", "training pairs")
        left.set_ylabel("MRR on test questions")
        left.set_ylim(0, 1)


def plot_times(folder: Path = IMAGES) -> None:
    """SystemExit: the benchmark's numbers are not there."""
    if not BENCHMARK.exists():
        raise SystemExit(
            f"{BENCHMARK.relative_to(ROOT)}: expected the numbers of a benchmark, found no file. Write it: "
            f"python -m benchmarks insuranceqa --models ap-transformer,ap-cnn --json {BENCHMARK.relative_to(ROOT)}"
        )
    with two_panels("time_by_candidates.svg", folder) as (left, right):
        draw(left, times("warm"), "Warm: answers cached", "candidates")
        draw(right, times("cold"), "Cold: nothing cached", "candidates")
        left.set_yscale("log")
        left.yaxis.set_major_formatter("{x:,g}")
        left.set_ylabel("milliseconds per question (p50)")


if __name__ == "__main__":
    plot_public_faqs()
    plot_few_pairs()
    plot_times()
