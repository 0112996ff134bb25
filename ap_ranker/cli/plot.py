"""The picture of a comparison: how good each model is, and what it costs per question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ap_ranker.errors import InputError
from ap_ranker.files import written_whole

if TYPE_CHECKING:
    from ap_ranker.training.compare import Comparison


def check_plotting() -> None:
    """Fail before hours of training rather than after them.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError('A plot needs an extra: pip install "ap-ranker[plot]"') from error


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Draw MRR as bars with their standard deviation, BM25 and random order as lines, and MRR against time."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    results = comparison.results[::-1]  # bars are drawn from the bottom up
    labels = [result.label for result in results]
    mrr = [result.mean("MRR") for result in results]
    figure = Figure(figsize=(11, 2 + 0.28 * len(results)), layout="constrained")
    bars, costs = figure.subplots(1, 2)
    bars.barh(labels, mrr, xerr=[result.deviation("MRR") for result in results], color="tab:blue", alpha=0.8)
    bars.axvline(comparison.bm25["MRR"], color="tab:orange", label="BM25")
    bars.axvline(comparison.random["MRR"], color="grey", linestyle=":", label="random order")
    bars.set_xlabel("MRR")
    bars.legend(loc="lower right")
    milliseconds = [result.seconds_per_question * 1000 for result in results]
    costs.scatter(milliseconds, mrr, color="tab:blue")
    for label, x, y in zip(labels, milliseconds, mrr, strict=True):
        costs.annotate(label, (x, y), fontsize=7, xytext=(3, 3), textcoords="offset points")
    costs.axhline(comparison.bm25["MRR"], color="tab:orange")
    costs.set_xscale("log")
    costs.margins(x=0.2)  # room for the labels
    costs.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    costs.xaxis.set_major_formatter("{x:g}")
    costs.xaxis.set_minor_formatter(NullFormatter())
    costs.set_xlabel("milliseconds per question, answers encoded beforehand")
    costs.set_ylabel("MRR")
    figure.suptitle(f"{comparison.n_questions:,} questions, {len(comparison.seeds)} seed(s)")
    with written_whole(path) as draft:
        figure.savefig(draft, format="png", dpi=150)
