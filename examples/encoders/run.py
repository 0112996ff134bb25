"""Which encoder, and how long to train it: quality on several FAQs beside time, memory and size, in one table.

AP_ENCODERS=ENCODERS python examples/encoders/run.py example covid_questions cosibot_de \
  --data DATA --output checkpoints/encoders
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from encoder_cells import EFFORTS, measure
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
    for encoder_name in encoder or ENCODERS:
        for wanted in efforts:
            for name in names:
                cell = f"{Path(encoder_name).name}-{wanted}-{name}".replace(" ", "-")
                path = output / f"{cell}.json"
                if path.is_file():
                    continue
                console.print(cell, highlight=False)
                run = output / f"{cell}.run"
                shutil.rmtree(run, ignore_errors=True)
                # A process of its own: its memory at most is then that of this cell.
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                    result = pool.submit(measure, encoder_name, wanted, name, data, output / "tables", run).result()
                write_text_atomically(path, json.dumps(result) + "\n")
                shutil.rmtree(run, ignore_errors=True)  # many checkpoints would fill a disk
    cells = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(output.glob("*.json"))]
    write_text_atomically(results / "results.json", json.dumps(cells, indent=1) + "\n")
    write_tables(results)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
