"""How does the search page's server fare under load? Many users who ask and judge all the time, then one alone.

python examples/serve_load/run.py --documents examples/faq/answers.csv --questions examples/faq/test.csv
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Annotated, Any

import httpx
import numpy as np
import psutil
import typer
from search_server import Server, served
from sqlalchemy import select

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.faq import read_faq
from ap_ranker.data.tables import read_table
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.files import write_text_atomically
from ap_ranker.ranking.checkpoint import find_checkpoint, read_checkpoint_config
from ap_ranker.ranking.ranker import resolve_device
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.database import judgements, open_database
from benchmarks.machine import describe_machine

HERE = Path(__file__).resolve().parent

PATIENCE = 60.0
"""Seconds that a user waits: longer than the server lets a search take, so that its own answer is what is counted."""

ALONE = 0.25
"""The share of the seconds for one user alone, whose requests are all much alike."""

CLICKS = 0.2
"""The share of questions after which a user says whether the first answer helped."""

ATTACKS = 20.0
"""Requests a second of an attacker: what `serve --rate` allows one address."""

EDIT_SECONDS = 2.0
"""Between two changes of the owner."""

TITLES = ["users", "seconds", "requests", "errors", "requests/s", "p50, ms", "p95, ms", "memory, MB: start"]
TITLES += ["middle", "end", "clicks", "idle connections", "attacker", "database, MB"]


@dataclass
class Asked:
    """What users met.

    Attributes:
        seconds: of each answer.
        errors: how often what went wrong: a status or an exception's name, with "click" before it if it was one.
        judged: visit, question and label of each click that was acknowledged.
        unsure: visit and question of clicks that were not, which may be kept all the same.
        stopping: the server has been asked to end, so that users end when it answers no more.
        attacks: requests of an attacker, answered or refused.
    """

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    judged: list[tuple[str, str, int]] = field(default_factory=list)
    unsure: set[tuple[str, str]] = field(default_factory=set)
    stopping: bool = False
    attacks: int = 0


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
        megabytes: the resident memory of the server and its processes at the start, in the middle and at the end.
        clicks: judgements that the server acknowledged.
        idle: connections that said nothing all the time.
        stopped: whether the server was asked to end (SIGTERM) while users went on asking.
        attacked: how many requests an attacker sent beside them; 0 without one.
        database: megabytes of its files at the end.
    """

    users: int
    seconds: float
    requests: int
    errors: dict[str, int]
    per_second: float
    p50: float
    p95: float
    megabytes: tuple[float, float, float]
    clicks: int
    idle: int
    stopped: bool
    attacked: int = 0
    database: float = 0.0

    def cells(self) -> list[str]:
        """Its row of the table, under `TITLES`."""
        counts = [f"{self.users:,}", f"{self.seconds:.0f}", f"{self.requests:,}", f"{sum(self.errors.values()):,}"]
        times = [f"{self.per_second:.1f}", f"{self.p50:,.0f}", f"{self.p95:,.0f}"]
        memory = [f"{each:,.0f}" for each in self.megabytes]
        return [
            *counts,
            *times,
            *memory,
            f"{self.clicks:,}",
            f"{self.idle:,}",
            f"{self.attacked:,}",
            f"{self.database:.1f}",
        ]


async def use(address: str, questions: Sequence[str], seed: int, until: float, asked: Asked) -> None:
    """One user, with a connection of its own, as a browser has, from a network of its own, with a quota of clicks."""
    random, visit = Random(seed), f"user-{seed}"
    options: dict[str, Any] = {"timeout": PATIENCE, "trust_env": False, "verify": False}
    options["headers"] = {"X-Forwarded-For": f"10.{seed // 256}.{seed % 256}.1"}
    async with httpx.AsyncClient(base_url=address, **options) as client:
        while asked.stopping or perf_counter() < until:
            question, started = random.choice(questions), perf_counter()
            found = await _post(client, "/api/search", {"question": question}, asked)
            if found is None:
                return
            if found.status_code != 200:
                continue
            asked.seconds.append(perf_counter() - started)
            answers = found.json().get("answers")
            if not answers or random.random() >= CLICKS:
                continue
            helped = random.random() < 0.5
            click = {name: answers[0][name] for name in ("id", "receipt")}
            click |= {"question": question, "helped": helped, "visit": visit}
            kept = await _post(client, "/api/feedback", click, asked, "click ")
            if kept is None or kept.status_code != 200:
                asked.unsure.add((visit, question))
            if kept is None:
                return
            if kept.status_code == 200:
                asked.judged.append((visit, question, int(helped)))


async def _post(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], asked: Asked, what: str = ""
) -> httpx.Response | None:
    """The answer, or one that stands for none (status 0); `None` once the server answers no more."""
    late = asked.stopping
    try:
        response = await client.post(path, json=body)
    except httpx.HTTPError as error:
        if late:  # what was sent before is answered
            return None
        asked.errors[what + type(error).__name__] += 1
        return httpx.Response(0)
    if response.status_code != 200:
        asked.errors[f"{what}{response.status_code}"] += 1
    return response


async def idle(address: str) -> None:
    """A connection that says nothing, and is opened again whenever the server closes it."""
    host, port = address.removeprefix("http://").strip("/").rsplit(":", 1)
    with suppress(ConnectionRefusedError):
        while True:
            reader, writer = await asyncio.open_connection(host, int(port))
            with suppress(ConnectionResetError):
                await reader.read()
            writer.close()


async def attack(address: str, questions: Sequence[str], asked: Asked) -> None:
    """One address that asks what nobody can answer, clicks at the last answer and takes that back, at full rate."""
    options: dict[str, Any] = {"timeout": PATIENCE, "trust_env": False, "headers": {"X-Forwarded-For": "192.0.2.66"}}
    async with httpx.AsyncClient(base_url=address, **options) as client:

        async def send(path: str, **body: Any) -> httpx.Response:
            started, asked.attacks = perf_counter(), asked.attacks + 1
            response = await client.post(path, json=body)
            await asyncio.sleep(max(0.0, 1 / ATTACKS - perf_counter() + started))
            return response

        with suppress(httpx.HTTPError):
            for number in count():
                await send("/api/search", question=f"zzz {number} " + "qwxyz " * 100)
                question = questions[number % len(questions)]
                found = await send("/api/search", question=question)
                for answer in found.json().get("answers", [])[-1:] if found.status_code == 200 else ():
                    click = {"question": question, "id": answer["id"], "receipt": answer["receipt"]}
                    for helped in (True, None):
                        comment = "" if helped is None else "x" * 300
                        visit = f"attacker-{number}"
                        await send("/api/feedback", **click, visit=visit, helped=helped, comment=comment)


async def edit(address: str, key: str, asked: Asked) -> None:
    """The owner, who adds an entry every few seconds; what fails is an error."""
    headers = {"Authorization": f"Bearer {key}", "X-Forwarded-For": "198.51.100.1"}
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE, trust_env=False, headers=headers) as client:
        for number in count():
            entry = {"action": "add entry", "question": f"What is new on day {number}?", "answer": f"Offer {number}."}
            await _post(client, "/owner/api/change", entry, asked, "edit ")
            await asyncio.sleep(EDIT_SECONDS)


async def load(
    server: Server,
    questions: Sequence[str],
    users: int,
    seconds: float,
    *,
    idle_connections: int = 0,
    stop: bool = False,
    attacker: bool = False,
    owner_key: str = "",
) -> tuple[Load, Asked]:
    """Let so many users ask for so long; questions that are on their way at the end are waited for.

    Args:
        server: is asked.
        questions: that users choose from.
        users: how many.
        seconds: how long.
        idle_connections: beside them.
        stop: ask the server to end then, while the users go on until it takes no more connections.
        attacker: one does what the limits allow, beside them.
        owner_key: with it, the owner adds entries beside them.
    """
    process = psutil.Process(server.process.pid)

    def megabytes() -> float:
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True))) / 1e6

    asked, first, started = Asked(), megabytes(), perf_counter()
    until = started + seconds + (PATIENCE if stop else 0)
    silent = [asyncio.create_task(idle(server.address)) for _ in range(idle_connections)]
    if attacker:
        silent.append(asyncio.create_task(attack(server.address, questions, asked)))
    if owner_key:
        silent.append(asyncio.create_task(edit(server.address, owner_key, asked)))
    everyone = asyncio.gather(*(use(server.address, questions, seed, until, asked) for seed in range(users)))
    await asyncio.sleep(seconds / 2)
    middle = megabytes()
    if stop:
        await asyncio.sleep(seconds / 2)
        last, asked.stopping = megabytes(), True
        server.process.terminate()
    await everyone
    took = perf_counter() - started
    last = last if stop else megabytes()
    for task in silent:
        task.cancel()
    await asyncio.gather(*silent, return_exceptions=True)
    p50, p95 = np.percentile(asked.seconds, (50, 95)) * 1000 if asked.seconds else (float("nan"),) * 2
    return Load(
        users=users,
        seconds=took,
        requests=len(asked.seconds)
        + sum(count for name, count in asked.errors.items() if name.split()[0] not in ("click", "edit")),
        errors=dict(asked.errors),
        per_second=len(asked.seconds) / took,
        p50=float(p50),
        p95=float(p95),
        megabytes=(first, middle, last),
        clicks=len(asked.judged),
        idle=idle_connections,
        stopped=stop,
        attacked=asked.attacks,
    ), asked


def lost_clicks(asked: Asked, place: Path) -> int:
    """How many acknowledged clicks are not in the database: of each visit and question, the last one."""
    with open_database(str(place)).reading() as connection:
        columns = judgements.c.visit, judgements.c.question, judgements.c.helped
        kept = {tuple(row) for row in connection.execute(select(*columns))}
    kept |= {(*key, helped) for *key, _ in kept if tuple(key) in asked.unsure for helped in (True, False)}
    acknowledged = {(visit, question): helped for visit, question, helped in asked.judged}
    return len({(*key, bool(helped)) for key, helped in acknowledged.items()} - kept)


def measure(options: Sequence[str], texts: Sequence[str], users: int, seconds: float, **more: Any) -> Load:
    """A load on a server of its own; its errors tell of clicks that were lost, and of an end that was none."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "faq.db"
        with served(*options, "--database", str(database), "--rate", "0") as server:
            wait_for(server)
            found, asked = asyncio.run(load(server, texts, users, seconds, **more))
            if found.stopped and (code := server.process.wait(PATIENCE)) != 0:
                found.errors[f"exit code {code}"] = 1
        size = sum(path.stat().st_size for path in Path(folder).glob("faq.db*")) / 1e6
        if lost := lost_clicks(asked, database):
            found.errors["click lost"] = lost
    return replace(found, database=size)


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
    return "no ranker" if ranker is None else f"`{read_checkpoint_config(find_checkpoint(ranker.model)).model}`"


def command(
    documents: Annotated[Path, typer.Option(help="The FAQ: a file with columns question and answer.")],
    questions: Annotated[Path, typer.Option(help="What users ask: a file with a column question.")],
    pipeline: Annotated[Path, typer.Option(help="A YAML file with a Haystack pipeline.")] = Path(
        "pipelines/faq_search.yaml"
    ),
    users: Annotated[int, typer.Option(min=1, help="How many ask at once.")] = 200,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long they ask; one alone, a quarter of it.")] = 60.0,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes that search, as for `serve`.")] = 1,
    idle_connections: Annotated[int, typer.Option(min=0, help="Connections beside them that say nothing.")] = 0,
    stop: Annotated[bool, typer.Option("--stop", help="End the server (SIGTERM) while the many ask.")] = False,
    attacker: Annotated[
        bool, typer.Option("--attacker", help="Owner's edits beside the many; then the same with an attacker, too.")
    ] = False,
    output: Annotated[Path, typer.Option(help="A folder for results.md and results.json.")] = HERE,
) -> None:
    """Start the server, ask it, end it, and write down how it fared."""
    with report_user_errors():
        texts = [row.need("question") for row in read_table(questions).rows]
        about = (
            f"{len(read_faq(documents)):,} answers, {len(texts):,} questions, {model_of(pipeline)}. "
            f"{describe_machine(resolve_device(None))}; users and server on the same machine, which searches in "
            f"{workers} process{'es' if workers > 1 else ''}."
        )
        options = ["--documents", str(documents), "--pipeline", str(pipeline), "--workers", str(workers)]
        if attacker:
            key = os.environ["AP_RANKER_OWNER_KEY"] = secrets.token_hex(32)
            options.append("--log-questions")
            loads = [
                measure(options, texts, users, seconds, attacker=attacks, owner_key=key) for attacks in (False, True)
            ]
        else:
            loads = [
                measure(options, texts, users, seconds, idle_connections=idle_connections, stop=stop),
                measure(options, texts, 1, ALONE * seconds),
            ]
        output.mkdir(parents=True, exist_ok=True)
        record = {"about": about, "loads": [asdict(each) for each in loads]}
        write_text_atomically(output / "results.json", json.dumps(record, indent=1) + "\n")
        write_text_atomically(output / "results.md", render(about, loads))
        typer.echo(render(about, loads))
        if failed := [each.errors for each in loads if each.errors]:
            typer.echo(f"Not answered: {failed}", err=True)
            raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(command)
