"""What `ap-ranker compare --json` found, as a picture.

python examples/pictures/comparison.py COMPARISON.json --output table.png
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.files import atomic_file
from ap_ranker.training.compare import Comparison, Result


def command(
    comparison: Annotated[Path, typer.Argument(help="What `ap-ranker compare --json` wrote.")],
    output: Annotated[Path, typer.Option(help="The PNG file to write.")],
) -> None:
    """Draw a comparison of models."""
    found = json.loads(comparison.read_text(encoding="utf-8"))
    results = [Result(**each) for each in found.pop("results")]
    plot_comparison(Comparison(**found, results=results), output)


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Plot MRR as bars with its deviation, BM25 and random order as lines; MRR against time, P@1 against size."""
    results = comparison.results[::-1]  # bars are drawn from the bottom up
    times = {result.label: result.seconds_per_question * 1000 for result in results}
    sizes = {result.label: float(result.parameters) for result in results if result.parameters}  # on a logarithmic axis
    figure = Figure(figsize=(16 if sizes else 11, 2 + 0.28 * len(results)), layout="constrained")
    bars, *others = figure.subplots(1, 3 if sizes else 2)
    mrr = [result.mean("MRR") for result in results]
    deviation = [np.std(result.measures["MRR"], ddof=1) for result in results] if len(comparison.seeds) > 1 else None
    bars.barh([result.label for result in results], mrr, xerr=deviation, color="tab:blue", alpha=0.8)
    bars.axvline(comparison.bm25["MRR"], color="tab:orange", label=comparison.bm25_name)
    bars.axvline(comparison.random["MRR"], color="grey", linestyle=":", label="random order")
    bars.set_xlabel("MRR")
    bars.legend(loc="lower right")
    _draw_costs(others[0], times, "milliseconds per question, answers encoded beforehand", comparison, "MRR")
    if sizes:
        _draw_costs(others[1], sizes, "parameters beside the word vectors", comparison, "P@1")
    figure.suptitle(f"{comparison.n_questions:,} questions, {len(comparison.seeds)} seed(s)")
    with atomic_file(path) as draft:
        figure.savefig(draft, format="png", dpi=150)


def _draw_costs(axes: Axes, costs: dict[str, float], name: str, comparison: Comparison, measure: str) -> None:
    for result in comparison.results:
        if result.label in costs:
            point = costs[result.label], result.mean(measure)
            axes.scatter(*point, color="tab:blue")
            axes.annotate(result.label, point, fontsize=7, xytext=(3, 3), textcoords="offset points")
    axes.axhline(comparison.bm25[measure], color="tab:orange")
    axes.set(xscale="log", xlabel=name, ylabel=measure)
    axes.margins(x=0.2)  # room for the labels
    lowest, highest = min(costs.values()), max(costs.values())
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if highest < 1000 * lowest else (1,)))
    axes.xaxis.set_major_formatter(EngFormatter(sep="") if highest >= 1000 else "{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
