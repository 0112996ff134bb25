"""Is each step that the product advises at least as good as the one before it? On ten FAQs that others wrote.

python examples/every_step/prepare_tables.py CLONES DATA
python examples/every_step/run.py DATA --shared SHARED --jobs 2
"""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated

import typer
from measured_steps import BASELINES, CALIBRATED, STATES, TRAINED, UNTRAINED, WORDINGS, Cell, Measured, Way
from public_faqs import PublicFaq, read_public_faqs
from rich.console import Console
from step_tables import render, summary

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.errors import InputError, check_known
from ap_ranker.files import write_text_atomically
from ap_ranker.models.pretrained import DEFAULT_ENCODER

HERE = Path(__file__).resolve().parent

SIZES = ("0", "10", "30", "50", "100", "300")
"""Numbers of training questions."""

SECONDS_PER_TEXT = 0.02
SECONDS_PER_PAIR = 0.8
SECONDS_TO_START = 8.0
"""Rough costs on one busy core: to encode an entry, to train on a question, to begin."""

console = Console(soft_wrap=True)


def command(
    data: Annotated[Path, typer.Argument(help="The folder that prepare_tables.py wrote.")],
    shared: Annotated[Path | None, typer.Option(help="A folder with faq_public/; without it, two FAQs less.")] = None,
    faqs: Annotated[str, typer.Option(help="Names of FAQs, separated by commas; all by default.")] = "",
    sizes: Annotated[str, typer.Option(help="Numbers of training questions.")] = ",".join(SIZES),
    states: Annotated[str, typer.Option(help="Of the searches to measure.")] = ",".join([*STATES, *BASELINES]),
    hubs: Annotated[bool, typer.Option("--hubs", help="Put entries that are near to everything into each.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Train as `ap-ranker train --quick` does.")] = False,
    encoder: Annotated[str, typer.Option(help="A name or a folder.")] = DEFAULT_ENCODER,
    jobs: Annotated[int, typer.Option(help="Number of processes, each with one thread.", min=1)] = 1,
    checkpoints: Annotated[
        Path, typer.Option(help="Trained checkpoints are kept here; those that are there are not trained again.")
    ] = Path("checkpoints/every_step"),
    output: Annotated[Path, typer.Option(help="Lines of JSON: what they hold is not measured again.")] = (
        HERE / "cells.jsonl"
    ),
) -> None:
    """Measure what is missing in the output, and write the tables beside it, as .md and .json."""
    logging.disable(logging.WARNING)
    known = {each.cell: each for each in read_lines(output)}
    chosen = read_public_faqs(data, shared)
    for name in filter(None, faqs.split(",")):
        check_known("a FAQ", name, [faq.name for faq in chosen])
    for size in sizes.split(","):
        check_known("a size", size, SIZES)
    for state in states.split(","):
        check_known("a state", state, [*STATES, *BASELINES])
    chosen = [faq for faq in chosen if not faqs or faq.name in faqs.split(",")]
    ways = []
    for faq in chosen:
        for size in map(int, sizes.split(",")):
            missing = []
            for state in states_of(faq, size, states.split(",")):
                if Cell(faq.name, size, state, hubs=hubs, encoder=encoder, quick=quick) not in known:
                    missing.append(state)
            if missing:
                way = Way(
                    faq,
                    size,
                    hubs=hubs,
                    encoder=encoder,
                    states=missing,
                    quick=quick,
                    checkpoints=checkpoints.resolve(),
                )
                ways.append(way)
    ways.sort(key=estimated_seconds, reverse=True)
    console.print(f"{len(ways)} tables to measure, about {sum(map(estimated_seconds, ways)) / jobs / 60:.0f} minutes.")
    for measured in measure(ways, jobs):
        known[measured.cell] = measured
        with output.open("a", encoding="utf-8") as file:
            file.write(measured.as_line())
        cell = measured.cell
        console.print(f"{cell.faq}, {cell.size}, {cell.state}: {measured.seconds:.0f} s {measured.refused}")
    if not known:
        raise InputError("Expected something to measure, found nothing. Name other --faqs, --sizes or --states.")
    faq_of = {faq.name: faq for faq in read_public_faqs(data, shared)}
    cells = [each for each in known.values() if (each.cell.encoder, each.cell.quick) == (encoder, quick)]
    cells = [each for each in cells if each.cell.faq in faq_of]
    write_text_atomically(output.with_suffix(".md"), render(cells, faq_of))
    write_text_atomically(output.with_suffix(".json"), summary(cells, faq_of))
    console.print(f"Wrote {output.with_suffix('.md')}.")


def states_of(faq: PublicFaq, size: int, states: Sequence[str]) -> list[str]:
    """Those that a FAQ has with so many training questions; none, if it has fewer.

    Documents alone are measured once, with size 0, at which there are no wordings.
    """
    if size > len(faq.training):
        return []
    without = WORDINGS if size == 0 else UNTRAINED
    return [state for state in states if state != without]


def estimated_seconds(way: Way) -> float:
    """On one core, to plan with."""
    asked = len(way.faq.test) + len(way.faq.other_matters)
    searches = len(set(way.states) & set(STATES))
    seconds = searches * (SECONDS_TO_START + len(way.faq.entries) * SECONDS_PER_TEXT + asked * 2 * SECONDS_PER_TEXT)
    if {TRAINED, CALIBRATED} & set(way.states):
        seconds += (len(way.faq.entries) + way.size) * SECONDS_PER_PAIR
    return seconds


def measure(ways: Sequence[Way], jobs: int) -> Iterator[Measured]:
    """Each in a process of its own, which frees what libraries keep."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        for finished in as_completed([pool.submit(measure_way, way) for way in ways]):
            yield from finished.result()


def measure_way(way: Way) -> list[Measured]:
    """All states of one table."""
    logging.disable(logging.WARNING)
    return list(way.measure())


def read_lines(path: Path) -> list[Measured]:
    """What an earlier run has measured."""
    if not path.exists():
        return []
    return [Measured.of_line(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
