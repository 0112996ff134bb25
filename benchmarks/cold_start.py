"""How much processor time does `ap-ranker ask` take, the first time and the second time?

python -m benchmarks.cold_start --model checkpoints/faq --before ../earlier-checkout

Processor time rather than time on the clock, because other programs on the machine do not change it much. Rounds
alternate between what is compared, and the median of each counts.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.faq import read_faq
from ap_ranker.errors import InputError
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.files import csv_text

FAQ = Path("examples/faq/answers.csv")

FLOOR = "import torch, transformers, haystack"

QUESTION = "Where is my parcel?"


def main(
    model: Annotated[str, typer.Option(help="A checkpoint folder or a hub name.")] = "checkpoints/faq",
    documents: Annotated[Path, typer.Option(help="A FAQ.")] = FAQ,
    rows: Annotated[int, typer.Option(help="Rows of the larger FAQ that is made of its sentences.")] = 1800,
    before: Annotated[Path | None, typer.Option(help="Another checkout of this project to compare with.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of runs of each.")] = 3,
) -> None:
    """Print a table of the seconds of processor time of imports, of a first and of a second `ask`."""
    seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    with TemporaryDirectory() as work:
        larger = Path(work) / "larger.csv"
        larger.write_text(expanded(documents, rows), encoding="utf-8")
        for number in range(rounds):
            seconds["", f'`python -c "{FLOOR}"`'].append(processor_seconds(["-c", FLOOR], Path.cwd(), work))
            for faq in (documents.resolve(), larger):
                command = ["-m", "ap_ranker", "ask", QUESTION, "--documents", str(faq)]
                command += ["--model", str(Path(model).resolve()) if Path(model).exists() else model]
                size = f"{len(read_faq(faq)):,} rows"
                if before is not None:
                    seconds[size, "`ask`, before"].append(processor_seconds(command, before, work))
                cache = f"{work}/cache-{number}"
                for name in ("first", "second"):
                    seconds[size, f"`ask`, {name} run"].append(processor_seconds(command, Path.cwd(), cache))
    cells = [[size, name, f"{median(found):.1f}"] for (size, name), found in seconds.items()]
    typer.echo(markdown_table(["FAQ", "command", "processor seconds"], cells))


def processor_seconds(arguments: list[str], checkout: Path, cache: str) -> float:
    """User and system time of a run of Python in a checkout, with this folder for caches.

    Raises:
        InputError: the run failed.
    """
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve()), "XDG_CACHE_HOME": cache}
    earlier = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise InputError(f"{' '.join(arguments)}: expected it to succeed, found: {done.stderr[-500:]}")
    return used.ru_utime + used.ru_stime - earlier.ru_utime - earlier.ru_stime


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
