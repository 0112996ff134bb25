"""What do smaller vectors in Elasticsearch's memory cost: how many of the nearest answers are found, and how fast?

PYTHONPATH=tests:. python -m benchmarks.elasticsearch_vectors ANSWERS --questions QUESTIONS

It starts one node and writes the vectors of all answers, by an untrained checkpoint, into an index of each kind, with
the same settings otherwise as `ap-ranker index`. Both are asked the same questions in turn. The truth is the exact
search over all vectors.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any

import numpy as np
import typer
from elastic.engine import start_engine
from elasticsearch import Elasticsearch
from elasticsearch.helpers import bulk

from ap_ranker.documents import read_entries
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.search.elasticsearch.index_layout import SETTINGS
from ap_ranker.training.untrained import write_untrained
from benchmarks.elasticsearch_servers import read_questions

BEST = 100
KINDS = ("int8_hnsw", "bbq_hnsw")
ROUNDS = 2  # the last one counts
OVERSAMPLES = (1.5, 3.0, 5.0)
"""How many times as many neighbours are compared by their exact vectors."""


def main(
    answers: Annotated[Path, typer.Argument(help="A table of answers.")],
    questions: Annotated[Path, typer.Option(help="A table with a column `question`.")],
    number: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 200,
) -> None:
    """Print a table."""
    asked = read_questions(questions, number)
    texts = [entry.answer for entry in read_entries(answers)]
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="ap-ranker-vectors-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        write_untrained(folder / "checkpoint", texts, "english", stored=True)
        ranker = Ranker.from_pretrained(folder / "checkpoint")
        vectors = np.asarray(ranker.embed_answers(texts, 64))
        queries = np.asarray(ranker.embed_questions(asked))
        exact = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :BEST]
        engine = start_engine(folder / "nodes", 1, "--heap", "1g")
        try:
            client = Elasticsearch(engine.urls, request_timeout=120)
            for kind in KINDS:
                _write(client, kind, vectors)
            for kind in KINDS:
                size = _bytes_of_vectors(client, kind)
                for oversample in OVERSAMPLES:
                    recall, milliseconds = _asked(client, kind, queries, exact, oversample)
                    rows.append([kind, f"{oversample:g}", f"{recall:.4f}", f"{milliseconds:.1f}", f"{size:,.0f}"])
                    typer.echo(rows[-1])
        finally:
            engine.stop()
    names = ["index", "oversample", f"of the {BEST} nearest", "ms", "bytes on disk for a vector"]
    typer.echo(markdown_table(names, rows))


def _write(client: Elasticsearch, kind: str, vectors: np.ndarray) -> None:
    declared: dict[str, Any] = json.loads(SETTINGS.read_text(encoding="utf-8"))
    embedding = declared["mappings"]["properties"]["embedding"]
    embedding["index_options"]["type"] = kind
    embedding["dims"] = vectors.shape[1]
    mappings = {"_source": {"excludes": ["embedding"]}, "properties": {"embedding": embedding}}
    client.indices.create(index=kind, mappings=mappings, settings={"number_of_replicas": 0})

    def actions() -> Iterator[dict[str, Any]]:
        for row, vector in enumerate(vectors):
            yield {"_index": kind, "_id": str(row), "_source": {"embedding": vector.tolist()}}

    bulk(client, actions(), chunk_size=200)
    client.options(request_timeout=600).indices.forcemerge(index=kind, max_num_segments=1)


def _bytes_of_vectors(client: Elasticsearch, kind: str) -> float:
    """On disk, for one vector, with its graph."""
    usage = client.indices.disk_usage(index=kind, run_expensive_tasks=True)
    count = client.count(index=kind)["count"]
    total: int = usage[kind]["fields"]["embedding"]["knn_vectors_in_bytes"]
    return total / count


def _asked(
    client: Elasticsearch, kind: str, queries: np.ndarray, exact: np.ndarray, oversample: float
) -> tuple[float, float]:
    """The share of the nearest that is found, and the median of the milliseconds of a search."""
    shares: list[float] = []
    seconds: list[float] = []
    for _ in range(ROUNDS):
        shares.clear()
        seconds.clear()
        for vector, nearest in zip(queries, exact, strict=True):
            knn = {
                "field": "embedding",
                "query_vector": vector.tolist(),
                "k": BEST,
                "num_candidates": 2 * BEST,
                "rescore_vector": {"oversample": oversample},
            }
            started = time.perf_counter()
            answer = client.search(index=kind, knn=knn, size=BEST, source=False)
            seconds.append(time.perf_counter() - started)
            neighbours = {int(hit["_id"]) for hit in answer["hits"]["hits"]}
            shares.append(len(neighbours.intersection(nearest.tolist())) / BEST)
    return fmean(shares), 1000 * median(seconds)


if __name__ == "__main__":
    typer.run(main)
