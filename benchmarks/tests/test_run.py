"""A whole run on a few answers, with stand-ins for the rankers of others, and its reports."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from conftest import TEXTS, write_encoder
from haystack import Document, Pipeline
from refusals import refused

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.models.registry import MODELS, count_parameters
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import SubwordTokenizer
from ap_ranker.training.compare import Contender
from benchmarks import pipeline, run, systems
from benchmarks.corpus import Corpus
from benchmarks.latency import timed
from benchmarks.peers import CROSS_ENCODER, CROSS_ENCODER_LIMITED
from benchmarks.pipeline import grown, measure_growth
from benchmarks.plot import plot_benchmark
from benchmarks.report import Benchmark, markdown, short
from benchmarks.run import benchmark
from benchmarks.systems import AnswerModelSystem, System, write_checkpoints
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker

ANSWERS = [f"{text} {topic}" for text in TEXTS for topic in ("parcel", "refund", "battery")]
DATA = Dataset(
    "data",
    [Answer(str(row), text) for row, text in enumerate(ANSWERS)],
    [
        Question(str(row), f"where is the {topic}", (row,))
        for row, topic in enumerate(("parcel", "refund", "bike", "x"))
    ],
)
CPU = torch.device("cpu")
CONTENDERS = Contender.parse_all("ap-cnn:filters=6,qa-bilstm:hidden=3,bow-idf")
SIZES = (10, 40)


class Slow(System):
    """Stands in for a cross-encoder."""

    def __init__(self, name: str, repetitions: int) -> None:
        self.name, self.repetitions, self.weights = name, repetitions, 5_000_000

    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        for _ in range(self.repetitions):
            torch.ones(200, 200) @ torch.ones(200, 200)
        return {"documents": documents}


@pytest.fixture(scope="module")
def result() -> Benchmark:
    others = [Slow(CROSS_ENCODER, 60), Slow(CROSS_ENCODER_LIMITED, 30)]
    with (
        patch.object(run, "load_peers", lambda *_: others),
        patch.object(run, "measure_growth", partial(measure_growth, sizes=SIZES)),
    ):
        return benchmark(CONTENDERS, DATA, candidates=[5, 10, 1000], questions=3, peers=True, device="cpu")


def test_everything_is_measured(result: Benchmark) -> None:
    labels = [contender.label for contender in CONTENDERS]
    systems = [*labels, CROSS_ENCODER, CROSS_ENCODER_LIMITED, "BM25"]
    assert [(row.candidates, row.system) for row in result.latency] == [(n, name) for n in (5, 10) for name in systems]
    assert [row.model for row in result.pipeline] == labels
    assert [(row.answers, result.growth_model) for row in result.growth] == [(size, labels[0]) for size in SIZES]
    assert result.questions == 2  # three need six
    everything = [
        *(times for row in result.latency for times in (row.cold, row.warm)),
        *(times for row in result.pipeline for times in (row.pipeline, row.retriever, row.ranker, row.one_component)),
        *(times for row in result.growth for times in (row.retriever, row.ranker)),
    ]
    for times in everything:
        assert 0 < times.p50 <= times.p95


def test_ratios_are_quotients(result: Benchmark) -> None:
    rows = json.loads(result.to_json())["latency"]
    for row in rows:
        assert set(row["times_faster"]) == {CROSS_ENCODER, CROSS_ENCODER_LIMITED}
        for reference, ratio in row["times_faster"].items():
            (other,) = (r for r in rows if (r["system"], r["candidates"]) == (reference, row["candidates"]))
            for state in ("warm", "cold"):
                assert ratio[state] == pytest.approx(other[state]["p50"] / row[state]["p50"])


def test_memory(result: Benchmark, tmp_path: Path) -> None:
    """qa-bilstm with 3 units keeps a vector of 6 numbers per answer; the rest is what an entry costs by itself."""
    kept = {row.system: row.bytes_per_answer for row in result.latency}
    vector = kept["qa-bilstm:hidden=3"]
    assert vector is not None
    assert 6 * 4 <= vector <= 6 * 4 + 1_536
    assert kept[CROSS_ENCODER] is kept["BM25"] is None
    weights = {row.system: row.weights_megabytes for row in result.latency}
    assert weights[CROSS_ENCODER] == 5
    assert weights["BM25"] is None
    (checkpoint,) = write_checkpoints(CONTENDERS[1:2], ANSWERS, tmp_path).values()
    assert weights["qa-bilstm:hidden=3"] == (checkpoint / "model.safetensors").stat().st_size / 1e6


def test_notes(result: Benchmark) -> None:
    notes = "\n".join(result.notes)
    for part in (
        "Data: data, 18 different answers of ",
        "Left out: 1,000 candidates, for there are 18 different answers.",
        "2 of 3 questions timed",
        f"torch {torch.__version__} on cpu",
    ):
        assert part in notes
    assert "of bandwidth" not in notes.lower()
    assert result.copy_bandwidth is None


def test_markdown_and_plot(result: Benchmark, tmp_path: Path) -> None:
    text = markdown(result)
    assert text.count("###") == 3
    for row in result.latency:
        at_default, limited = (row.times_faster[name] for name in (CROSS_ENCODER, CROSS_ENCODER_LIMITED))
        start = f"| {row.system} | {row.candidates} | {short(row.cold.p50)} | {short(row.cold.p95)} | "
        (line,) = (line for line in text.splitlines() if line.startswith(start))
        ratios = (f"{short(ratio.warm)} × / {short(ratio.cold)} ×" for ratio in (at_default, limited))
        assert f"| {' | '.join(ratios)} |" in line
    tables = [part for part in text.split("\n\n") if part.startswith("|")]
    assert all(len({line.count("|") for line in table.splitlines()}) == 1 for table in tables)
    assert all(f"- {note}\n" in text for note in result.notes)
    plot_benchmark(result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.004, "0.00"),
        (0.0456, "0.05"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (1234.5, "1,234"),
        (0, "0.00"),
    ],
)
def test_short_numbers(value: float, text: str) -> None:
    assert short(value) == text


def test_more_candidates_than_answers() -> None:
    with refused("data … 19 … 18"):
        benchmark(CONTENDERS, DATA, candidates=[19, 100], questions=2, peers=False, device="cpu")


def test_forgetting_makes_the_next_run_cold(tmp_path: Path) -> None:
    contender = CONTENDERS[0]
    checkpoints = write_checkpoints([contender], ANSWERS, tmp_path)
    system = AnswerModelSystem(contender, checkpoints[contender.label], CPU)
    documents = [Document(content=text) for text in ANSWERS[:7]]

    def lookups() -> tuple[int, int]:
        info = system.component.cache_info
        return (info.hits, info.misses) if info else (0, 0)

    for question in ("first", "second"):
        system.run(question, documents)
    assert lookups() == (7, 7)
    assert system.cached[0] == 7
    system.forget()
    assert system.cached == (0, 0)
    system.run("third", documents)
    assert lookups() == (0, 7)
    assert system.token_states == (MODELS["ap-cnn"].cached == "token states")


def test_counting_models_are_given_counts(tmp_path: Path) -> None:
    """bow-idf without counts would give every document the same score."""
    (checkpoint,) = write_checkpoints(CONTENDERS[2:], ANSWERS, tmp_path).values()
    ranker = AnswerRanker(model=checkpoint)
    found = ranker.run(query="battery", documents=[Document(content=text) for text in ("the parcel", "the battery")])
    assert found["documents"][0].content == "the battery"
    assert found["documents"][0].score != found["documents"][1].score


def test_pipelines_and_growth_are_warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No ranker encodes a document while it is timed."""
    calls = []

    def watched(call: Any, *args: Any, **kwargs: Any) -> tuple[float, Any]:
        owner = call.__self__
        ranker = owner.get_component("ranker") if isinstance(owner, Pipeline) else getattr(owner, "ranker", owner)
        if not isinstance(ranker, AnswerRanker):
            return timed(call, *args, **kwargs)
        before = ranker.cache_info
        seconds, found = timed(call, *args, **kwargs)
        after = ranker.cache_info
        assert before is not None
        assert after is not None
        calls.append((after.misses - before.misses, after.hits - before.hits))
        return seconds, found

    monkeypatch.setattr(pipeline, "timed", watched)
    corpus = Corpus.of(DATA, 1)
    checkpoints = write_checkpoints(CONTENDERS[:1], ANSWERS, tmp_path)
    store = pipeline.store_of(corpus.documents)
    (row,) = pipeline.measure_pipelines(checkpoints, store, corpus, CPU, lambda _: None)
    assert len(calls) == 3  # the whole, the ranker alone, and both as one component
    assert row.rest.p50 == pytest.approx(row.pipeline.p50 - row.retriever.p50 - row.ranker.p50)
    (checkpoint,) = checkpoints.values()
    rows = measure_growth(checkpoint, corpus, CPU, lambda _: None, sizes=(10, 40))
    assert len(calls) == 5
    assert all(misses == 0 < hits for misses, hits in calls)
    assert 0 < rows[0].candidates < rows[1].candidates <= 40


def test_a_corpus_grows_by_other_texts() -> None:
    documents = grown(["a", "b"], 5)
    assert [document.content for document in documents] == ["a", "b", "1 a", "1 b", "2 a"]
    assert len({document.id for document in documents}) == 5


def test_an_untrained_model_with_an_encoder_has_its_tokenizer(tmp_path: Path) -> None:
    """Random weights of the encoder's architecture; without its files there is nothing to measure."""
    encoder = write_encoder(tmp_path / "encoder", ANSWERS)
    contender = Contender("small", "ap-transformer", {"encoder": str(encoder), "size": 6})
    with patch.object(systems, "MAX_TOKENS", 24):
        (checkpoint,) = write_checkpoints([contender], ANSWERS, tmp_path).values()
    system = AnswerModelSystem(contender, checkpoint, CPU)
    found = system.run("where is it", [Document(content=text) for text in ANSWERS[:7]])
    assert len({document.score for document in found["documents"]}) > 1
    assert system.token_states
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    assert isinstance(ranker.tokenizer, SubwordTokenizer)
    assert count_parameters(ranker.model) == sum(p.numel() for p in ranker.model.parameters())
    other = Contender("other", "ap-transformer", {"encoder": "./none"})
    with refused("./none"):
        write_checkpoints([other], ANSWERS, tmp_path)
