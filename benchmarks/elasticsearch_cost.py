"""What does a question cost in Elasticsearch, by Haystack's own components and by ours, beside the store in memory?

PYTHONPATH=tests:. python -m benchmarks.elasticsearch_cost --documents ../shared/data/insuranceqa/answers.tsv.gz

It starts three nodes; indexes have three shards and one replica. All systems have the same documents, the same vectors
and the same ranker, and answer in turn. The index of Haystack's components is as they make it, with the vectors in the
documents: so it was before ap-ranker had a retriever of its own. The documents' vectors are random ones: only costs are
measured here, and to encode 100,000 answers takes 20 minutes. Every question has been asked before, so that what it
finds is encoded. Requests and bytes are counted by a proxy, in a pass of its own.

The documents of ours carry states, of the size that those of real answers have, but of other ones. `nothing cached` is
the search whose memory of documents and states is emptied before each question, `encoded here` the same without states,
as it was before documents carried any.
"""

from __future__ import annotations

import csv
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import torch
import typer
import yaml
from elastic.adapter import Adapter
from elastic.conftest import change
from elastic.engine import Engine, start_engine
from haystack import Document

from ap_ranker.data.faq import Match
from ap_ranker.documents import read_entries
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.quantization import QuantizedStates
from ap_ranker.ranking.state_store import StateStore
from ap_ranker.ranking.text_encoder import BATCH_SIZE
from ap_ranker.ranking.wordings import EMBEDDED_BY
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.elasticsearch.build_index import build_index
from ap_ranker.search.elasticsearch.index_layout import SETTINGS
from ap_ranker.search.elasticsearch.index_target import elasticsearch_of, find_target
from ap_ranker.training.untrained import write_untrained
from haystack_integrations.common.ap_ranker.entries import to_document
from haystack_integrations.common.ap_ranker.query_data import with_states
from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever
from haystack_integrations.components.retrievers.ap_ranker.kept_documents import KeptDocuments

ROOT = Path(__file__).parents[1]
FAQ = ROOT / "examples" / "faq" / "answers.csv"
QUESTIONS = ROOT / "examples" / "faq" / "test.csv"
CLIENTS = 8
WRITTEN_AT_ONCE = 500
ENCODED_ANSWERS = 100
"""Number of answers that are encoded for the states of all."""

WARM = 8
"""How often all questions are asked before those that count: Elasticsearch compiles what it runs often."""

EARLIER = "Haystack's components"
OURS = "ours, cached"
EMPTIED = "ours, nothing cached"
ENCODED = "ours, nothing cached, encoded here"
MEMORY = "in memory"

SYSTEMS = {
    EARLIER: "faq_search_hybrid_elasticsearch.yaml",
    OURS: "faq_elasticsearch.yaml",
    MEMORY: "faq_search_hybrid.yaml",
}
MEASURES = ("requests", "KB", "ms", "client ms", "engine ms", "questions/s")


def main(
    documents: Annotated[Path | None, typer.Option(help="A table of answers for larger sizes.")] = None,
    sizes: Annotated[str, typer.Option(help="Numbers of answers.")] = "168,27413",
    number: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 20,
    output: Annotated[Path | None, typer.Option(help="A JSON file to write the rows into.")] = None,
) -> None:
    """Print a table: a row for each number of answers and each system."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with QUESTIONS.open(encoding="utf-8", newline="") as file:
        questions = [row["question"] for row in csv.DictReader(file)][:number]
    rows = []
    measured: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="ap-ranker-cost-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        entries = read_entries(FAQ)
        checkpoint = place / "checkpoint"
        texts = [entry.text(Match.both) for entry in entries]
        write_untrained(checkpoint, texts, "english", stored=True, wordings=[entry.questions for entry in entries])
        engine = start_engine(place / "nodes", 3)
        try:
            for size in map(int, sizes.split(",")):
                source = FAQ if size <= len(entries) or documents is None else documents
                made = [to_document(entry, Match.both) for entry in read_entries(source)]
                copies = [_numbered(made[row % len(made)], row // len(made)) for row in range(size)]
                for name, measures in _measured(engine, place / str(size), checkpoint, copies, questions).items():
                    rows.append([f"{size:,}", name, *(_shown(measures.get(each)) for each in MEASURES)])
                    measured.append({"answers": size, "system": name, **measures})
                if output is not None:
                    output.write_text(json.dumps(measured, indent=1))
                typer.echo(markdown_table(["answers", "system", *MEASURES], rows))
        finally:
            engine.stop()


def _shown(measure: float | None) -> str:
    return "–" if measure is None else f"{measure:.1f}"


def _numbered(document: Document, copy: int) -> Document:
    """One more document, if a size is larger than the table."""
    return document if not copy else Document(content=f"{document.content} ({copy})", meta=document.meta)


def _measured(
    engine: Engine, folder: Path, checkpoint: Path, documents: list[Document], questions: Sequence[str]
) -> dict[str, dict[str, float]]:
    """What each system costs for documents with vectors that are made here."""
    folder.mkdir()
    proxy = Adapter(engine.url)
    random = np.random.default_rng(0)
    vectors = random.standard_normal((len(documents), 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = {document.id: row for row, document in enumerate(documents)}

    def embed(some: list[Document]) -> list[Document]:
        return [
            Document(id=one.id, content=one.content, meta=one.meta | origin, embedding=vectors[rows[one.id]].tolist())
            for one in some
        ]

    pipelines = {
        name: _pipeline(folder, file, checkpoint, engine.urls, len(documents)) for name, file in SYSTEMS.items()
    }
    ours, memory = pipelines[OURS], pipelines[MEMORY]
    [store] = ours._stores()
    retriever = ours._elasticsearch_retriever(store)
    assert retriever is not None
    target = find_target(store, None, [retriever])
    assert target is not None
    origin = {EMBEDDED_BY: target.origin}
    carry = _carrier(retriever, documents)

    def embed_with_states(some: list[Document]) -> list[Document]:
        return carry(embed(some))

    target = replace(target, embed=embed_with_states)
    if len(documents) > 1_000:  # a vector for each known wording would be encoded
        target = replace(target, embed_wordings=None)
    build_index(target, documents)
    _write_as_earlier(pipelines[EARLIER], embed(documents))
    [in_memory] = memory._stores()
    in_memory.documents = None
    in_memory.write_documents(embed(documents))
    found: dict[str, dict[str, float]] = {}
    for name, pipeline in pipelines.items():
        pipeline.prepare()
        for question in [*questions] * WARM:
            pipeline.answer(question)
        found[name] = _times(engine, pipeline, questions)
    for name in (EARLIER, OURS):
        through = _pipeline(folder, SYSTEMS[name], checkpoint, [proxy.url], len(documents))
        through.prepare()
        found[name] |= traffic(proxy, through, questions, before=nothing)
    empty = emptier(ours)
    empty_through = emptier(through)
    found[EMPTIED] = alone(engine, ours, questions, before=empty)
    found[EMPTIED] |= traffic(proxy, through, questions, before=empty_through)
    with states_ignored():
        found[ENCODED] = alone(engine, ours, questions, before=empty)
        found[ENCODED] |= traffic(proxy, through, questions, before=empty_through)
    found[MEMORY] |= {"requests": 0.0, "KB": 0.0}
    proxy.close()
    return found


def _carrier(
    retriever: ElasticsearchFAQRetriever, documents: Sequence[Document]
) -> Callable[[list[Document]], list[Document]]:
    """Gives documents the states of some that are encoded, sealed as their own."""
    ranker = retriever.loaded()
    with torch.inference_mode():
        batches = ranker._reader._kept_states(retriever.texts.texts(documents[:ENCODED_ANSWERS]), BATCH_SIZE)
        states = QuantizedStates.joined([batch for _, batch in batches])

    def carry(some: list[Document]) -> list[Document]:
        texts = retriever.texts.texts(some)
        rows = [row % len(states.lengths) for row in range(len(some))]
        return with_states(some, ranker._sealer.seal(texts, states[rows], ranker._reader.stored_dtype))

    return carry


@contextmanager
def states_ignored() -> Iterator[None]:
    """Lets rankers encode all answers, as if no document carried states."""
    with (
        patch.object(StateStore, "is_read", new=False),
        patch.object(StateStore, "lacking", autospec=True, return_value=[]),
    ):
        yield


def nothing() -> None:
    """What is done before a question whose answers may be known."""


def emptier(pipeline: DeclaredPipeline) -> Callable[[], None]:
    """Empties what our search keeps in memory of documents and of states."""
    retriever = pipeline.index_retriever()
    ranker = pipeline.ranker()
    assert retriever is not None
    assert ranker is not None
    cache = ranker.loaded().cache
    assert cache is not None

    def empty() -> None:
        retriever._kept = KeptDocuments()
        cache.clear()

    return empty


def traffic(
    proxy: Adapter, pipeline: DeclaredPipeline, questions: Sequence[str], *, before: Callable[[], None]
) -> dict[str, float]:
    """Requests and kilobytes of a question that has been asked once."""
    for question in questions:
        pipeline.answer(question)
    proxy.requests.clear()
    proxy.traffic = 0
    for question in questions:
        before()
        pipeline.answer(question)
    return {"requests": len(proxy.requests) / len(questions), "KB": proxy.traffic / len(questions) / 1000}


def _pipeline(folder: Path, name: str, checkpoint: Path, hosts: list[str], size: int) -> DeclaredPipeline:
    settings: dict[str, Any] = json.loads(SETTINGS.read_text(encoding="utf-8"))
    del settings["settings"]["auto_expand_replicas"]
    settings["settings"] |= {"number_of_shards": 3, "number_of_replicas": 1}
    file = folder / "settings.json"
    file.write_text(json.dumps(settings))
    declared = yaml.safe_load((ROOT / "pipelines" / name).read_text(encoding="utf-8"))
    is_ours = name == SYSTEMS[OURS]
    more = {"index": f"cost-{size}", "settings": str(file)} if is_ours else {"index": f"earlier-{size}"}
    change(declared, checkpoint, {"hosts": hosts, "request_timeout": 60, **more})
    path = folder / name
    path.write_text(yaml.safe_dump(declared))
    return DeclaredPipeline.load(path)


def _write_as_earlier(pipeline: DeclaredPipeline, documents: list[Document]) -> None:
    """Let Haystack's own store write documents into an index of its own mapping."""
    store: Any = pipeline._stores()[0]
    ours = elasticsearch_of(store)
    mapping = store.to_dict()["init_parameters"]["custom_mapping"]
    shards = {"number_of_shards": 3, "number_of_replicas": 1}
    ours.client.indices.create(index=ours.index, settings=shards, mappings=mapping)
    for start in range(0, len(documents), WRITTEN_AT_ONCE):
        store.write_documents(documents[start : start + WRITTEN_AT_ONCE])
    ours.client.indices.refresh(index=ours.index)


def _times(engine: Engine, pipeline: DeclaredPipeline, questions: Sequence[str]) -> dict[str, float]:
    """As `alone`, and questions a second of 8 clients."""
    one_by_one = alone(engine, pipeline, questions, before=nothing)
    start = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(pipeline.answer, [*questions, *questions]))
    return one_by_one | {"questions/s": 2 * len(questions) / (time.perf_counter() - start)}


def alone(
    engine: Engine, pipeline: DeclaredPipeline, questions: Sequence[str], *, before: Callable[[], None]
) -> dict[str, float]:
    """Milliseconds of a question alone, and processor time of both sides."""
    seconds: list[float] = []
    client, served = time.process_time(), processor_seconds(engine)
    for question in questions:
        before()
        with _clock(seconds):
            pipeline.answer(question)
    client, served = time.process_time() - client, processor_seconds(engine) - served
    each = 1000 / len(questions)
    return {"ms": 1000 * median(seconds), "client ms": client * each, "engine ms": served * each}


@contextmanager
def _clock(seconds: list[float]) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - start)


def processor_seconds(engine: Engine) -> float:
    """Of all nodes."""
    ticks = 0
    for file in engine.folder.glob("node-*/pid"):
        fields = Path(f"/proc/{file.read_text().strip()}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    typer.run(main)
