"""The rows of `results.json`, and the tables that `results.md` shows of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluate import Report
from ap_ranker.files import write_whole

MEASURES = ("MRR", "P@1")
"""What is kept; the tables show the first."""


@dataclass(frozen=True)
class Row:
    """A method with so many training pairs of a data set; lists are in the order of `seeds`.

    Attributes:
        data: the data set's name.
        method: a key of `methods.yaml`.
        size: pairs asked for.
        pairs: pairs drawn.
        seeds: of the runs and of their draws.
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
    seeds: list[int]
    n_questions: int
    candidates: str
    model: dict[str, list[float]]
    fused: dict[str, list[float]]
    bm25: dict[str, float]
    best_epochs: list[int]
    training_seconds: list[float]

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells a row from another."""
        return self.data, self.method, self.size


def fused(report: Report) -> dict[str, float]:
    """The measures with BM25's score added, or the model's own where the checkpoint gives BM25 no weight."""
    return getattr(report, "fusion", None) or report.model


def read_rows(path: Path) -> list[Row]:
    """The rows of an earlier `results.json`; none if there is no such file.

    Raises:
        InputError: the file is not what `add_row` wrote.
    """
    if not path.exists():
        return []
    try:
        return [Row(**fields) for fields in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: expected the list of rows that run.py writes ({error!r}). Remove it.") from error


def add_row(row: Row, folder: Path, methods: Sequence[str]) -> None:
    """Add a row to the folder's `results.json`, or replace the one of its data, method and size, and render.

    Args:
        row: what was measured.
        folder: of `results.json` and `results.md`.
        methods: the order of the tables' rows.
    """
    kept = [other for other in read_rows(folder / "results.json") if other.key != row.key]
    rows = sorted([*kept, row], key=lambda each: each.key)
    text = json.dumps([asdict(each) for each in rows], indent=1, sort_keys=True)
    write_whole(folder / "results.json", text + "\n")
    write_whole(folder / "results.md", render(rows, methods))


def spread(values: Sequence[float]) -> str:
    """Mean ± sample standard deviation over the seeds; the value alone if there is one."""
    mean = f"{np.mean(values):.3f}"
    return f"{mean} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else mean


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
    rule = ["---", *["---:"] * (len(titles) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [titles, rule, *lines])
