"""How fast our models rank a data set's first answers: python -m benchmarks.answers_at_hand insuranceqa --device cuda:0

The whole benchmark compares them with other libraries, searches and trains, which takes minutes; this takes seconds.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Device
from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.ranker import resolve_device
from ap_ranker.training.compare import Contender
from benchmarks.corpus import Corpus
from benchmarks.latency import Times, copy_bandwidth, timed
from benchmarks.machine import describe_machine
from benchmarks.number_lists import whole_numbers
from benchmarks.systems import AnswerModelSystem, write_checkpoints

console = Console(soft_wrap=True)


def command(
    data: Annotated[Path, typer.Argument(help="A folder with answers and test questions, as for evaluate; or a file.")],
    models: Annotated[str, typer.Option(help="Model names, comma-separated.")] = (
        "ap-transformer,ap-cnn,ap-bilstm,global-local,qa-bilstm"
    ),
    candidates: Annotated[str, typer.Option(help="Numbers of answers to rank, comma-separated.")] = "100,1000",
    questions: Annotated[int, typer.Option(min=1, help="Number of questions to time.")] = 6,
    device: Device = "auto",
) -> None:
    """Milliseconds of untrained models with nothing cached (cold) and with all answers cached (warm)."""
    with report_user_errors():
        place, sizes = resolve_device(device), sorted(whole_numbers("--candidates", candidates))
        bandwidth = copy_bandwidth(place) if place.type == "cuda" else None
        read = read_dataset(data, "test")
        # One question more: the first warms up.
        corpus = Corpus.of(replace(read, answers=read.answers[: max(sizes)]), questions + 1)
        contenders = Contender.parse_all(models)
        lines = []
        with tempfile.TemporaryDirectory(prefix="ap-ranker-") as folder:
            checkpoints = write_checkpoints(contenders, corpus.texts, Path(folder))
            for contender in contenders:
                system = AnswerModelSystem(contender, checkpoints[contender.label], place)
                for size in sizes:
                    lines.append([f"`{system.name}`", f"{size:,}", *_times(system, corpus, size, bandwidth)])
        title = f"{describe_machine(place)}" + (f"; it copies {bandwidth / 1e9:,.0f} GB/s" if bandwidth else "")
        console.print(title, highlight=False)
        header = ["", "answers", "cold p50", "warm p50", "warm p95", "bytes per answer", "of bandwidth"]
        console.print(markdown_table(header, lines), highlight=False, markup=False)


def _times(system: AnswerModelSystem, corpus: Corpus, size: int, bandwidth: float | None) -> list[str]:
    documents, cold, warm = corpus.documents[:size], [], []
    for first, second in (corpus.questions[0], *corpus.questions):
        system.forget()
        cold.append(timed(system.run, first, documents)[0])
        warm.append(timed(system.run, second, documents)[0])
    before, after = Times.of(cold[2:] or cold), Times.of(warm[2:] or warm)
    entries, kept = system.cached
    share = f"{kept / (after.p50 / 1000) / bandwidth:.4%}" if bandwidth else ""
    return [f"{before.p50:.1f}", f"{after.p50:.2f}", f"{after.p95:.2f}", f"{kept / entries:,.0f}", share]


if __name__ == "__main__":
    typer.run(command)
