"""Plots a comparison of models: quality, time and size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ap_ranker.evaluation.plots import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ap_ranker.training.compare import Comparison


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Plot MRR as bars with its deviation, BM25 and random order as lines; MRR against time, P@1 against size."""
    from matplotlib.figure import Figure

    results = comparison.results[::-1]  # bars are drawn from the bottom up
    labels = [result.label for result in results]
    mrr = [result.mean("MRR") for result in results]
    learnt = [result for result in results if result.parameters]  # the axis of sizes is logarithmic
    figure = Figure(figsize=(16 if learnt else 11, 2 + 0.28 * len(results)), layout="constrained")
    bars, costs, *sizes = figure.subplots(1, 3 if learnt else 2)
    bars.barh(labels, mrr, xerr=[result.deviation("MRR") for result in results], color="tab:blue", alpha=0.8)
    bars.axvline(comparison.bm25["MRR"], color="tab:orange", label=comparison.bm25_name)
    bars.axvline(comparison.random["MRR"], color="grey", linestyle=":", label="random order")
    bars.set_xlabel("MRR")
    bars.legend(loc="lower right")
    times = {result.label: (result.seconds_per_question * 1000, result.mean("MRR")) for result in results}
    _draw_costs(costs, times, "milliseconds per question, answers encoded beforehand")
    costs.axhline(comparison.bm25["MRR"], color="tab:orange")
    costs.set_ylabel("MRR")
    for axes in sizes:
        parameters = {result.label: (float(result.parameters), result.mean("P@1")) for result in learnt}
        _draw_costs(axes, parameters, "parameters beside the word vectors")
        axes.axhline(comparison.bm25["P@1"], color="tab:orange")
        axes.set_ylabel("P@1")
    figure.suptitle(f"{comparison.n_questions:,} questions, {len(comparison.seeds)} seed(s)")
    save_figure(figure, path)


def _draw_costs(axes: Axes, points: dict[str, tuple[float, float]], name: str) -> None:
    """Plot named points over a logarithmic axis of costs."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axes.scatter(*zip(*points.values(), strict=True), color="tab:blue")
    for label, point in points.items():
        axes.annotate(label, point, fontsize=7, xytext=(3, 3), textcoords="offset points")
    axes.set_xscale("log")
    axes.margins(x=0.2)  # room for the labels
    lowest, highest = (end(cost for cost, _ in points.values()) for end in (min, max))
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if highest < 1000 * lowest else (1,)))
    axes.xaxis.set_major_formatter(EngFormatter(sep="") if highest >= 1000 else "{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(name)
