"""How soon does `ap-ranker serve` answer: from its start to its start line, and from that line to the first answer?

python -m benchmarks.server_start

The first time no answer of the FAQ has been encoded on this machine; the second time, all of them.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.errors import InputError
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.rule import Basis
from benchmarks.cold_start import FAQ, QUESTION, expanded

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "serve_load"))  # programs, not a package

from search_server import served

PATIENCE = 600.0
"""Seconds within which the model must rank."""

MOMENTS = {
    "line": "from the command to the start line",
    "found": "from the line to the first answer",
    "ranked": "from the line to the first answer ranked by the model",
}


def main(
    entries: Annotated[int, typer.Option(help="Entries of the FAQ that is made of the example's sentences.")] = 1000,
    model: Annotated[str | None, typer.Option(help="A calibrated checkpoint; by default, nothing is trained.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of first and second starts.")] = 3,
) -> None:
    """Print a table of seconds on the clock, the median of all rounds and the slowest one."""
    seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    with TemporaryDirectory() as work:
        faq = Path(work) / "FAQ.csv"
        faq.write_text(expanded(FAQ, entries), encoding="utf-8")
        options = [] if model is None else ["--model", str(Path(model).resolve()) if Path(model).exists() else model]
        for number in range(rounds):
            for name in ("first", "second"):
                for moment, found in measured(faq, options, cache=f"{work}/cache-{number}").items():
                    seconds[name, moment].append(found)
    cells = []
    for moment, said in MOMENTS.items():
        each = [seconds[name, moment] for name in ("first", "second")]
        cells.append([said, *(f"{value:.2f}" for found in each for value in (median(found), max(found)))])
    columns = ["seconds", "first time", "slowest", "second time", "slowest"]
    typer.echo(f"{entries:,} entries, {rounds} starts of each kind, {os.cpu_count()} cores\n")
    typer.echo(markdown_table(columns, cells))


def measured(faq: Path, options: list[str], cache: str) -> dict[str, float]:
    """Start a server, ask it until the model ranks, and end it: the seconds of each of `MOMENTS`."""
    os.environ["XDG_CACHE_HOME"] = cache
    begun = time.perf_counter()
    with served(str(faq), *options) as server:
        listening = time.perf_counter()
        found = first(server.address, lambda reply: bool(reply["answers"])) - listening
        ranked = first(server.address, lambda reply: reply["basis"] != Basis.NOTHING) - listening
    return {"line": listening - begun, "found": found, "ranked": ranked}


def first(address: str, wanted: Callable[[Any], bool]) -> float:
    """The time on the clock of the first reply that is wanted."""
    body = json.dumps({"question": QUESTION}).encode()
    request = urllib.request.Request(f"{address}api/search", body, {"Content-Type": "application/json"})
    end = time.perf_counter() + PATIENCE
    while True:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            reply = json.load(response)
        if wanted(reply):
            return time.perf_counter()
        if time.perf_counter() > end:
            raise InputError(f"Expected the model to rank within {PATIENCE:.0f} s, found {reply['outcome']}.")
        time.sleep(0.1)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(main)
