"""Options that the scripts of this folder share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HERE = Path(__file__).resolve().parent

Data = Annotated[Path, typer.Option(help="The folder with the data set's files.")]

Seeds = Annotated[str, typer.Option(help="Of the runs, separated by commas.")]
SEEDS = "1,2,3"

Runs = Annotated[Path, typer.Option(help="A folder for the checkpoints; finished ones are not trained again.")]
RUNS = Path("checkpoints/reproduce")

Results = Annotated[Path, typer.Option(help="The folder of results.json and results.md.")]
