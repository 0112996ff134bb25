"""Ours beside what a good engineer would train: tuned by as many trials, three seeds, like beside like.

python examples/fair_peers/run.py example wikiqa --data DATA --trials 6 --output checkpoints/fair_peers
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from fair_cells import SYSTEMS, Cells, Estimate, collect, planned, run_cells
from fair_data import NAMES, read_fair_data
from fair_systems import OURS, Settings
from fair_tables import HERE, with_earlier, with_tests, write_page
from rich.console import Console

from ap_ranker.cli.console import describe
from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Device
from ap_ranker.errors import InputError, check_known
from ap_ranker.files import write_text_atomically
from ap_ranker.models.pretrained import DEFAULT_ENCODER
from ap_ranker.ranking.ranker import resolve_device
from benchmarks.number_lists import whole_numbers

console = Console(soft_wrap=True)


def command(
    names: Annotated[list[str], typer.Argument(metavar="DATASET...", help=f"Among {', '.join(NAMES)}.")],
    output: Annotated[Path, typer.Option(help="A folder for finished cells; the same command goes on there.")],
    data: Annotated[Path | None, typer.Option(help="A folder with a folder for each data set.")] = None,
    seeds: Annotated[str, typer.Option(help="Of the runs, separated by commas.")] = "1,2,3",
    trials: Annotated[int, typer.Option(min=1, help="Of each system, with seed 1, on the dev questions.")] = 6,
    encoder: Annotated[
        str, typer.Option(help="What all systems start from; another one has the settings chosen with the default.")
    ] = DEFAULT_ENCODER,
    system: Annotated[
        list[str] | None,
        typer.Option(help="Measure this one alone; may be repeated. The tables have what is finished."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print how long each cell takes, and run none.")] = False,
    device: Device = "auto",
    results: Annotated[Path, typer.Option(help="The folder of the JSON files and of README.md.")] = HERE,
) -> None:
    """Tune all systems on each data set, run the seeds, write a JSON file, and draw the tables from all of them."""
    numbers = whole_numbers("--seeds", seeds)
    place = resolve_device(device)
    systems = system or list(SYSTEMS)
    for wanted in systems:
        check_known("a system", wanted, SYSTEMS)
    for name in names:
        fair_data = read_fair_data(name, data, output / "tables", encoder)
        describe({"Training data": fair_data.training, "Dev data": fair_data.dev, "Test data": fair_data.test})
        file_name = name if encoder == DEFAULT_ENCODER else f"{name}-{Path(encoder).name}"
        folder = output / file_name
        folder.mkdir(parents=True, exist_ok=True)
        tuned = None if encoder == DEFAULT_ENCODER else read_chosen(results / f"{name}.json")
        cells = Cells(fair_data, folder, place, tuned)
        estimate = Estimate(fair_data, place)
        if plan:
            for cell in planned(cells, systems, trials, numbers):
                console.print(f"{name}, {cell.name}: about {estimate.seconds(cell) / 60:.0f} minutes", highlight=False)
            continue
        run_cells(cells, systems, trials, numbers, estimate, lambda text: console.print(text, highlight=False))
        collected = collect(cells, trials, numbers)
        path = results / f"{file_name}.json"
        if path.is_file():
            earlier = json.loads(path.read_text(encoding="utf-8"))
            collected = with_earlier(collected, earlier)
            lost = [system for system in earlier["systems"] if system not in collected["systems"]]
            if lost:
                again = ", ".join(lost)
                console.print(
                    f"{path} has other data, or no ranks, of {again}. Measure again, for the tables: {again}."
                )
                continue
        if OURS not in collected["systems"]:
            console.print(f"{name}: all others are compared with {OURS}. Measure it too, for the tables.")
            continue
        result = with_tests(collected)
        write_text_atomically(path, json.dumps(result, indent=1) + "\n")
        write_page(results)


def read_chosen(path: Path) -> dict[str, Settings]:
    """The settings of each system that the trials of an earlier run have chosen."""
    if not path.is_file():
        raise InputError(
            f"{path}: expected the results with the default encoder, found none. Run without --encoder first."
        )
    systems = json.loads(path.read_text(encoding="utf-8"))["systems"]
    return {name: system["chosen"] for name, system in systems.items()}


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
