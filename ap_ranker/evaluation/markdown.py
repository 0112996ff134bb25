"""Markdown tables of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Render a table, without a trailing line break."""
    rule = ["---", *["---:"] * (len(titles) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [titles, rule, *rows])


def spread(values: Sequence[float]) -> str:
    """Mean ± sample standard deviation over the seeds; a single value alone."""
    mean = f"{fmean(values):.3f}"
    if len(values) > 1:
        return f"{mean} ± {stdev(values):.3f}"
    return mean
