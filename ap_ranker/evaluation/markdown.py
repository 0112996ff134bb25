"""Numbers as Markdown tables, for all results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, without a trailing line break.

    Args:
        titles: of the columns; the first one holds names, the others numbers, which are right-aligned.
        rows: a cell for each column.
    """
    rule = ["---", *["---:"] * (len(titles) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [titles, rule, *rows])


def spread(values: Sequence[float]) -> str:
    """Mean ± sample standard deviation over the seeds; the value alone if there is one."""
    mean = f"{fmean(values):.3f}"
    return f"{mean} ± {stdev(values):.3f}" if len(values) > 1 else mean
