"""The Haystack components where they once failed: cold threads, foreign scores, a foreign YAML, copies."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TEXTS, write_checkpoint
from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import ComponentDevice
from refusals import refused

from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Calibration
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker, APRanker
from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever, LuceneScores
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

CPU = ComponentDevice.from_str("cpu")
QUERY = "where is the tracking link of my parcel"
DOCUMENTS = [Document(content=text) for text in TEXTS]
FITS = {"model": Calibration(2.0, 3.0, -0.5, {"0.9": 0.4}), "fused": Calibration(9.0, 0.5, 4.0, {"0.9": 0.99})}


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint for which BM25's score counts a half, with a calibration of each score."""
    return write_checkpoint(
        "ap-cnn", tmp_path_factory.mktemp("fused") / "checkpoint", bm25_weight=0.5, calibration=FITS
    )


@pytest.fixture
def store() -> BM25SDocumentStore:
    store = BM25SDocumentStore()
    store.write_documents(DOCUMENTS)
    return store


# --- cold threads -----------------------------------------------------------------------------------------------------


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was loaded, load by load."""
    loaded: list[str] = []
    original = Ranker.from_pretrained.__func__

    def counted(cls: type[Ranker], source: str, *args: object, **kwargs: object) -> Ranker:
        loaded.append(source)
        time.sleep(0.05)  # as long as a small checkpoint takes from a cold disk
        return original(cls, source, *args, **kwargs)

    monkeypatch.setattr(Ranker, "from_pretrained", classmethod(counted))
    return loaded


def test_32_cold_threads_load_one_ranker_once(fused: Path, loads: list[str]) -> None:
    ranker = AnswerRanker(model=fused, device=CPU)
    barrier = threading.Barrier(32)

    def ask(_: int) -> list[Document]:
        barrier.wait()
        return ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]

    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(ask, range(32)))
    assert len(loads) == 1
    assert all(result == results[0] for result in results)
    assert ranker.cache_info is not None
    assert ranker.cache_info.entries == len(DOCUMENTS)


async def test_20_cold_asynchronous_runs_load_one_ranker_once(fused: Path, loads: list[str]) -> None:
    ranker = AnswerRanker(model=fused, device=CPU)
    results = await asyncio.gather(*(ranker.run_async(query=QUERY, documents=DOCUMENTS) for _ in range(20)))
    assert len(loads) == 1
    assert all(result == results[0] for result in results)


async def test_warming_up_leaves_the_event_loop_free(fused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = threading.Event()
    original = AnswerRanker._load

    def waits(self: AnswerRanker) -> Ranker:
        assert beside.wait(120)  # set by the event loop, which must therefore not be the one that loads
        return original(self)

    monkeypatch.setattr(AnswerRanker, "_load", waits)
    pipeline = Pipeline()
    pipeline.add_component("ranker", AnswerRanker(model=fused, device=CPU))
    warming = asyncio.create_task(pipeline.warm_up_async())
    await asyncio.sleep(0)
    beside.set()
    await warming
    assert pipeline.get_component("ranker").loaded.ranker is not None


def test_warming_up_a_retriever_builds_the_index(store: BM25SDocumentStore) -> None:
    retriever = BM25SRetriever(store)
    assert not store._shared.computed
    retriever.warm_up()
    assert store._words in store._shared.computed
    built = store.computed(store._words)
    retriever.warm_up()
    retriever.run(query=QUERY)
    assert store.computed(store._words) is built


# --- whose score is it? -----------------------------------------------------------------------------------------------


def test_fusion_reads_what_the_retriever_left_in_the_meta(fused: Path, store: BM25SDocumentStore) -> None:
    found = BM25SRetriever(store, scale_score=True).run(query=QUERY)["documents"]
    raw = BM25SRetriever(store).run(query=QUERY)["documents"]
    assert [one.meta["ap_ranker"]["bm25_score"] for one in found] == [one.score for one in raw]
    assert [one.meta["ap_ranker"]["bm25_rank"] for one in found] == list(range(1, len(found) + 1))
    alone = AnswerRanker(model=fused, device=CPU, scale_score=False).run(query=QUERY, documents=found)["documents"]
    both = AnswerRanker(model=fused, device=CPU, scale_score=False, fuse_scores=True)
    expected = {one.id: one.score + 0.5 * one.meta["ap_ranker"]["bm25_score"] for one in alone}
    for documents in (found, [replace(one, score=99.0 * i) for i, one in enumerate(found)]):  # whatever their score is
        ranked = both.run(query=QUERY, documents=documents)["documents"]
        assert {one.id: one.score for one in ranked} == pytest.approx(expected, abs=1e-6)


def test_what_is_retrieved_does_not_change_the_store(store: BM25SDocumentStore) -> None:
    BM25SRetriever(store).run(query=QUERY)
    assert all(not document.meta for document in store.filter_documents())


@pytest.mark.parametrize("precision", [None, 0.9])
def test_another_retrievers_scores_are_not_taken_for_those_of_bm25(
    fused: Path, precision: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    memory = InMemoryDocumentStore()
    memory.write_documents(DOCUMENTS)
    documents = InMemoryBM25Retriever(memory).run(query=QUERY)["documents"]  # BM25 of another kind and scale
    plain = AnswerRanker(model=fused, device=CPU, precision=precision)
    both = AnswerRanker(model=fused, device=CPU, precision=precision, fuse_scores=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            expected = plain.run(query=QUERY, documents=documents)
            assert both.run(query=QUERY, documents=documents) == expected  # the unfused scores and calibration
    (warning,) = [record.getMessage() for record in caplog.records if "fuse_scores" in record.getMessage()]
    assert "meta['ap_ranker']['bm25_score']" in warning


@pytest.mark.parametrize("join_mode", ["reciprocal_rank_fusion", "merge"])
def test_a_joiners_score_is_not_taken_for_that_of_bm25(
    fused: Path, store: BM25SDocumentStore, join_mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = BM25SRetriever(store).run(query=QUERY)["documents"]
    dense = [replace(one, score=0.9, meta={}) for one in found]  # the same documents, from an embedding retriever
    joiner = DocumentJoiner(join_mode=join_mode)  # of two copies it keeps the last, with a score of its own

    def ranked(documents: list[Document], fuse_scores: bool) -> list[tuple[str, float | None]]:
        ranker = AnswerRanker(model=fused, device=CPU, fuse_scores=fuse_scores)
        return [(one.id, one.score) for one in ranker.run(query=QUERY, documents=documents)["documents"]]

    assert ranked(joiner.run(documents=[dense, found])["documents"], True) == ranked(found, True)
    assert not caplog.records
    assert ranked(joiner.run(documents=[found, dense])["documents"], True) == ranked(found, False)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("score", [float("nan"), float("inf"), "high", [1.0]])
def test_a_score_that_is_no_number_is_refused(fused: Path, score: object) -> None:
    documents = [replace(one, meta={"ap_ranker": {"bm25_score": score}}) for one in DOCUMENTS]
    with refused("bm25_score"):
        AnswerRanker(model=fused, device=CPU, fuse_scores=True).run(query=QUERY, documents=documents)


def test_elasticsearchs_scores_arrive_on_lucenes_scale() -> None:
    documents = [Document(content="a", score=2.2), Document(content="b"), Document(content="c", score=1.1)]
    found = LuceneScores().run(documents=documents)["documents"]
    assert [one.meta.get("ap_ranker", {}).get("bm25_score") for one in found] == [
        pytest.approx(1.0),
        None,
        pytest.approx(0.5),
    ]
    assert [one.meta.get("ap_ranker", {}).get("bm25_rank") for one in found] == [1, None, 3]


# --- a drop-in --------------------------------------------------------------------------------------------------------


def dumped(**parameters: object) -> str:
    """The YAML of a pipeline with Haystack's cross-encoder, its type and model replaced by ours."""
    similarity = pytest.importorskip("haystack_integrations.components.rankers.sentence_transformers")
    pipeline = Pipeline()
    theirs = similarity.SentenceTransformersSimilarityRanker(device=CPU, top_k=3, **parameters)
    pipeline.add_component("ranker", theirs)
    data = pipeline.to_dict()
    data["components"]["ranker"]["type"] = f"{APRanker.__module__}.APRanker"
    data["components"]["ranker"]["init_parameters"]["model"] = "checkpoints/faq"
    return json.dumps(data)


def test_a_pipeline_of_the_component_that_it_replaces_loads() -> None:
    ranker = Pipeline.loads(dumped()).get_component("ranker")
    assert isinstance(ranker, APRanker)
    assert (ranker.top_k, ranker.batch_size) == (3, 16)


def test_what_only_a_cross_encoder_has_is_named() -> None:
    with refused("backend", by=Exception):
        Pipeline.loads(dumped(backend="onnx"))


@pytest.mark.parametrize(
    "wrong", [{"cache": {"megabytes": "9"}}, {"cache": {"megabytes": -1}}, {"cache": {"size": 1}}, {"batch_size": 0}]
)
def test_numbers_that_are_none_are_refused_when_the_component_is_made(wrong: dict[str, object]) -> None:
    with refused(f"{next(iter(wrong))}", by=ValueError):
        AnswerRanker(model="m", **wrong)  # type: ignore[arg-type]


# --- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_warm_components_can_be_copied(fused: Path, tmp_path: Path, copied: object) -> None:
    assert callable(copied)
    ranker = AnswerRanker(model=fused, device=CPU, top_k=2)
    expected = ranker.run(query=QUERY, documents=DOCUMENTS)
    assert copied(ranker).run(query=QUERY, documents=DOCUMENTS) == expected
    assert copied(copied(ranker)).to_dict() == ranker.to_dict()
    for path in (None, tmp_path / "store"):
        store = BM25SDocumentStore(path, k1=1.0)
        store.write_documents(DOCUMENTS)
        retriever = BM25SRetriever(store, top_k=3)
        found = retriever.run(query=QUERY)
        twin = copied(retriever)
        assert twin.run(query=QUERY) == found
        twin.document_store.delete_all_documents()
        assert store.count_documents() == (len(DOCUMENTS) if path is None else 0)
