"""How long does a large folder store take to open, how much memory, and how long a question?

python -m benchmarks.large_stores --sizes 10000,100000

Each store has so many entries, made of the example FAQ's sentences, with vectors of random directions. It is written
and indexed once; then a new process opens it and asks. Seconds and milliseconds are of processor time of one thread.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Annotated

import numpy as np
import psutil
import typer
from haystack import Document

from ap_ranker.errors import InputError
from ap_ranker.evaluation.markdown import markdown_table
from benchmarks.cold_start import FAQ, expanded
from benchmarks.number_lists import whole_numbers
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

SIZE = 384
"""Numbers of a vector, as of the default encoder."""

TOGETHER = 5000
"""Documents of a write: their vectors are lists of numbers, 12 KB each."""

QUESTIONS = 20


def main(
    sizes: Annotated[str, typer.Option(help="Numbers of entries.")] = "10000,100000",
    folder: Annotated[Path | None, typer.Option(hidden=True, help="A store to open and ask.")] = None,
) -> None:
    """Print a table of the time and the memory of stores of some sizes."""
    if folder is not None:
        typer.echo(json.dumps(opened(folder)))
        return
    rows = []
    for size in whole_numbers("--sizes", sizes):
        with TemporaryDirectory() as work:
            written, place = process_time(), Path(work) / "store"
            write(place, size)
            written = process_time() - written
            megabytes = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / 1e6
            found = _in_a_new_process(place)
            rows.append([f"{size:,}", f"{written:.1f}", f"{megabytes:.0f}", *(f"{number:.2f}" for number in found)])
    heads = ["entries", "write and index, s", "folder, MB", "start, s", "memory, MB", "by words, ms", "by meaning, ms"]
    typer.echo(markdown_table(heads, rows))


def write(folder: Path, size: int) -> None:
    """Write a store of so many different entries, and build its indexes."""
    store, random = BM25SDocumentStore(folder), np.random.default_rng(0)
    texts = ["\n".join(row) for row in csv.reader(io.StringIO(expanded(FAQ, size)))][1:]
    for start in range(0, size, TOGETHER):
        some = texts[start : start + TOGETHER]
        vectors = random.standard_normal((len(some), SIZE), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        pairs = enumerate(zip(some, vectors.tolist(), strict=True), start)
        store.write_documents([Document(id=str(n), content=text, embedding=vector) for n, (text, vector) in pairs])
    store.warm_up(embeddings=True)
    store.close()


def opened(folder: Path) -> list[float]:
    """Seconds until a store has answered its first questions, megabytes, and milliseconds of a later one, each way."""
    random, process = np.random.default_rng(1), psutil.Process()
    vectors = random.standard_normal((QUESTIONS + 1, SIZE)).tolist()
    questions = [f"where is my bike with number {number} and its battery" for number in range(QUESTIONS + 1)]
    memory, started = process.memory_info().rss, process_time()
    store = BM25SDocumentStore(folder)
    times: tuple[list[float], list[float]] = [], []
    for number, (question, vector) in enumerate(zip(questions, vectors, strict=True)):
        asked = process_time()
        store.bm25_retrieval(question, top_k=100)
        between = process_time()
        store.embedding_retrieval(vector, top_k=100)
        if number == 0:
            seconds = process_time() - started
            continue
        times[0].append(1000 * (between - asked))
        times[1].append(1000 * (process_time() - between))
    megabytes = (process.memory_info().rss - memory) / 1e6
    return [seconds, megabytes, *map(median, times)]


def _in_a_new_process(folder: Path) -> list[float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.large_stores", "--folder", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{' '.join(command)}: expected it to succeed, found: {done.stderr[-500:]}")
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    typer.run(main)
