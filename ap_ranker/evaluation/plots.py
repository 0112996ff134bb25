"""Plots of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ap_ranker.errors import extra_for
from ap_ranker.files import atomic_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure


def check_plotting() -> None:
    """Refuse a missing matplotlib before hours of training rather than after them."""
    with extra_for("A plot needs", "plot"):
        import matplotlib  # noqa: F401


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, atomically."""
    with atomic_file(path) as draft:
        figure.savefig(draft, format="png", dpi=150)


def plot_lengths(groups: Sequence[Mapping[str, float]], name: str, path: Path) -> None:
    """Plot P@1 of the model and of BM25 against the length of the right answers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    ranges = ["{shortest:.0f} - {longest:.0f}\n{n_questions:,} questions".format(**group) for group in groups]
    axes.plot([group["model"] for group in groups], color="tab:blue", marker="o", label=name)
    axes.plot([group["bm25"] for group in groups], color="tab:orange", marker="o", label="BM25")
    axes.set_xticks(range(len(groups)), ranges, fontsize=8)
    axes.set(xlabel="mean length of a question's right answers, in words", ylabel="P@1")
    axes.legend(frameon=False)
    save_figure(figure, path)
