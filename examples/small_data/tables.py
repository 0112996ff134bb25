"""The rows of `results.json`, and the tables that `results.md` shows of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ap_ranker.evaluation.markdown import markdown_table, spread

sys.path.append(str(Path(__file__).resolve().parents[1]))
from plain_cosine import report_cosine  # noqa: F401
from result_rows import ResultRow, at_hand, describe_settings  # noqa: F401  for run.py, which lies beside this

MEASURES = ("MRR", "P@1")
"""What is kept; the tables show the first."""


@dataclass(frozen=True)
class Row(ResultRow):
    """A method with so many training pairs of a data set; a seed draws its own pairs.

    Attributes:
        data: the data set's name.
        method: a key of `methods.yaml`.
        size: pairs asked for.
        pairs: pairs drawn.
        n_questions: test questions, which the means are over.
        candidates: what was ranked, in words.
        model: measure -> the model's mean.
        fused: measure -> the mean of its score together with BM25's; the model's own where BM25 adds nothing.
        bm25: measure -> BM25's mean.
        best_epochs: which epoch was kept; 0 is the untrained model.
        training_seconds: of each run.
    """

    data: str
    method: str
    size: int
    pairs: list[int]
    n_questions: int
    candidates: str
    model: dict[str, list[float]]
    fused: dict[str, list[float]]
    bm25: dict[str, float]
    best_epochs: list[int]
    training_seconds: list[float]

    @property
    def key(self) -> tuple[str, str, int]:
        return self.data, self.method, self.size


def render(rows: Iterable[Row], methods: Sequence[str]) -> str:
    """`results.md`: for each data set a table of methods by sizes.

    Args:
        rows: in any order.
        methods: the order of a table's rows; methods that are not among them stand last.
    """
    by_data: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda each: each.key):
        by_data.setdefault(row.data, []).append(row)
    parts = [
        "# Results\n\nWritten by `run.py` from `results.json`; [how to read it](README.md#how-to-read-the-tables)."
    ]
    for data, own in by_data.items():
        about = f"Test MRR over {own[0].n_questions} questions; candidates: {own[0].candidates}."
        parts.append(f"## {data}\n\n{about}\n\n{_table(own, methods)}")
    return "\n\n".join(parts) + "\n"


def _table(rows: list[Row], methods: Sequence[str]) -> str:
    measure = MEASURES[0]
    found = {(row.method, row.size): row for row in rows}
    sizes = sorted({row.size for row in rows})
    names = [*methods, *sorted({row.method for row in rows}.difference(methods))]
    lines = [["BM25", *([f"{rows[0].bm25[measure]:.3f}", ""] * len(sizes))]]
    for name in names:
        own = [found.get((name, size)) for size in sizes]
        if any(own):
            cells = [(spread(row.model[measure]), spread(row.fused[measure])) if row else ("", "") for row in own]
            lines.append([name, *(cell for both in cells for cell in both)])
    titles = ["method", *(title for size in sizes for title in (f"{size:,} pairs", "with BM25"))]
    return markdown_table(titles, lines)
