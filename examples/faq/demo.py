"""What `make demo` may print: its training, evaluation and calibration with several seeds.

python examples/faq/demo.py --output checkpoints/demo
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.errors import InputError
from ap_ranker.files import write_text_atomically
from benchmarks.number_lists import whole_numbers

HERE = Path(__file__).resolve().parent
EPOCHS = 2
"""As in the Makefile: half as many as by default."""


def command(
    output: Annotated[Path, typer.Option(help="A folder for the checkpoints; finished ones are not trained again.")],
    seeds: Annotated[str, typer.Option(help="Separated by commas.")] = "1,2,3",
    json_file: Annotated[Path, typer.Option("--json", help="What README.md shows.")] = HERE / "demo.json",
) -> None:
    """Train, evaluate and calibrate with each seed, and write what was measured."""
    results: dict[str, Any] = {}
    for seed in whole_numbers("--seeds", seeds):
        checkpoint = output / f"seed-{seed}"
        if not checkpoint.is_dir():
            settings = ["--config", HERE / "settings.yaml", "--epochs", EPOCHS, "--seed", seed]
            run("train", HERE, *settings, "--output", checkpoint)
        evaluated = output / f"seed-{seed}-evaluate.json"
        calibrated = output / f"seed-{seed}-calibrate.json"
        run("evaluate", checkpoint, HERE, "--json", evaluated)
        run("calibrate", checkpoint, HERE, "--test", HERE, "--json", calibrated)
        # With BM25's score added, as it is served.
        served = read(calibrated)["test"]["fused"]
        results[str(seed)] = {
            "measures": read(evaluated)["new"],
            "calibration_error": served["calibration_error"],
            "thresholds": served["thresholds"],
        }
    write_text_atomically(json_file, json.dumps(results, indent=1) + "\n")


def run(name: str, *arguments: object) -> None:
    """Run a command of ap-ranker; InputError if it fails."""
    words = [name, *map(str, arguments)]
    status = subprocess.run([sys.executable, "-m", "ap_ranker", *words], check=False).returncode
    if status:
        raise InputError(f"ap-ranker {shlex.join(words)}: expected it to end with 0, it ended with {status}.")


def read(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
