"""Draw the table of encoders from results.json into this folder's README.md and into docs/encoders.md.

python examples/encoders/encoder_tables.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from ap_ranker.evaluation.markdown import markdown_table

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "encoders.md"

sys.path.append(str(HERE.parent / "fair_peers"))

from fair_tables import write_between  # noqa: E402

START = "<!-- results: python examples/encoders/encoder_tables.py -->"

COSINE = "cosine"
"""No model of ours: the cosine of an untrained bi-encoder, with the known wordings and BM25 as ours has them."""

EXAMPLE = "example"
"""The data set that times and sizes are of."""

ORDER = (COSINE, "untrained", "quick", "normal", "best")


def render(result: Mapping[str, Any]) -> str:
    """A line for each encoder and effort, a column for each data set."""
    cells = result["cells"]
    names = sorted({cell["data"]: None for cell in cells}, key=lambda name: (name != EXAMPLE, name))
    titles = {cell["data"]: cell["title"] for cell in cells}
    bm25 = {cell["data"]: cell["bm25"]["MRR"] for cell in cells}
    by_row: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for cell in cells:
        by_row.setdefault((cell["encoder"], cell["effort"]), {})[cell["data"]] = cell
    lines = [["BM25", "", "", "", "", *(f"{bm25[name]:.3f}" for name in names)]]
    for encoder, effort in sorted(by_row, key=lambda row: (row[0], ORDER.index(row[1]))):
        of_data = by_row[encoder, effort]
        measured = of_data.get(EXAMPLE, {})
        values = [f"{of_data[name]['measures']['MRR']:.3f}" if name in of_data else "" for name in names]
        milliseconds = None if effort == COSINE else result["question_ms"].get(encoder)
        lines.append([f"`{encoder}`, {effort}", *_costs(measured, milliseconds), *values])
    head = ["", "training, s", "peak memory, GB", "bytes per answer", "a question, ms"]
    return markdown_table([*head, *(titles[name].partition(",")[0] for name in names)], lines)


def _costs(cell: Mapping[str, Any], milliseconds: float | None) -> list[str]:
    """Time, memory, bytes and milliseconds; what is not known, or not ours, is empty."""
    question = "" if milliseconds is None else f"{milliseconds:.1f}"
    if not cell:
        return ["", "", "", question]
    is_trained = cell["effort"] not in (COSINE, "untrained")
    training = f"{cell['training_seconds']:,.0f}" if is_trained else ""
    return [training, f"{cell['peak_bytes'] / 1e9:.1f}", f"{cell['bytes_per_answer']:,}", question]


def write_tables(folder: Path = HERE) -> None:
    """Draw the table of the folder's results.json into its README.md."""
    write_between(folder / "README.md", render(read_results(folder)), START)


def read_results(folder: Path = HERE) -> dict[str, Any]:
    """Cells, and the milliseconds of a question by encoder."""
    result: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return result


def main() -> None:
    """Draw it into both pages."""
    write_tables()
    write_between(PAGE, render(read_results()), START)


if __name__ == "__main__":
    typer.run(main)
