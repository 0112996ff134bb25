"""How does the search page's server fare under load? Many users who ask all the time, then one alone.

python examples/serve_load/run.py --documents examples/faq/answers.csv --questions examples/faq/test.csv
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Annotated

import httpx
import numpy as np
import psutil
import typer

from ap_ranker.benchmark.machine import describe_machine
from ap_ranker.cli.mistakes import mistakes_reported
from ap_ranker.cli.options import SEARCH_PIPELINE, SearchPipeline
from ap_ranker.data.faq import read_faq
from ap_ranker.data.tables import read_table
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.files import write_whole
from ap_ranker.ranking.checkpoint import find_checkpoint, read_config
from ap_ranker.ranking.ranker import resolve_device
from ap_ranker.serving.process import Server, served
from ap_ranker.serving.search import DeclaredPipeline

HERE = Path(__file__).resolve().parent

PATIENCE = 60.0
"""Seconds that a user waits: longer than the server lets a search take, so that its own answer is what is counted."""

ALONE = 0.25
"""The share of the seconds for one user alone, whose requests are all much alike."""

TITLES = ["users", "seconds", "requests", "errors", "requests/s", "p50, ms", "p95, ms", "memory, MB: start"]
TITLES += ["middle", "end"]


@dataclass
class Asked:
    """What users met: the seconds of each answer, and how often what went wrong (a status or an exception's name)."""

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Load:
    """So many users for so many seconds.

    Attributes:
        users: each asks the next question once the last one is answered.
        seconds: from the first question to the last answer.
        requests: answered or not.
        errors: how many were not answered with status 200, by status or exception.
        per_second: answers.
        p50: milliseconds of an answer as a user sees it.
        p95: the same.
        megabytes: the server's resident memory at the start, in the middle and at the end.
    """

    users: int
    seconds: float
    requests: int
    errors: dict[str, int]
    per_second: float
    p50: float
    p95: float
    megabytes: tuple[float, float, float]

    def cells(self) -> list[str]:
        """Its row of the table, under `TITLES`."""
        counts = [f"{self.users:,}", f"{self.seconds:.0f}", f"{self.requests:,}", f"{sum(self.errors.values()):,}"]
        times = [f"{self.per_second:.1f}", f"{self.p50:,.0f}", f"{self.p95:,.0f}"]
        return [*counts, *times, *(f"{each:,.0f}" for each in self.megabytes)]


async def ask(address: str, questions: Sequence[str], seed: int, until: float, asked: Asked) -> None:
    """One user, with a connection of its own, as a browser has."""
    random = Random(seed)
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE, trust_env=False, verify=False) as client:
        while perf_counter() < until:
            started = perf_counter()
            try:
                response = await client.post("/api/search", json={"question": random.choice(questions)})
            except httpx.HTTPError as error:
                asked.errors[type(error).__name__] += 1
                continue
            if response.status_code == 200:
                asked.seconds.append(perf_counter() - started)
            else:
                asked.errors[str(response.status_code)] += 1


async def load(server: Server, questions: Sequence[str], users: int, seconds: float) -> Load:
    """Let so many users ask for so long; questions that are on their way at the end are waited for."""
    process = psutil.Process(server.process.pid)

    def megabytes() -> float:
        return float(process.memory_info().rss / 1e6)

    asked, first, started = Asked(), megabytes(), perf_counter()
    until = started + seconds
    everyone = asyncio.gather(*(ask(server.address, questions, seed, until, asked) for seed in range(users)))
    await asyncio.sleep(seconds / 2)
    middle = megabytes()
    await everyone
    took = perf_counter() - started
    p50, p95 = np.percentile(asked.seconds, (50, 95)) * 1000 if asked.seconds else (float("nan"),) * 2
    return Load(
        users=users,
        seconds=took,
        requests=len(asked.seconds) + asked.errors.total(),
        errors=dict(asked.errors),
        per_second=len(asked.seconds) / took,
        p50=float(p50),
        p95=float(p95),
        megabytes=(first, middle, megabytes()),
    )


def wait_for(server: Server) -> None:
    """Until it answers."""
    with httpx.Client(base_url=server.address, timeout=PATIENCE, trust_env=False) as client:
        client.get("/health").raise_for_status()


def render(about: str, loads: Sequence[Load]) -> str:
    """`results.md`."""
    table = markdown_table(TITLES, [each.cells() for each in loads])
    return f"# Results\n\nWritten by `run.py`; [how to read it](README.md).\n\n{about}\n\n{table}\n"


def model_of(pipeline: Path) -> str:
    """Which model the pipeline ranks with."""
    ranker = DeclaredPipeline.load(pipeline).ranker()
    return "no ranker" if ranker is None else f"`{read_config(find_checkpoint(ranker.model)).model}`"


def command(
    documents: Annotated[Path, typer.Option(help="The FAQ: a file with columns question and answer.")],
    questions: Annotated[Path, typer.Option(help="What users ask: a file with a column question.")],
    pipeline: SearchPipeline = SEARCH_PIPELINE,
    users: Annotated[int, typer.Option(min=1, help="How many ask at once.")] = 200,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long they ask; one alone, a quarter of it.")] = 60.0,
    output: Annotated[Path, typer.Option(help="A folder for results.md and results.json.")] = HERE,
) -> None:
    """Start the server, ask it, end it, and write down how it fared."""
    with mistakes_reported():
        texts = [row.need("question") for row in read_table(questions).rows]
        about = (
            f"{len(read_faq(documents)):,} answers, {len(texts):,} questions, {model_of(pipeline)}. "
            f"{describe_machine(resolve_device(None))}; users and server on the same machine."
        )
        with tempfile.TemporaryDirectory() as folder:
            options = {"--documents": documents, "--pipeline": pipeline, "--feedback": Path(folder) / "feedback.jsonl"}
            given = [str(part) for option in options.items() for part in option]
            with served(*given, "--rate", "0") as server:
                wait_for(server)
                loads = [
                    asyncio.run(load(server, texts, users, seconds)),
                    asyncio.run(load(server, texts, 1, ALONE * seconds)),
                ]
        output.mkdir(parents=True, exist_ok=True)
        record = {"about": about, "loads": [asdict(each) for each in loads]}
        write_whole(output / "results.json", json.dumps(record, indent=1) + "\n")
        write_whole(output / "results.md", render(about, loads))
        typer.echo(render(about, loads))
        if failed := [each.errors for each in loads if each.errors]:
            typer.echo(f"Not answered: {failed}", err=True)
            raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(command)
