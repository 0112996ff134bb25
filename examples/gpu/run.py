"""All that waits for a GPU, part by part: python examples/gpu/run.py --insuranceqa FOLDER --semeval FOLDER

A part that is finished is not run again, so a machine that is lent for minutes at a time gets through all of them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Device
from ap_ranker.errors import InputError
from ap_ranker.files import write_text_atomically
from ap_ranker.ranking.ranker import resolve_device
from benchmarks.number_lists import whole_numbers

ROOT = Path(__file__).resolve().parents[2]
REPRODUCE = ROOT / "examples" / "reproduce"
FAQ = ROOT / "examples" / "faq"

SECONDS = 600.0
"""Maximum time of a part. One that takes longer is ended and fails."""

console = Console(soft_wrap=True)


@dataclass(frozen=True)
class Part:
    """A command whose results stay.

    Attributes:
        name: of the part, and of the file that says that it is finished.
        command: arguments of this Python.
    """

    name: str
    command: Sequence[str]


def parts(
    faq: Path,
    insuranceqa: Path,
    semeval: Path | None,
    *,
    device: str,
    seeds: Sequence[int],
    questions: int,
    output: Path,
    results: Path,
) -> Iterator[Part]:
    """All parts, the most important first; all folders are absolute."""
    marked = ["-m", "pytest", "-m", "gpu", "-q", str(ROOT / "tests" / "gpu")]
    yield Part("tests", marked)
    tables = ["--table", str(output / "benchmark.md"), "--json", str(output / "benchmark.json")]
    measured = ["--questions", str(questions), "--epochs-of", "ap-cnn", "--device", device]
    yield Part("benchmark", ["-m", "benchmarks", str(insuranceqa), *measured, *tables])
    peers = [
        "--config",
        str(FAQ / "settings.yaml"),
        "--models",
        "ap-transformer",
        "--peers",
        "bi-encoder,cross-encoder",
        "--device",
        device,
    ]
    files = [
        "--output",
        str(output / "peers"),
        "--table",
        str(output / "peers.md"),
        "--json",
        str(output / "peers.json"),
    ]
    yield Part("peers", ["-m", "ap_ranker", "compare", str(faq), *peers, *files])
    for name, folder in (("insuranceqa", insuranceqa), ("semeval", semeval)):
        config = REPRODUCE / name / "ap-transformer-gpu.yaml"
        for seed in seeds if folder else ():
            options = ["--data", str(folder), "--seeds", str(seed), "--device", device]
            runs = ["--runs", str(output / "runs"), "--results", str(results)]
            yield Part(f"{name}-seed{seed}", [str(REPRODUCE / "run.py"), str(config), *options, *runs])


def command(
    insuranceqa: Annotated[Path, typer.Option(help="The folder with InsuranceQA's files, as for `reproduce/run.py`.")],
    semeval: Annotated[Path | None, typer.Option(help="The same of SemEval's; without it, its rows are left out.")] = (
        None
    ),
    faq: Annotated[Path, typer.Option(help="The data on which ap-transformer stands beside its peers.")] = FAQ,
    seeds: Annotated[str, typer.Option(help="Of the training runs, separated by commas.")] = "1,2,3",
    questions: Annotated[int, typer.Option(min=1, help="Questions that the benchmark times.")] = 20,
    device: Device = "cuda:0",
    output: Annotated[Path, typer.Option(help="A folder for tables, logs and checkpoints.")] = Path("gpu"),
    results: Annotated[Path, typer.Option(help="The folder of the papers' tables, which get the rows.")] = REPRODUCE,
) -> None:
    """Run the GPU's tests, the benchmark with an epoch of ap-cnn, ap-transformer beside its peers, and its rows."""
    with report_user_errors():
        resolve_device(device)
        output.mkdir(parents=True, exist_ok=True)
        failed = []
        every = parts(
            faq.resolve(),
            insuranceqa.resolve(),
            semeval.resolve() if semeval else None,
            device=device,
            seeds=whole_numbers("--seeds", seeds),
            questions=questions,
            output=output.resolve(),
            results=results.resolve(),
        )
        for part in every:
            if (output / f"{part.name}.done").exists():
                console.print(f"{part.name}: finished before")
                continue
            failed += [] if _run(part, output) else [part.name]
        if failed:
            raise InputError(f"Expected all parts to finish, but not {', '.join(failed)} did. Run the command again.")


def _run(part: Part, output: Path) -> bool:
    """Run a part, and remember that it is finished; its output is in NAME.log."""
    started = perf_counter()
    with (output / f"{part.name}.log").open("w", encoding="utf-8") as log:
        try:
            ended = subprocess.run(
                [sys.executable, *part.command],
                check=False,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
            )
            code: int | str = ended.returncode
        except subprocess.TimeoutExpired:
            code = f"none within {SECONDS:.0f} s"
    seconds = f"{perf_counter() - started:.0f} s"
    if code == 0:
        write_text_atomically(output / f"{part.name}.done", f"{seconds}\n")
        console.print(f"{part.name}: finished, {seconds}")
    else:
        console.print(f"{part.name}: exit code {code}, {seconds}; see {output / part.name}.log")
    return code == 0


if __name__ == "__main__":
    typer.run(command)
