"""What a pipeline of Haystack relies on: shared stores, YAML that behaves as the code does, checked parameters, one
query's data that no other query meets."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from conftest import TEXTS, write_checkpoint
from haystack import Document, Pipeline, SuperComponent
from haystack.components.joiners import DocumentJoiner
from haystack.components.writers import DocumentWriter
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.errors import FilterError
from haystack.utils import ComponentDevice
from refusals import refused

from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder, APTextEmbedder
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import (
    AnswerSearch,
    BM25Scores,
    BM25SEmbeddingRetriever,
    BM25SRetriever,
    FAQSearch,
    HybridRetriever,
    LuceneScores,
)
from haystack_integrations.components.routers.ap_ranker import AnswerRouter
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

CPU = ComponentDevice.from_str("cpu")
QUERY, OTHER = "Where is my parcel?", "Which battery fits my bike?"
DOCUMENTS = [Document(id=str(i), content=text) for i, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model with vectors of whole texts; BM25's score counts a half."""
    return write_checkpoint("ap-transformer", tmp_path_factory.mktemp("citizen") / "checkpoint", bm25_weight=0.5)


@pytest.fixture
def store() -> BM25SDocumentStore:
    store = BM25SDocumentStore()
    store.write_documents(DOCUMENTS)
    return store


def loaded(pipeline: Pipeline) -> Pipeline:
    return Pipeline.loads(pipeline.dumps())


def pipeline_of(**parts: Any) -> Pipeline:
    pipeline = Pipeline()
    for name, part in parts.items():
        pipeline.add_component(name, part)
    return pipeline


def ids(found: dict[str, Any]) -> list[str]:
    return [document.id for document in found["documents"]]


# --- 1: a store in memory that several components share --------------------------------------------------------------


def test_a_loaded_pipeline_has_the_documents_that_it_shares(store: BM25SDocumentStore, checkpoint: Path) -> None:
    def shared(name: str) -> list[str]:
        kept = pipeline.get_component(name).run(query=QUERY)
        return ids(again.get_component(name).run(query=QUERY)) if ids(kept) else []

    pipeline = pipeline_of(
        writer=DocumentWriter(store),
        words=BM25SRetriever(store),
        both=HybridRetriever(store, model=checkpoint, device=CPU),
        search=AnswerSearch(BM25SRetriever(store), AnswerRanker(model=checkpoint, device=CPU)),
        faq=FAQSearch(model=checkpoint, document_store=store, device=CPU),
    )
    again = loaded(loaded(pipeline))
    for name in ("words", "both", "search", "faq"):
        assert shared(name), name
    again.get_component("writer").run(documents=[Document(id="new", content="zebra")])
    assert ids(again.get_component("words").run(query="zebra")) == ["new"]
    assert ids(pipeline.get_component("words").run(query="zebra")) == ["new"]


def test_a_joiner_and_a_super_component_of_a_shared_store(store: BM25SDocumentStore, checkpoint: Path) -> None:
    embedder = APDocumentEmbedder(model=checkpoint, device=CPU)
    store.write_documents(embedder.run(DOCUMENTS)["documents"], DuplicatePolicy.OVERWRITE)
    pipeline = pipeline_of(
        embedder=APTextEmbedder(model=checkpoint, device=CPU),
        words=BM25SRetriever(store),
        meaning=BM25SEmbeddingRetriever(store),
        joiner=DocumentJoiner(),
    )
    pipeline.connect("embedder.embedding", "meaning.query_embedding")
    pipeline.connect("words.documents", "joiner.documents")
    pipeline.connect("meaning.documents", "joiner.documents")
    wrapped = SuperComponent(
        pipeline,
        input_mapping={"query": ["words.query", "embedder.text"]},
        output_mapping={"joiner.documents": "documents"},
    )
    expected = ids(wrapped.run(query=QUERY))
    assert len(expected) == len(TEXTS)
    assert ids(loaded(pipeline_of(search=wrapped)).get_component("search").run(query=QUERY)) == expected


def test_stores_of_one_name_share_and_others_do_not(store: BM25SDocumentStore) -> None:
    one, two = BM25SDocumentStore(index="shared by this test"), BM25SDocumentStore(index="shared by this test")
    one.write_documents(DOCUMENTS)
    assert two.count_documents() == len(TEXTS)
    assert two.to_dict()["init_parameters"]["index"] == "shared by this test"
    stemmed = BM25SDocumentStore(index="shared by this test", language="english")
    assert [len(each.bm25_retrieval("parcels")) for each in (one, stemmed)] == [0, 2]  # each with its own index
    two.exchange_documents([Document(content="zebra")], [document.id for document in DOCUMENTS])
    assert [document.content for document in one.filter_documents()] == ["zebra"]
    assert BM25SDocumentStore().count_documents() == 0
    assert store.count_documents() == len(TEXTS)
    with refused("index … folder"):
        BM25SDocumentStore("folder", index="a")


def test_stores_of_one_name_and_two_files(tmp_path: Path) -> None:
    """As in a dumped pipeline in which somebody has changed the file, while the first one is there."""
    for name, text in (("a.csv", "parcel"), ("b.csv", "battery")):
        (tmp_path / name).write_text(f"question,answer\nWhat?,The {text}.\n")
    first = BM25SDocumentStore(documents=tmp_path / "a.csv")
    assert first.count_documents() == BM25SDocumentStore.from_dict(first.to_dict()).count_documents() == 1
    second = BM25SDocumentStore(documents=tmp_path / "b.csv", index=first.index)
    with refused(f"{first.index} … {tmp_path / 'b.csv'} … {tmp_path / 'a.csv'}"):
        second.count_documents()


def test_documents_live_as_long_as_their_stores() -> None:
    BM25SDocumentStore(index="gone").write_documents(DOCUMENTS)
    gc.collect()
    assert BM25SDocumentStore(index="gone").count_documents() == 0


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_share_with_each_other_alone(
    store: BM25SDocumentStore, copied: Callable[[list[BM25SDocumentStore]], list[BM25SDocumentStore]]
) -> None:
    one, two = copied([store, BM25SDocumentStore.from_dict(store.to_dict())])
    one.write_documents([Document(content="zebra")])
    assert (two.count_documents(), store.count_documents()) == (len(TEXTS) + 1, len(TEXTS))
    assert BM25SDocumentStore.from_dict(one.to_dict()).count_documents() == len(TEXTS) + 1


# --- 2: a loaded pipeline behaves as the built one --------------------------------------------------------------------


def test_an_empty_store_finds_nothing_and_says_so_once(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = BM25SDocumentStore()
    parts: dict[str, Any] = {
        "words": BM25SRetriever(store),
        "both": HybridRetriever(store, model=checkpoint, device=CPU),
        "search": AnswerSearch(BM25SRetriever(store), AnswerRanker(model=checkpoint, device=CPU)),
        "faq": FAQSearch(model=checkpoint, document_store=store, device=CPU),
    }
    again = loaded(pipeline_of(**parts))
    for name, built in parts.items():
        for part in (built, again.get_component(name)):
            caplog.clear()
            for _ in range(3):
                assert part.run(query=QUERY)["documents"] == []
            assert len(caplog.records) == 1, name
    caplog.clear()
    meaning = BM25SEmbeddingRetriever(store)
    assert [meaning.run([0.5]) for _ in range(3)] == [{"documents": []}] * 3
    assert len(caplog.records) == 1


# --- 3: the policy of filters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BM25SRetriever, BM25SEmbeddingRetriever, HybridRetriever])
def test_filter_policies(store: BM25SDocumentStore, kind: Any) -> None:
    options = {"model": "m"} if kind is HybridRetriever else {}
    for policy in ("merge", "MERGE", FilterPolicy.MERGE):
        retriever = kind(store, filter_policy=policy, **options)
        assert retriever.filter_policy is FilterPolicy.MERGE
        assert retriever.to_dict()["init_parameters"]["filter_policy"] == "merge"
    for other in (None, 3):
        with refused(f"filter_policy … FilterPolicy … {other}"):
            kind(store, filter_policy=other, **options)
    for wrong in ("nonsense", ""):
        with refused(f"replace … merge … {wrong}", by=ValueError):
            kind(store, filter_policy=wrong, **options)


# --- 4: a stored question is one if somebody says so ------------------------------------------------------------------


STORED = [
    Document(id="odd", content="zebra", meta={"question": QUERY}),
    *(Document(id=str(i), content=text) for i, text in enumerate(TEXTS[1:])),
]


@pytest.fixture(scope="module")
def decided(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For which wordings decide nothing by their vectors."""
    folder = write_checkpoint("ap-cnn", tmp_path_factory.mktemp("decided") / "checkpoint")
    ranker = AnswerRanker(model=folder, device=CPU)
    first = ranker.run(query=QUERY, documents=[replace(one, meta={}) for one in STORED])["documents"][0]
    assert first.id != "odd", "the model alone would put it first"
    return folder


def test_a_question_in_the_meta_is_a_stored_one_if_somebody_says_so(decided: Path) -> None:
    plain, told = AnswerRanker(model=decided, device=CPU), AnswerRanker(model=decided, device=CPU, wordings=[])
    assert ids(plain.run(query=QUERY, documents=STORED))[0] != "odd"
    assert ids(told.run(query=QUERY, documents=STORED))[0] == "odd"
    assert ids(AnswerRanker.from_dict(told.to_dict()).run(query=QUERY, documents=STORED))[0] == "odd"
    indexed = [replace(one, meta={**one.meta, "ap_ranker_key": 7}) for one in STORED]
    assert ids(plain.run(query=QUERY, documents=indexed))[0] == "odd"


def test_a_retriever_of_known_wordings_says_so(decided: Path) -> None:
    store = BM25SDocumentStore()
    store.write_documents(STORED)
    ranker = AnswerRanker(model=decided, device=CPU)
    for wordings, is_first in ((None, False), ([], True)):
        retriever = BM25SRetriever(store, wordings=wordings)
        query = QUERY
        found = [*retriever.run(query=query)["documents"]]
        if not is_first:
            found += store.filter_documents({"field": "id", "operator": "==", "value": "odd"})
        assert (ids(ranker.run(query=query, documents=found))[0] == "odd") == is_first
        both = AnswerSearch(retriever, ranker).run(query=query)
        assert (ids(both)[0] == "odd") == is_first


def test_the_store_of_a_faq_says_so(decided: Path, tmp_path: Path) -> None:
    faq = tmp_path / "FAQ.csv"
    faq.write_text(f"question,answer\n{QUERY},Zebra where is my parcel.\n" + "".join(f"x,{t}\n" for t in TEXTS[1:4]))
    store = BM25SDocumentStore(documents=faq)
    found = BM25SRetriever(store).run(query=QUERY)["documents"]
    best = AnswerRanker(model=decided, device=CPU).run(query=QUERY, documents=found[::-1])["documents"][0]
    assert best.meta["question"] == QUERY


# --- 5: one query's data ---------------------------------------------------------------------------------------------


def scores(ranker: AnswerRanker, query: str, documents: list[Document]) -> dict[str, float | None]:
    return {one.id: one.score for one in ranker.run(query=query, documents=documents)["documents"]}


@pytest.mark.parametrize("kind", ["ours", "another"])
def test_data_of_a_query_do_not_outlive_it(checkpoint: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    store = BM25SDocumentStore()
    store.write_documents(DOCUMENTS)
    fused = AnswerRanker(model=checkpoint, device=CPU, fuse_scores=True, scale_score=False)
    found = fused.run(query=QUERY, documents=BM25SRetriever(store).run(query=QUERY)["documents"])["documents"]
    assert found
    assert not caplog.records
    target: Any = store if kind == "ours" else InMemoryDocumentStore(shared=False)
    target.write_documents(found, DuplicatePolicy.OVERWRITE)
    again = [one for one in target.filter_documents() if one.id in ids({"documents": found})]
    assert kind == "another" or all(not one.meta for one in again)
    alone = AnswerRanker(model=checkpoint, device=CPU, scale_score=False)
    assert scores(fused, OTHER, again) == scores(alone, OTHER, again)
    assert len(caplog.records) == 1, "that BM25's scores are missing"


def test_a_users_own_fields_stay(checkpoint: Path) -> None:
    store, own = BM25SDocumentStore(), {"bm25_score": "mine", "bm25_rank": 7, "explanation": "none"}
    store.write_documents([replace(one, meta=own) for one in DOCUMENTS])
    search = AnswerSearch(
        HybridRetriever(store, model=checkpoint, device=CPU),
        AnswerRanker(model=checkpoint, device=CPU, fuse_scores=True),
    )
    for one in search.run(query=QUERY)["documents"]:
        assert {name: one.meta[name] for name in own} == own
        assert set(one.meta) - set(own) == {"ap_ranker", "embedded_by"}
    alone = AnswerRanker(model=checkpoint, device=CPU).run(query=QUERY, documents=DOCUMENTS)["documents"]
    assert all(set(one.meta) == {"ap_ranker"} for one in alone)


def test_elasticsearchs_scores_are_of_their_query(checkpoint: Path) -> None:
    """A retriever of Elasticsearch returns what was stored: here, an earlier query's scores."""
    stale = LuceneScores().run(documents=[replace(DOCUMENTS[0], score=22.0)], query=OTHER)["documents"]
    fresh = LuceneScores().run(documents=[replace(stale[0], score=2.2)], query=QUERY)["documents"]
    assert fresh[0].score == pytest.approx(1.0)
    fused = AnswerRanker(model=checkpoint, device=CPU, fuse_scores=True, scale_score=False)
    alone = scores(AnswerRanker(model=checkpoint, device=CPU, scale_score=False), QUERY, DOCUMENTS[:1])
    assert scores(fused, QUERY, stale) == alone
    assert scores(fused, QUERY, fresh) == pytest.approx({"0": (alone["0"] or 0) + 0.5})
    store = BM25SDocumentStore()
    store.write_documents(DOCUMENTS)
    [completed] = BM25Scores(BM25SRetriever(store)).run(query=QUERY, documents=stale)["documents"]
    [expected] = [one for one in BM25SRetriever(store).run(query=QUERY)["documents"] if one.id == "0"]
    assert completed.meta["ap_ranker"]["bm25_score"] == expected.meta["ap_ranker"]["bm25_score"]


# --- 7: a folder keeps what memory keeps -----------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "time": datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC),
    "day": date(2026, 5, 4),
    "number": np.float32(0.1),
    "whole": np.int64(7),
    "pair": (1, ("a", [2])),
    "keys": {1: "one", "two": 2, (3, 4): {"x": (5,)}},
    "surrogate": "\ud800",
    "bytes": b"\x00\xff",
    "price": Decimal("1.10"),
    "duration": timedelta(days=1, microseconds=5),
    "key": UUID(int=5),
    "several": {"a", "b"},
    "our key": {"__ap_ranker__": ["tuple", [1]]},
    "plain": {"a": [1, 2.5, None, True]},
}


@pytest.mark.parametrize("name", list(VALUES))
def test_a_folder_keeps_what_memory_keeps(tmp_path: Path, name: str) -> None:
    kept = []
    for path in (None, tmp_path / "folder"):
        store = BM25SDocumentStore(path)
        store.write_documents([Document(id="a", content=QUERY, meta={"field": VALUES[name]})])
        store.close()
        kept.append(store.bm25_retrieval(QUERY)[0].meta["field"])
    assert kept == [VALUES[name]] * 2
    assert [type(value) for value in kept] == [type(VALUES[name])] * 2


def test_a_folder_embeds_documents_with_arrays(tmp_path: Path, checkpoint: Path) -> None:
    store = BM25SDocumentStore(tmp_path / "folder")
    meta = {"array": np.arange(3, dtype=np.int16)}
    store.write_documents([replace(one, meta=meta) for one in DOCUMENTS])
    found = HybridRetriever(store, model=checkpoint, device=CPU).run(query=QUERY)["documents"]
    assert len(found) == len(TEXTS)
    kept = found[0].meta["array"]
    assert (kept.dtype, kept.tolist()) == (np.int16, [0, 1, 2])


def test_a_folder_filters_by_dates(tmp_path: Path) -> None:
    store = BM25SDocumentStore(tmp_path / "folder")
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    store.write_documents([Document(id=str(day.day), content="x", meta={"day": day}) for day in days])
    late = {"field": "meta.day", "operator": ">=", "value": days[1]}
    assert [document.id for document in store.filter_documents(late)] == ["2", "3"]


def test_a_folder_refuses_the_rest(tmp_path: Path) -> None:
    store = BM25SDocumentStore(tmp_path / "folder")
    circle: list[Any] = []
    circle.append(circle)
    for wrong in (object(), circle, {"nested": [Document(content="another object")]}):
        with refused("'a' … folder"):
            store.write_documents([Document(id="a", content="x", meta={"field": wrong})])
    assert store.count_documents() == 0


# --- 8: wrong arguments, other components' parameters, limits --------------------------------------------------------


def test_wrong_arguments_are_named(store: BM25SDocumentStore, checkpoint: Path) -> None:
    ranker, retriever = AnswerRanker(model=checkpoint, device=CPU), BM25SRetriever(store)
    rankers: list[Any] = [ranker, BM25Scores(retriever), AnswerRouter(model=checkpoint, device=CPU)]
    finders: list[Any] = [
        retriever,
        HybridRetriever(store, model=checkpoint, device=CPU),
        AnswerSearch(retriever, ranker),
        FAQSearch(model=checkpoint, document_store=store, device=CPU),
    ]
    for query in (None, 3, ["x"]):
        for part in [*rankers, *([LuceneScores()] if query is not None else [])]:
            with refused(f"query … {query!r}"):
                part.run(query=query, documents=DOCUMENTS)
        for part in finders:
            with refused(f"{query!r}"):
                part.run(query=query)
    for documents in (["x"], "x", 3, [DOCUMENTS[0], None]):
        for part in [*rankers, LuceneScores()]:
            with refused("documents"):
                part.run(query=QUERY, documents=documents)
    for meta in (None, ["tag"]):
        odd = [*DOCUMENTS, Document(id="odd", content="x", meta=meta)]  # type: ignore[arg-type]
        takers: list[Callable[..., Any]] = [partial(part.run, query=QUERY) for part in [*rankers, LuceneScores()]]
        takers += [APDocumentEmbedder(model=checkpoint, device=CPU).run, BM25SDocumentStore().write_documents]
        for take in takers:
            with refused(f"odd … meta … {meta}"):
                take(documents=odd)
    for part in finders[:2]:
        for top_k in (True, "3", 2.5, -1):
            with refused(f"top_k … {top_k!r}"):
                part.run(query=QUERY, top_k=top_k)
    for filters in (3, True):
        for part in finders:
            with refused(f"filters … {filters}", by=FilterError):
                part.run(query=QUERY, filters=filters)
    embeddings: list[Any] = [None, 3, 0.5, "abc", [True], [[0.5]], [None], []]
    for embedding in embeddings:
        with refused("query_embedding", by=ValueError):
            BM25SEmbeddingRetriever(store).run(query_embedding=embedding)


@pytest.mark.parametrize("value", ["0.5", [0.5], True, float("nan")])
@pytest.mark.parametrize("name", ["score_threshold", "precision"])
def test_thresholds(store: BM25SDocumentStore, checkpoint: Path, name: str, value: Any) -> None:
    limit = {name: value}
    model: dict[str, Any] = {"model": checkpoint, "device": CPU}
    ranker, faq = AnswerRanker(**model), FAQSearch(**model, document_store=store)
    asked: list[Callable[[], Any]] = [
        lambda: AnswerRanker(**model, **limit),
        lambda: FAQSearch(**model, document_store=store, **limit),
        lambda: ranker.run(query=QUERY, documents=DOCUMENTS, **limit),
        lambda: faq.run(query=QUERY, **limit),
    ]
    if name == "precision":
        asked.append(lambda: AnswerRouter(**model, **limit))
    for ask in asked:
        with refused(f"{name} … {value!r}"):
            ask()


@pytest.mark.parametrize("precision", [0.0, 1.0, 1.5, -0.5])
def test_a_precision_that_is_no_share(checkpoint: Path, precision: float) -> None:
    for kind in (AnswerRanker, AnswerRouter):
        with refused(f"precision … {precision:g}"):
            kind(model=checkpoint, precision=precision)


@pytest.mark.parametrize("value", [True, "8", 1.5, 0])
def test_numbers_of_constructors(store: BM25SDocumentStore, value: object) -> None:
    makers: list[tuple[str, Callable[..., Any]]] = [
        ("batch_size", lambda **wrong: AnswerRanker(model="m", **wrong)),
        ("top_k", lambda **wrong: AnswerRanker(model="m", **wrong)),
        ("batch_size", lambda **wrong: APDocumentEmbedder(model="m", **wrong)),
        ("top_k", lambda **wrong: BM25SRetriever(store, **wrong)),
        ("top_k", lambda **wrong: BM25SEmbeddingRetriever(store, **wrong)),
        ("batch_size", lambda **wrong: HybridRetriever(store, model="m", **wrong)),
        ("candidates", lambda **wrong: FAQSearch(model="m", documents="d", **wrong)),
        ("top_k", lambda **wrong: FAQSearch(model="m", documents="d", **wrong)),
    ]
    for name, make in makers:
        with refused(f"{name} … {value!r}"):
            make(**{name: value})


@pytest.mark.parametrize(("ours", "theirs"), [(APTextEmbedder, "Text"), (APDocumentEmbedder, "Document")])
def test_the_yaml_of_the_embedders_that_ours_replace(ours: Any, theirs: str, checkpoint: Path) -> None:
    package = pytest.importorskip("haystack_integrations.components.embedders.sentence_transformers")
    kind = getattr(package, f"SentenceTransformers{theirs}Embedder")
    for progress_bar in (True, False):
        data = kind(device=CPU, progress_bar=progress_bar).to_dict()
        data["type"] = f"{ours.__module__}.{ours.__name__}"
        data["init_parameters"]["model"] = str(checkpoint)
        ours.from_dict(data).warm_up()
    data["init_parameters"]["backend"] = "onnx"
    with refused("backend", by=Exception):
        ours.from_dict(data)


def test_a_progress_bar_of_many_documents(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for progress_bar, batch_size in ((True, 1), (True, 64), (False, 1)):
        embedder = APDocumentEmbedder(model=checkpoint, device=CPU, batch_size=batch_size, progress_bar=progress_bar)
        embedded = embedder.run(DOCUMENTS)["documents"]
        assert [len(one.embedding or ()) > 0 for one in embedded] == [True] * len(TEXTS)
        assert ("%" in capsys.readouterr().err) == (progress_bar and batch_size == 1)


def test_no_retriever_returns_more_than_top_k() -> None:
    store = BM25SDocumentStore()
    store.write_documents([Document(id=f"w{i}", content=f"parcel {i}") for i in range(10)])
    store.write_documents([Document(id=f"q{i}", content="zebra", meta={"question": "parcel"}) for i in range(3)])
    found = BM25SRetriever(store, top_k=10, wordings=[]).run(query="parcel")["documents"]
    assert len(found) == 10
    assert {f"q{i}" for i in range(3)} <= {one.id for one in found}, "what is known word for word is among them"
    assert [one.meta["ap_ranker"]["bm25_rank"] for one in found[:7]] == list(range(1, 8))
    assert len(BM25SRetriever(store, top_k=2, wordings=[]).run(query="parcel")["documents"]) == 2
