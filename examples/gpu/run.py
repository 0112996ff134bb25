"""All that waits for a GPU, part by part: python examples/gpu/run.py --insuranceqa FOLDER --semeval FOLDER

A part that is finished is not run again, and one that fails stops no other, so a machine that is lent for minutes at a
time gets through all of them. Training runs share the GPU: one alone leaves most of it idle.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Device
from ap_ranker.errors import InputError, check_known
from ap_ranker.files import write_text_atomically
from ap_ranker.models.pretrained import DEFAULT_ENCODER
from ap_ranker.models.registry import model_spec
from ap_ranker.ranking.ranker import resolve_device
from ap_ranker.training.config import read_training_config
from benchmarks.number_lists import whole_numbers

sys.path.append(str(Path(__file__).resolve().parents[1] / "reproduce"))
from results import Row, read_papers, render

ROOT = Path(__file__).resolve().parents[2]
REPRODUCE = ROOT / "examples" / "reproduce"
FAQ = ROOT / "examples" / "faq"

KINDS = ("tests", "speed", "benchmark", "rows", "peers")
"""The parts, the most important first."""

ROWS = (
    "insuranceqa/ap-cnn-paper",
    "insuranceqa/qa-cnn-paper",
    "insuranceqa/ap-bilstm-paper",
    "insuranceqa/qa-bilstm-paper",
    "insuranceqa/ap-transformer-gpu",
    "insuranceqa/ap-transformer-mpnet-gpu",
    "semeval/ap-transformer-gpu",
)
"""Rows of the papers' tables that take a CPU hours."""

MODELS = "ap-transformer,ap-cnn,ap-bilstm,qa-bilstm,global-local,bimpm"
LEARNERS = "ap-transformer,ap-cnn,ap-bilstm"
ENCODERS = f"{DEFAULT_ENCODER},sentence-transformers/all-mpnet-base-v2"

SECONDS = 3 * 3_600.0
"""Maximum time of a part; one that takes longer is ended and fails. A paper's recipe has 26,675 steps, of a thousand
answers each; four runs that shared an H200 made five of them a second each. Each of eight runs that shared an H100 made
12 to 25 steps of 70 answers a second."""

console = Console(soft_wrap=True)


@dataclass(frozen=True)
class Part:
    """A command whose results stay.

    Attributes:
        name: of the part, and of the file that says that it is finished.
        command: arguments of this Python.
        rows: the folder into which it writes rows of the papers' tables, if it does.
    """

    name: str
    command: Sequence[str]
    rows: Path | None = None


def parts(
    data: dict[str, Path | None],
    faq: Path,
    output: Path,
    *,
    device: str,
    rows: Sequence[str] = ROWS,
    seeds: Sequence[int] = (1, 2, 3),
    embeddings: str | None = None,
    questions: int = 20,
    encoders: Sequence[str] = (),
    answers: int = 100_000,
    at_once: int = 1,
) -> dict[str, list[Part]]:
    """All parts by their kind; `data` has the folder of each data set that is here. All folders are absolute."""

    def tables(name: str) -> list[str]:
        return ["--device", device, "--table", str(output / f"{name}.md"), "--json", str(output / f"{name}.json")]

    def row(name: str, seed: int) -> Part:
        config, part = REPRODUCE / f"{name}.yaml", f"{name.replace('/', '-')}-seed{seed}"
        reads_words = not model_spec(read_training_config(config, {}).model).pretrained
        options = ["--data", str(data[config.parent.name]), "--seeds", str(seed), "--device", device]
        options += ["--embeddings", embeddings] if embeddings and reads_words else []
        options += ["--runs", str(output / "runs"), "--results", str(output / "rows" / part)]
        return Part(part, [str(REPRODUCE / "run.py"), str(config), *options], output / "rows" / part)

    speed: list[Part] = []
    for encoder in encoders:
        measure = ["-m", "benchmarks.gpu_speed", str(data["insuranceqa"]), "--encoder", encoder, "--device", device]
        name = Path(encoder).name
        speed.append(Part(f"speed-{name}", [*measure, "--rounds", str(questions)]))
        speed.append(Part(f"answers-{name}", [*measure, "--answers", str(answers)]))
    workers = ["-n", str(at_once)] if at_once > 1 else []
    tests = ["-m", "pytest", "-m", "gpu", "-q", *workers, str(ROOT / "tests" / "gpu")]
    timed = ["--models", MODELS, "--epochs-of", LEARNERS, "--questions", str(questions)]
    compared = ["--config", str(FAQ / "settings.yaml"), "--models", "ap-transformer"]
    compared += ["--peers", "bi-encoder,cross-encoder", "--output", str(output / "peers")]
    return {
        "tests": [Part("tests", tests)],
        "speed": speed,
        "benchmark": [Part("benchmark", ["-m", "benchmarks", str(data["insuranceqa"]), *timed, *tables("benchmark")])],
        "rows": [row(name, seed) for seed in seeds for name in rows if data[name.partition("/")[0]]],
        "peers": [Part("peers", ["-m", "ap_ranker", "compare", str(faq), *compared, *tables("peers")])],
    }


def command(
    insuranceqa: Annotated[Path, typer.Option(help="The folder with InsuranceQA's files, as for `reproduce/run.py`.")],
    semeval: Annotated[Path | None, typer.Option(help="The same of SemEval's; without it, its rows are left out.")] = (
        None
    ),
    faq: Annotated[Path, typer.Option(help="The data on which ap-transformer stands beside its peers.")] = FAQ,
    kinds: Annotated[str, typer.Option("--parts", help="Which parts, separated by commas.")] = ",".join(KINDS),
    rows: Annotated[str, typer.Option(help="Rows of the papers' tables, DATA/NAME, separated by commas.")] = (
        ",".join(ROWS)
    ),
    embeddings: Annotated[str | None, typer.Option(help="Word vectors that the rows' word models begin with.")] = None,
    seeds: Annotated[str, typer.Option(help="Of the training runs, separated by commas.")] = "1,2,3",
    questions: Annotated[int, typer.Option(min=1, help="Questions that the benchmark times; rounds of `speed`.")] = 20,
    encoders: Annotated[str, typer.Option(help="Whose `speed` is measured: names on the hub, or folders.")] = ENCODERS,
    answers: Annotated[int, typer.Option(min=1, help="Answers that each of them reads, in 200 s at most.")] = 100_000,
    at_once: Annotated[int, typer.Option(min=1, help="Training runs that share the GPU; processes of the tests.")] = 4,
    minutes: Annotated[float, typer.Option(min=0, help="Maximum time of all parts together.")] = 600,
    device: Device = "cuda:0",
    output: Annotated[Path, typer.Option(help="A folder for tables, logs and checkpoints.")] = Path("gpu"),
    results: Annotated[Path, typer.Option(help="The folder of the papers' tables, which get the rows.")] = REPRODUCE,
) -> None:
    """Run the GPU's tests, measures of speed, the benchmark, rows of the papers' tables, and ap-transformer beside its
    peers."""
    ends = perf_counter() + 60 * minutes
    with report_user_errors():
        resolve_device(device)
        wanted, names = kinds.split(","), rows.split(",")
        for kind in wanted:
            check_known("a part", kind, KINDS)
        for name in names:
            check_known("a row", name, [f"{each.parent.name}/{each.stem}" for each in REPRODUCE.glob("*/*.yaml")])
        output.mkdir(parents=True, exist_ok=True)
        data = {"insuranceqa": insuranceqa.resolve(), "semeval": semeval.resolve() if semeval else None}
        every = parts(
            data,
            faq.resolve(),
            output.resolve(),
            device=device,
            rows=names,
            seeds=whole_numbers("--seeds", seeds),
            embeddings=embeddings,
            questions=questions,
            encoders=encoders.split(","),
            answers=answers,
            at_once=at_once,
        )
        run, failed = partial(_run, output=output, results=results, ends=ends), []
        for kind in (kind for kind in KINDS if kind in wanted):
            group = every[kind]
            with ThreadPoolExecutor(1 if kind == "speed" else at_once) as pool:  # which nothing else may disturb
                failed += [part.name for part, done in zip(group, pool.map(run, group), strict=True) if not done]
        if failed:
            raise InputError(f"Expected all parts to finish, but not {', '.join(failed)} did. Run the command again.")


def _run(part: Part, *, output: Path, results: Path, ends: float) -> bool:
    """Run a part until it `ends` at the latest, and remember that it is finished; its output is in NAME.log."""
    done = output / f"{part.name}.done"
    if done.exists():
        console.print(f"{part.name}: finished before")
        return True
    started = perf_counter()
    if started >= ends:
        console.print(f"{part.name}: no time left")
        return False
    limit = min(SECONDS, ends - started)
    with (output / f"{part.name}.log").open("w", encoding="utf-8") as log:
        try:
            command = [sys.executable, *part.command]
            ended = subprocess.run(command, check=False, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, timeout=limit)
            code: int | str = ended.returncode
        except subprocess.TimeoutExpired:
            code = f"none within {limit:.0f} s"
    seconds = f"{perf_counter() - started:.0f} s"
    if code != 0:
        console.print(f"{part.name}: exit code {code}, {seconds}; see {output / part.name}.log")
        return False
    if part.rows is not None:
        with _adding:
            for row in Row.read(part.rows / "results.json"):
                row.add(results, partial(render, papers=read_papers()))
    write_text_atomically(done, f"{seconds}\n")
    console.print(f"{part.name}: finished, {seconds}")
    return True


_adding = Lock()  # parts that run at the same time have rows for the same files


if __name__ == "__main__":
    typer.run(command)
