"""Which encoder, and how long to train it: quality on several FAQs beside time, memory and size, in one table.

AP_ENCODERS=ENCODERS python examples/encoders/run.py example covid_questions cosibot_de \
  --data DATA --output checkpoints/encoders
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from encoder_tables import COSINE, HERE, write_tables
from rich.console import Console

sys.path.append(str(HERE.parent / "fair_peers"))

from fair_data import FairData, read_fair_data
from fair_systems import (
    OURS,
    UNTRAINED,
    WITH_BM25,
    WORDINGS,
    Ours,
    Settings,
    Trained,
    mean_measures,
    measure_rows,
    train_system,
)

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.errors import check_known
from ap_ranker.files import write_text_atomically
from ap_ranker.ranking.cache import CACHE_BYTES, EncodingCache
from ap_ranker.ranking.ranker import Ranker

ENCODERS = (
    "sentence-transformers/all-MiniLM-L6-v2",
    "sentence-transformers/all-mpnet-base-v2",
    "intfloat/multilingual-e5-small",
)

EFFORTS: dict[str, Settings] = {
    COSINE: {},
    "untrained": {"epochs": 0},
    "quick": {"effort": "quick"},
    "normal": {},
    "best": {"effort": "best"},
}
"""What is done with an encoder -> the settings of the training. A large one learns its upper half with `normal`."""

SEED = 1
ASKED, WARM, CANDIDATES = 60, 10, 100
"""Questions that are timed, those of them that do not count, and the most answers that each is matched with."""

console = Console(soft_wrap=True)


def command(
    names: Annotated[list[str], typer.Argument(metavar="DATASET...", help="As in examples/fair_peers.")],
    output: Annotated[Path, typer.Option(help="A folder for finished cells; the same command goes on there.")],
    data: Annotated[Path | None, typer.Option(help="A folder with a folder for each data set.")] = None,
    encoder: Annotated[list[str] | None, typer.Option(help="Measure these instead of three.")] = None,
    effort: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(EFFORTS)}; by default all.")] = None,
    results: Annotated[Path, typer.Option(help="The folder of results.json and README.md.")] = HERE,
) -> None:
    """Measure each encoder with each effort on each data set, on a CPU with one thread, and draw the tables."""
    efforts = effort or list(EFFORTS)
    for wanted in efforts:
        check_known("an effort", wanted, EFFORTS)
    output.mkdir(parents=True, exist_ok=True)
    for encoder_name in encoder or ENCODERS:
        for wanted in efforts:
            for name in names:
                cell = f"{Path(encoder_name).name}-{wanted}-{name}".replace(" ", "-")
                path = output / f"{cell}.json"
                if path.is_file():
                    continue
                console.print(cell, highlight=False)
                run = output / f"{cell}.run"
                shutil.rmtree(run, ignore_errors=True)
                # A process of its own: its memory at most is then that of this cell.
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                    result = pool.submit(measure, encoder_name, wanted, name, data, output / "tables", run).result()
                write_text_atomically(path, json.dumps(result) + "\n")
                shutil.rmtree(run, ignore_errors=True)  # many checkpoints would fill a disk
    cells = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(output.glob("*.json"))]
    write_text_atomically(results / "results.json", json.dumps(cells, indent=1) + "\n")
    write_tables(results)


def measure(encoder: str, effort: str, name: str, data: Path | None, tables: Path, folder: Path) -> dict[str, Any]:
    """Train an encoder on a data set, and measure it as it is served: with known wordings and BM25's score."""
    torch.set_num_threads(1)
    fair_data = read_fair_data(name, data, tables, encoder)
    system = UNTRAINED if effort == COSINE else OURS
    started = time.process_time()
    trained = train_system(system, EFFORTS[effort], fair_data, folder, SEED, torch.device("cpu"))
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    test = fair_data.test_set
    rows = mean_measures(measure_rows(trained, fair_data.dev_set(SEED), test))
    result: dict[str, Any] = {
        "encoder": Path(encoder).name,
        "effort": effort,
        "data": name,
        "title": fair_data.title,
        "questions": len(test.questions),
        "training_questions": len(fair_data.training.questions),
        "bm25": test.bm25,
        "measures": rows[WORDINGS + WITH_BM25],
        "training_seconds": round(seconds, 1),
        "peak_bytes": peak,
        "bytes_per_answer": round(trained.score(test, wordings=False).bytes_per_answer),
    }
    if isinstance(trained, Ours):
        result["question_ms"] = round(milliseconds(trained, fair_data, folder), 2)
        result["weights"] = sum(weight.numel() for weight in trained.ranker.model.parameters())
    return result


def milliseconds(trained: Trained, data: FairData, folder: Path) -> float:
    """Processor time of a question with cached answers, of one thread: to encode and to match it. The median."""
    ranker = Ranker.from_pretrained(folder, "cpu", cache=EncodingCache(CACHE_BYTES))
    answers = list(data.test.answer_texts)[:CANDIDATES]
    times: list[float] = []
    for text in data.test.question_texts[:ASKED]:
        started = time.thread_time()
        ranker.rank(text, answers)
        times.append(1_000 * (time.thread_time() - started))
    counted = sorted(times[WARM:])
    return counted[len(counted) // 2]


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
