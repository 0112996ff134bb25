"""How much processor time and memory does `ap-ranker ask` take, the first time and the second time?

python -m benchmarks.cold_start --model checkpoints/faq --before ../earlier-checkout

Processor time rather than time on the clock, because other programs on the machine do not change it much. Rounds
alternate between what is compared, and the median of each counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Annotated, NamedTuple

import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.faq import read_faq
from ap_ranker.errors import InputError
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.files import csv_text

FAQ = Path("examples/faq/answers.csv")

FLOOR = "import torch, transformers, haystack"

QUESTION = "Where is my parcel?"


class Cost(NamedTuple):
    """Processor time of a run, and the most memory that it held."""

    seconds: float
    megabytes: float


def main(
    model: Annotated[str, typer.Option(help="A checkpoint folder or a hub name.")] = "checkpoints/faq",
    documents: Annotated[Path, typer.Option(help="A FAQ.")] = FAQ,
    rows: Annotated[int, typer.Option(help="Rows of the larger FAQ that is made of its sentences.")] = 1800,
    before: Annotated[Path | None, typer.Option(help="Another checkout of this project to compare with.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of runs of each.")] = 3,
) -> None:
    """Print a table of the processor time and memory of imports, of a first and of a second `ask`."""
    costs: defaultdict[tuple[str, str], list[Cost]] = defaultdict(list)
    checkouts = {"": Path.cwd()}
    if before is not None:
        checkouts[", before"] = before
    with TemporaryDirectory() as work:
        larger = Path(work) / "larger.csv"
        larger.write_text(expanded(documents, rows), encoding="utf-8")
        for number in range(rounds):
            costs["", f'`python -c "{FLOOR}"`'].append(measure(["-c", FLOOR], Path.cwd(), work))
            for faq in (documents.resolve(), larger):
                command = ["-m", "ap_ranker", "ask", QUESTION, "--documents", str(faq)]
                command += ["--model", str(Path(model).resolve()) if Path(model).exists() else model]
                size = f"{len(read_faq(faq)):,} rows"
                for name, checkout in checkouts.items():
                    cache = f"{work}/cache{name}-{number}"
                    for run in ("first", "second"):
                        costs[size, f"`ask`{name}, {run} run"].append(measure(command, checkout, cache))
    cells = []
    for (size, name), measured in costs.items():
        seconds = median(cost.seconds for cost in measured)
        megabytes = median(cost.megabytes for cost in measured)
        cells.append([size, name, f"{seconds:.1f}", f"{megabytes:,.0f}"])
    typer.echo(markdown_table(["FAQ", "command", "processor seconds", "MB at most"], cells))


def measure(arguments: list[str], checkout: Path, cache: str) -> Cost:
    """What a run of Python in a checkout takes, with this folder for caches.

    Raises:
        InputError: the run failed.
    """
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve()), "XDG_CACHE_HOME": cache}
    with TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=checkout, env=environment, stdout=subprocess.DEVNULL, stderr=errors
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if process.returncode:
            told = errors.read().decode(errors="replace")[-500:]
            raise InputError(f"{' '.join(arguments)}: expected it to succeed, found: {told}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000)


def expanded(faq: Path, rows: int, seed: int = 0) -> str:
    """A FAQ of so many different rows, as CSV: each answer is sentences of answers, as many as an answer has."""
    entries, random = read_faq(faq), Random(seed)
    answers = [entry.answer.split(". ") for entry in entries]
    sentences = [sentence.rstrip(".") for answer in answers for sentence in answer]
    made = {}
    while len(made) < rows:
        answer = ". ".join(random.sample(sentences, len(random.choice(answers)))) + "."
        made[answer] = f"{random.choice(entries).question} ({len(made) + 1})"
    return csv_text(["question", "answer"], [[question, answer] for answer, question in made.items()])


if __name__ == "__main__":
    with report_user_errors():
        typer.run(main)
