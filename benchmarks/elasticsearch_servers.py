"""Do servers on Elasticsearch that keep nothing answer as a store in memory does, and how fast?

PYTHONPATH=tests:. python -m benchmarks.elasticsearch_servers ANSWERS --questions QUESTIONS --output FILE.json

It starts three nodes, fills an index with all answers and their states (`ap-ranker index` in three parts, one of which
is killed and started again), and starts servers without a file of the FAQ, each with an empty cache folder. It measures
the time from the start of a server to its first answer, compares the answers to all questions with those of the store
in memory, reads from the servers' metrics how many answers they had to encode, and counts questions a second.

With `--passages NUMBER` the index holds as many passages, each of three sentences that are drawn from all answers. The
encoder is then the first layer of the default one: a million passages are encoded in half an hour, and all else that a
cluster and a server do is as with the whole encoder.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import httpx
import numpy as np
import typer
import yaml
from elastic.adapter import Adapter
from elastic.conftest import change
from elastic.engine import Engine, start_engine
from transformers import AutoModel, AutoTokenizer

from ap_ranker.data.faq import Match
from ap_ranker.documents import read_entries
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.ranking.loaded_checkpoints import flush_encodings
from ap_ranker.ranking.state_store import keep_encodings
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.elasticsearch.index_layout import SETTINGS
from benchmarks.elasticsearch_cost import alone, emptier, nothing, processor_seconds, states_ignored, traffic

ROOT = Path(__file__).parents[1]
PARTS = 3
KILLED_AFTER = 0.1
"""Share of the entries that are written when one of the parts is killed."""

CLIENTS = 16
COSTED = 50
"""Number of questions that are asked one by one."""

WARM = 3
"""How often before those that count."""

SENTENCES = 3
"""Number of sentences of a passage."""

TOLERANCE = 1e-6
COMMAND = [sys.executable, "-m", "ap_ranker"]


def main(
    answers: Annotated[Path, typer.Argument(help="A table of answers.")],
    questions: Annotated[Path, typer.Option(help="A table with a column `question`, .tsv.gz or .csv.")],
    number: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 500,
    shards: Annotated[int, typer.Option(min=1)] = 3,
    replicas: Annotated[int, typer.Option(min=0)] = 1,
    passages: Annotated[int, typer.Option(min=0, help="Number of passages in place of the answers.")] = 0,
    compare: Annotated[bool, typer.Option(help="Whether to ask the store in memory, too.")] = True,
    output: Annotated[Path | None, typer.Option(help="A JSON file to write the numbers into.")] = None,
) -> None:
    """Print the numbers."""
    asked = read_questions(questions, number)
    numbers: dict[str, Any] = {"questions": len(asked), "shards": shards, "replicas": replicas}

    def tell(**more: Any) -> None:
        numbers.update(more)
        typer.echo(json.dumps(more))
        if output is not None:
            output.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory(prefix="ap-ranker-servers-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        checkpoint = folder / "checkpoint"
        options = ["--documents", str(answers), "--language", "english", "--output", str(checkpoint)]
        if passages:
            options += ["--encoder", str(_first_layer(folder / "encoder"))]
        subprocess.run([*COMMAND, "init", *options], check=True, stderr=subprocess.DEVNULL)
        if passages:
            answers = _write_passages(answers, passages, folder / "passages.csv")
        engine = start_engine(folder / "nodes", 3, "--heap", "1g")
        try:
            pipeline = _pipeline(folder, checkpoint, engine, shards, replicas)
            tell(**_filled(answers, pipeline, engine, folder))
            with ExitStack() as stack:
                servers = [stack.enter_context(_serving(pipeline, folder / f"server-{each}")) for each in (1, 2)]
                tell(first_answer_seconds=[round(server.seconds, 1) for server in servers])
                replies = _replies(servers, asked)
                tell(**_encoded(servers))
                tell(questions_a_second_of_one=_speed(servers[:1], asked))
                tell(questions_a_second_of_two=_speed(servers, asked))
            tell(a_question=costs_of_a_question(engine, pipeline, folder, asked))
        finally:
            engine.stop()
        if compare:
            tell(**_compared(answers, checkpoint, folder, asked, replies))


def read_questions(path: Path, number: int) -> list[str]:
    """The first questions of a table, .tsv.gz or .csv."""
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [row["question"] for row in islice(csv.DictReader(file, delimiter=delimiter), number)]


def _first_layer(folder: Path) -> Path:
    """An encoder that is the first layer of the default one."""
    source = find_encoder(DEFAULT_ENCODER)
    encoder = AutoModel.from_pretrained(source)
    encoder.encoder.layer = encoder.encoder.layer[:1]
    encoder.config.num_hidden_layers = 1
    encoder.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


def _write_passages(answers: Path, number: int, target: Path) -> Path:
    """A table of passages, whose sentences are drawn from all answers."""
    sentences: list[str] = []
    for entry in read_entries(answers):
        sentences += re.split(r"(?<=[.!?])\s+", entry.answer)
    drawn = random.Random(0)
    with target.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["aid", "answer"])
        for row in range(number):
            table.writerow([row, " ".join(drawn.choices(sentences, k=SENTENCES))])
    return target


def _pipeline(folder: Path, checkpoint: Path, engine: Engine, shards: int, replicas: int) -> Path:
    settings: dict[str, Any] = json.loads(SETTINGS.read_text(encoding="utf-8"))
    del settings["settings"]["auto_expand_replicas"]
    settings["settings"] |= {"number_of_shards": shards, "number_of_replicas": replicas}
    layout = folder / "settings.json"
    layout.write_text(json.dumps(settings))
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_elasticsearch.yaml").read_text(encoding="utf-8"))
    change(declared, checkpoint, {"hosts": engine.urls, "request_timeout": 60, "index": "faq", "settings": str(layout)})
    path = folder / "faq_elasticsearch.yaml"
    path.write_text(yaml.safe_dump(declared))
    return path


def _written(engine: Engine) -> int:
    """Number of documents that the cluster has taken."""
    stats = httpx.get(f"{engine.url}/faq-*/_stats/indexing", timeout=60).json()
    return int(stats["_all"]["primaries"].get("indexing", {}).get("index_total", 0))


def _filled(answers: Path, pipeline: Path, engine: Engine, folder: Path) -> dict[str, Any]:
    """Fill the index in parts; the first one is killed and started again."""
    number = len(read_entries(answers))
    started = time.monotonic()
    nodes = processor_seconds(engine)
    parts_before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    def begin(part: int) -> subprocess.Popen[bytes]:
        command = [*COMMAND, "index", str(answers), "--pipeline", str(pipeline), "--part", f"{part}/{PARTS}"]
        one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
        with (folder / f"part-{part}.log").open("a") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=one_thread)

    parts = [begin(part) for part in range(1, PARTS + 1)]
    while parts[0].poll() is None and _written(engine) < KILLED_AFTER * number:
        time.sleep(1.0)
    was_running = parts[0].poll() is None
    parts[0].send_signal(signal.SIGKILL)
    parts[0].wait()
    parts[0] = begin(1)
    for part_number, part in enumerate(parts, start=1):
        if part.wait():
            log = (folder / f"part-{part_number}.log").read_text()
            raise typer.BadParameter(f"part {part_number}: {log[-2000:]}")
    seconds = time.monotonic() - started
    counted = httpx.get(f"{engine.url}/faq/_count", params={"q": "_exists_:ap_ranker_key"}, timeout=60).json()["count"]
    stats = httpx.get(f"{engine.url}/faq/_stats/store,docs", timeout=60).json()["_all"]["primaries"]
    memory = httpx.get(f"{engine.url}/_cat/nodes?format=json&h=heap.current", timeout=60).json()
    return {
        "killed_while_running": was_running,
        "entries": counted,
        "entries_of_the_table": number,
        "seconds_of_index": round(seconds, 1),
        "entries_a_second": round(counted / seconds, 1),
        "processor_seconds_of_parts": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - parts_before, 1),
        "processor_seconds_of_nodes": round(processor_seconds(engine) - nodes, 1),
        "bytes_on_disk": stats["store"]["size_in_bytes"],
        "heap": [node["heap.current"] for node in memory],
    }


@dataclass(frozen=True)
class _Server:
    address: str
    seconds: float  # from its start to its first answer
    client: httpx.Client

    def ask(self, question: str) -> dict[str, Any]:
        reply = self.client.post("/api/search", json={"question": question})
        reply.raise_for_status()
        answer: dict[str, Any] = reply.json()
        return answer


@contextmanager
def _serving(pipeline: Path, folder: Path) -> Iterator[_Server]:
    """A server in an empty folder, without the FAQ's file."""
    folder.mkdir()
    log = folder / "server.log"
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONUNBUFFERED": "1"}
    started = time.monotonic()
    command = [*COMMAND, "serve", "--pipeline", str(pipeline), "--port", "0", "--rate", "0"]
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        address = ""
        while not address:
            match = re.search(r"http://\S+?:\d+", log.read_text())
            address = match[0] if match else ""
            if process.poll() is not None:
                raise typer.BadParameter(log.read_text()[-2000:])
            time.sleep(0.02)
        with httpx.Client(base_url=address, timeout=120) as client:
            server = _Server(address, 0.0, client)
            server.ask("Does it cover my car?")
            yield _Server(address, time.monotonic() - started, client)
    finally:
        process.terminate()
        process.wait(90)


def _replies(servers: Sequence[_Server], asked: Sequence[str]) -> list[dict[str, Any]]:
    """The reply to each question, of the servers in turn."""
    return [servers[number % len(servers)].ask(question) for number, question in enumerate(asked)]


def _encoded(servers: Sequence[_Server]) -> dict[str, Any]:
    """How many answers the servers have encoded, and how many states they have fetched."""
    counts: dict[str, Any] = {}
    for name in ("ap_ranker_encoded_answers_total", "ap_ranker_fetched_states_total"):
        of_servers = []
        for server in servers:
            metrics = server.client.get("/metrics").text
            match = re.search(rf"^{name} (\S+)", metrics, re.MULTILINE)
            of_servers.append(float(match[1]) if match else None)
        counts[name] = of_servers
    return counts


def _speed(servers: Sequence[_Server], asked: Sequence[str]) -> float:
    """Questions a second of several clients, after one round that does not count."""
    questions = list(asked[:200])
    with ThreadPoolExecutor(CLIENTS) as clients:
        for _ in range(2):
            start = time.perf_counter()
            done = [clients.submit(servers[row % len(servers)].ask, each) for row, each in enumerate(questions)]
            for each in done:
                each.result()
            seconds = time.perf_counter() - start
    return round(len(questions) / seconds, 1)


def costs_of_a_question(
    engine: Engine, pipeline: Path, folder: Path, asked: Sequence[str]
) -> dict[str, dict[str, float]]:
    """What one question costs at a time: with all candidates in memory, with none, and with none that has states."""
    questions = list(asked[:COSTED])
    direct = DeclaredPipeline.load(pipeline)
    direct.prepare()
    proxy = Adapter(engine.url)
    through_file = folder / "through_proxy.yaml"
    declared = yaml.safe_load(pipeline.read_text(encoding="utf-8"))
    change(declared, folder / "checkpoint", {"hosts": [proxy.url]})
    through_file.write_text(yaml.safe_dump(declared))
    through = DeclaredPipeline.load(through_file)
    through.prepare()
    for question in [*questions] * WARM:
        direct.answer(question)
    costs: dict[str, dict[str, float]] = {}
    costs["cached"] = alone(engine, direct, questions, before=nothing)
    costs["cached"] |= traffic(proxy, through, questions, before=nothing)
    empty = emptier(direct)
    empty_through = emptier(through)
    costs["nothing cached"] = alone(engine, direct, questions, before=empty)
    costs["nothing cached"] |= traffic(proxy, through, questions, before=empty_through)
    with states_ignored():
        costs["encoded here"] = alone(engine, direct, questions, before=empty)
        costs["encoded here"] |= traffic(proxy, through, questions, before=empty_through)
    proxy.close()
    for measures in costs.values():
        measures.update({name: round(value, 2) for name, value in measures.items()})
    return costs


def _compared(
    answers: Path, checkpoint: Path, folder: Path, asked: Sequence[str], replies: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """How the servers' replies differ from those of the store in memory."""
    os.environ["XDG_CACHE_HOME"] = str(folder / "memory")
    keep_encodings(True)
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search_hybrid.yaml").read_text(encoding="utf-8"))
    path = folder / "faq_search_hybrid.yaml"
    path.write_text(yaml.safe_dump(declared))
    memory = DeclaredPipeline.load(path, str(checkpoint))
    memory.fill(read_entries(answers), Match.both)
    memory.prepare()
    flush_encodings()
    same_orders = 0
    same_scores = 0  # texts of which a ranker makes the same may change places
    largest = 0.0
    for question, reply in zip(asked, replies, strict=True):
        documents, decision = memory.answer(question)
        names = [document.id for document in documents]
        shown = [answer["id"] for answer in reply["answers"]]
        same_orders += names[: len(shown)] == shown
        scores = [document.score for document in documents[: len(shown)]]
        same_scores += np.allclose(scores, [answer["score"] for answer in reply["answers"]], rtol=0, atol=TOLERANCE)
        if decision.probability is not None and reply["probability"] is not None:
            largest = max(largest, abs(decision.probability - reply["probability"]))
    return {
        "same_orders": same_orders,
        "same_scores": same_scores,
        "largest_difference_of_probability": largest,
        "within_tolerance": largest <= TOLERANCE,
    }


if __name__ == "__main__":
    typer.run(main)
