"""How much of the processor's time does `ap-ranker serve` take for an answer? Beside it, an earlier checkout's.

python examples/serve_load/processor_time.py --documents examples/faq/answers.csv --questions examples/faq/test.csv
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import httpx
import psutil
import typer
from search_server import served

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.tables import read_table
from ap_ranker.evaluation.markdown import markdown_table

THIS = Path(__file__).resolve().parents[2]

PATIENCE = 60.0
"""Seconds to wait for an answer."""

TURN = 100
"""Number of questions after which it is the other server's turn: each meets the same other load of the machine."""


def main(
    documents: Annotated[Path, typer.Option(help="The FAQ: a file with columns question and answer.")],
    questions: Annotated[Path, typer.Option(help="What users ask: a file with a column question.")],
    pipeline: Annotated[Path, typer.Option(help="A YAML file with a Haystack pipeline.")] = Path(
        "pipelines/faq_search.yaml"
    ),
    before: Annotated[Path | None, typer.Option(help="Another checkout of this project to compare with.")] = None,
    users: Annotated[int, typer.Option(min=1, help="How many ask at once.")] = 16,
    turns: Annotated[int, typer.Option(min=1, help="How many turns of 100 questions each server has.")] = 20,
) -> None:
    """Ask servers in turn; print the median over the turns, and over those of the ratio of two of them."""
    with report_user_errors(), ExitStack() as stack:
        texts = [row.need("question") for row in read_table(questions).rows]
        options = ["--documents", str(documents.resolve()), "--pipeline", str(pipeline.resolve()), "--rate", "0"]
        asking = stack.enter_context(ThreadPoolExecutor(users))
        checkouts = [THIS] if before is None else [THIS, before]
        servers = []
        for checkout in checkouts:
            database = Path(stack.enter_context(TemporaryDirectory())) / "faq.db"
            server = stack.enter_context(served(*options, "--database", str(database), folder=checkout))
            client = stack.enter_context(httpx.Client(base_url=server.address, timeout=PATIENCE, trust_env=False))
            servers.append((psutil.Process(server.process.pid), client))

        def milliseconds(process: psutil.Process, client: httpx.Client, asked: list[str]) -> float:
            started = process.cpu_times()
            for answer in asking.map(lambda text: client.post("/api/search", json={"question": text}), asked):
                answer.raise_for_status()
            ended = process.cpu_times()
            return 1000 * (ended.user + ended.system - started.user - started.system) / len(asked)

        found = []
        for turn in range(turns + 1):
            asked = [f"{texts[(turn * TURN + row) % len(texts)]} ({turn})" for row in range(TURN)]  # none is known
            found.append([milliseconds(*server, asked) for server in servers])
        rows = zip(*found[1:], strict=True)  # the first turn warms both
        cells = [
            [
                str(checkout),
                f"{median(times):.2f}",
                f"{median(time / row[-1] for time, row in zip(times, found[1:], strict=True)):.3f}",
            ]
            for checkout, times in zip(checkouts, rows, strict=True)
        ]
        typer.echo(markdown_table(["checkout", "ms an answer", "ratio to the last"], cells))


if __name__ == "__main__":
    typer.run(main)
