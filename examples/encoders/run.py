"""Which encoder, and how long to train it: quality on several FAQs beside time, memory and size, in one table.

AP_ENCODERS=ENCODERS python examples/encoders/run.py example covid_questions cosibot_de \
  --data DATA --output checkpoints/encoders
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from encoder_cells import EFFORTS, measure, question_milliseconds
from encoder_tables import HERE, write_tables
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.errors import check_known
from ap_ranker.files import write_text_atomically

ENCODERS = (
    "sentence-transformers/all-MiniLM-L6-v2",
    "sentence-transformers/all-mpnet-base-v2",
    "intfloat/multilingual-e5-small",
)

TIME = "-question-ms.json"
"""The end of the name of a file with an encoder's time."""

console = Console(soft_wrap=True)


def command(
    names: Annotated[list[str], typer.Argument(metavar="DATASET...", help="As in examples/fair_peers.")],
    output: Annotated[Path, typer.Option(help="A folder for finished cells; the same command goes on there.")],
    data: Annotated[Path | None, typer.Option(help="A folder with a folder for each data set.")] = None,
    encoder: Annotated[list[str] | None, typer.Option(help="Measure these instead of three.")] = None,
    effort: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(EFFORTS)}; by default all.")] = None,
    results: Annotated[Path, typer.Option(help="The folder of results.json and README.md.")] = HERE,
) -> None:
    """Measure each encoder with each effort on each data set, on a CPU with one thread, and draw the tables."""
    efforts = effort or list(EFFORTS)
    for wanted in efforts:
        check_known("an effort", wanted, EFFORTS)
    output.mkdir(parents=True, exist_ok=True)
    encoders = encoder or list(ENCODERS)
    for encoder_name, wanted, name in product(encoders, efforts, names):
        cell = f"{Path(encoder_name).name}-{wanted}-{name}"
        run = output / f"{cell}.run"
        finish(output / f"{cell}.json", measure, encoder_name, wanted, name, data, output / "tables", run)
        shutil.rmtree(run, ignore_errors=True)  # many checkpoints would fill a disk
    for encoder_name in encoders:
        finish(output / f"{Path(encoder_name).name}{TIME}", question_milliseconds, encoder_name)
    cells: list[Any] = []
    question_ms: dict[str, float] = {}
    for path in sorted(output.glob("*.json")):
        measured = json.loads(path.read_text(encoding="utf-8"))
        if path.name.endswith(TIME):
            question_ms[path.name.removesuffix(TIME)] = measured
        else:
            cells.append(measured)
    result = {"question_ms": question_ms, "cells": cells}
    write_text_atomically(results / "results.json", json.dumps(result, indent=1) + "\n")
    write_tables(results)


def finish(path: Path, measurement: Callable[..., Any], *arguments: Any) -> None:
    """Write what a measurement returns, unless it is there. Its process has no memory of earlier ones."""
    if path.is_file():
        return
    console.print(path.stem, highlight=False)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        result = pool.submit(measurement, *arguments).result()
    write_text_atomically(path, json.dumps(result) + "\n")


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
