"""Plots of measurements and of explanations."""

from __future__ import annotations

import warnings
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from ap_ranker.errors import InputError
from ap_ranker.files import atomic_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from ap_ranker.evaluation.calibration import Bin
    from ap_ranker.evaluation.lengths import LengthGroup
    from ap_ranker.ranking.explanation import Explanation, Token


def check_plotting() -> None:
    """Check for matplotlib before hours of training rather than after them.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError('A plot needs an extra: pip install "ap-ranker[plot]"') from error


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, atomically."""
    with atomic_file(path) as draft:
        figure.savefig(draft, format="png", dpi=150)


def plot_lengths(groups: Sequence[LengthGroup], name: str, path: Path) -> None:
    """Plot P@1 of the model and of BM25 against the length of the right answers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.subplots()
    positions = range(len(groups))
    axes.plot(positions, [group.model for group in groups], color="tab:blue", marker="o", label=name)
    axes.plot(positions, [group.bm25 for group in groups], color="tab:orange", marker="o", label="BM25")
    ranges = [f"{group.shortest:.0f} - {group.longest:.0f}\n{group.n_questions:,} questions" for group in groups]
    axes.set_xticks(positions, ranges, fontsize=8)
    axes.set_xlabel("mean length of a question's right answers, in words")
    axes.set_ylabel("P@1")
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    save_figure(figure, path)


def plot_reliability(curves: Mapping[str, Sequence[Bin]], data: str, path: Path) -> None:
    """Plot the share of right answers against their probability; the area of a point shows its number of questions."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 5.5), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":", label="perfect calibration")
    for colour, (name, bins) in zip(cycle(("tab:blue", "tab:orange")), curves.items(), strict=False):
        probabilities, right = [group.probability for group in bins], [group.right for group in bins]
        axes.plot(probabilities, right, color=colour, label=name)
        axes.scatter(probabilities, right, s=[10 + 400 * group.share for group in bins], color=colour, alpha=0.5)
    axes.set_xlabel("probability that the first answer is right, mean of each tenth")
    axes.set_ylabel("share of first answers that are right")
    axes.set_aspect("equal")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.suptitle(data, fontsize=10)
    save_figure(figure, path)


COLUMNS, CHARACTER, LINE = 84, 0.0845, 0.3
"""Characters per line of a heat map; width of a character at 10 points and height of a line, in inches."""


def plot_explanation(explanation: Explanation, question: str, answer: str, model: str, path: Path) -> None:
    """Draw both texts as heat maps of their attention weights, as in dos Santos et al. 2016.

    Characters that matplotlib's own font lacks, such as Chinese ones, are drawn as boxes; the page shows them.
    """
    from matplotlib.figure import Figure

    sides = {"question": _lines(question, explanation.question), "answer": _lines(answer, explanation.answer)}
    heights = [LINE * (max(len(lines), 1) + 1) for lines in sides.values()]
    figure = Figure(figsize=(COLUMNS * CHARACTER + 0.4, sum(heights) + 0.6), layout="constrained")
    both = figure.subplots(2, 1, height_ratios=heights)
    for axes, (name, lines) in zip(both, sides.items(), strict=True):
        axes.set_title(name, loc="left", fontsize=10)
        axes.set_xlim(0, COLUMNS)
        axes.set_ylim(max(len(lines), 1) - 0.4, -0.6)
        axes.set_axis_off()
        for row, line in enumerate(lines):
            for column, text, heat in line:
                box = {"facecolor": (1, 0.35, 0, 0.9 * heat**2), "edgecolor": "none", "pad": 1.5}
                axes.text(column, row, text, family="monospace", fontsize=10, va="center", bbox=box, parse_math=False)
    figure.suptitle(f"{model}, score {explanation.score:.3f}", fontsize=10)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # one for each such character
        save_figure(figure, path)


def _lines(whole: str, tokens: Sequence[Token]) -> list[list[tuple[int, str, float]]]:
    """The (column, text, heat) of each token, in lines of COLUMNS characters."""
    from ap_ranker.ranking.explanation import pieces

    lines: list[list[tuple[int, str, float]]] = []
    column = last = 0
    for start, end, heat in pieces(tokens):
        text = " ".join(whole[start:end].split())  # a phrase may contain a line break
        width = sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
        column += start > last
        if not lines or column + width > COLUMNS:
            lines.append([])
            column = 0
        lines[-1].append((column, text, heat))
        column, last = column + width, end
    return lines
