"""Documents as other components leave them: without content, of bytes alone, empty, with an embedding alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TEXTS, write_checkpoint
from haystack import Document, Pipeline, SuperComponent
from haystack.dataclasses import ByteStream
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.utils import ComponentDevice
from refusals import refused

from ap_ranker import (
    AnswerRanker,
    AnswerRouter,
    AnswerSearch,
    APDocumentEmbedder,
    BM25Scores,
    BM25SEmbeddingRetriever,
    BM25SRetriever,
    FAQSearch,
    HybridRetriever,
)
from ap_ranker.search.sources import source_of
from ap_ranker.web.presentation import presented
from ap_ranker.web.signed_answers import AnswerSigner, ShownAnswer
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore
from haystack_integrations.document_stores.ap_ranker import documents as stored
from haystack_integrations.tools.ap_ranker import AgentSearch

QUERY = TEXTS[0]
BLOB = ByteStream(b"\xff\x00", mime_type="image/png")
ODD = [
    Document(id="blob", blob=BLOB),
    Document(id="none", meta={"n": 1}),
    Document(id="empty", content=""),
    Document(id="blank", content=" \n"),
    Document(id="vector", embedding=[0.5] * 8),
]
DOCUMENTS = [*ODD, *(Document(id=str(n), content=text, meta={"n": n, "in": {"n": n}}) for n, text in enumerate(TEXTS))]


def ids(documents: list[Document]) -> list[str]:
    return [document.id for document in documents]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = write_checkpoint("ap-transformer", tmp_path_factory.mktemp("odd") / "c")
    return {"model": folder, "device": ComponentDevice.from_str("cpu")}


@pytest.fixture(params=[False, True], ids=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BM25SDocumentStore:
    filled = BM25SDocumentStore(tmp_path / "store" if request.param else None)
    filled.write_documents(DOCUMENTS)
    return filled


def test_a_store_keeps_them(store: BM25SDocumentStore) -> None:
    assert store.filter_documents() == DOCUMENTS
    assert set(ids(BM25SRetriever(store).run(QUERY)["documents"])).isdisjoint(ids(ODD))
    [found] = BM25SEmbeddingRetriever(store, return_embedding=True).run([0.5] * 8)["documents"]
    assert (found.id, found.embedding) == ("vector", [0.5] * 8)


def test_every_component_takes_them(store: BM25SDocumentStore, model: dict[str, Any]) -> None:
    ranker, scores = AnswerRanker(**model, top_k=100), BM25Scores(BM25SRetriever(store))
    ranked = ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]
    assert sorted(ids(ranked)) == sorted(ids(DOCUMENTS))
    assert next(one for one in ranked if one.id == "blob").blob == BLOB
    embedded = APDocumentEmbedder(**model).run(DOCUMENTS)["documents"]
    assert ids(embedded) == ids(DOCUMENTS)
    assert all(len(one.embedding or []) == 8 for one in embedded)
    completed = scores.run(query=QUERY, documents=ODD)["documents"]
    assert [one.meta["ap_ranker"]["bm25_score"] for one in completed] == [0.0] * len(ODD)
    assert len(AnswerRouter(**model).run(query=QUERY, documents=DOCUMENTS)) == 1
    hybrid = HybridRetriever(store, **model)
    for found in (hybrid.run(QUERY), AnswerSearch(hybrid, ranker).run(query=QUERY)):
        assert sorted(ids(found["documents"])) == sorted(ids(DOCUMENTS))
    assert set(ids(FAQSearch(**model, document_store=store).run(query=QUERY)["documents"])).isdisjoint(ids(ODD))


FILTERS: list[dict[str, Any]] = [
    *({"field": "meta.n", "operator": operator, "value": 1} for operator in ("==", "!=", ">", ">=", "<", "<=")),
    *({"field": "meta.in.n", "operator": operator, "value": [1, None]} for operator in ("in", "not in")),
    {"field": "content", "operator": "==", "value": ""},
    {"field": "blob", "operator": "==", "value": None},
    {"field": "embedding", "operator": "!=", "value": None},
    {"operator": "NOT", "conditions": [{"field": "meta.n", "operator": "==", "value": 1}]},
    {
        "operator": "OR",
        "conditions": [
            {"field": "id", "operator": "in", "value": ["blob", "0"]},
            {"operator": "AND", "conditions": [{"field": "meta.n", "operator": ">", "value": 2}]},
        ],
    },
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters_mean_what_they_mean_in_haystacks_store(store: BM25SDocumentStore, filters: dict[str, Any]) -> None:
    theirs = InMemoryDocumentStore(shared=False)
    theirs.write_documents(DOCUMENTS)
    expected = ids(theirs.filter_documents(filters))
    assert ids(store.filter_documents(filters)) == expected
    found = ids(BM25SRetriever(store, top_k=100).run(QUERY)["documents"])
    filtered = ids(BM25SRetriever(store, top_k=100).run(QUERY, filters=filters)["documents"])
    assert filtered == [each for each in found if each in expected]


@pytest.mark.parametrize(
    "make",
    [
        lambda store, model: {"ranker": AnswerRanker(**model), "retriever": BM25SRetriever(store)},
        lambda store, model: {"ranker": AnswerRanker(**model), "retriever": HybridRetriever(store, **model)},
    ],
    ids=["words", "hybrid"],
)
async def test_in_a_super_component_from_yaml(
    make: Callable[..., dict[str, Any]], store: BM25SDocumentStore, model: dict[str, Any]
) -> None:
    """Connected by type; run, run in an event loop, and with fewer than all inputs."""
    inner, outer = Pipeline(), Pipeline()
    for name, part in make(store, model).items():
        inner.add_component(name, part)
    inner.connect("retriever", "ranker")
    expected = inner.run({"retriever": {"query": QUERY}, "ranker": {"query": QUERY}})["ranker"]["documents"]
    outer.add_component("search", SuperComponent(pipeline=inner))
    loaded = Pipeline.loads(outer.dumps())
    assert loaded.run({"search": {"query": QUERY}}) == {"search": {"documents": expected}}
    assert await loaded.run_async({"search": {"query": QUERY}}) == {"search": {"documents": expected}}
    with pytest.raises(ValueError, match="query"):
        loaded.run({"search": {}})


# --- Calls that are nearly right, and meta of other types than text ---------------------------------------------------

NEAR: dict[str, Any] = {"field": "in.n", "operator": ">", "value": 3}


def test_every_filter_of_a_store_may_leave_out_the_prefix(store: BM25SDocumentStore) -> None:
    assert store.count_documents_by_filter(NEAR) == 2
    assert store.count_unique_metadata_by_filter(NEAR, ["n"]) == {"n": 2}
    assert store.count_unique_metadata_by_filter({}, ["meta.n"]) == {"n": len(TEXTS)}
    assert store.get_metadata_field_unique_values("n", filters=NEAR) == ([4, 5], 2)
    assert store.get_metadata_field_unique_values("n", None, 0, 10, NEAR) == ([4, 5], 2)
    assert store.get_metadata_field_unique_values("n", filters=None)[1] == len(TEXTS)


ODD_IDS = ["2024-05-01", "2024-05-01T00:00:00", "a\0b", "a", "\u2028", "d\u00e9", "de\u0301", "'", "1"]


@pytest.mark.parametrize(
    "asked",
    [*([each] for each in ODD_IDS), ["4", "0", "4", "none"], [], ["\ud800", "2"], [1, None, "3"], ODD_IDS, "0", None],
    ids=ascii,
)
@pytest.mark.parametrize("operator", ["in", "not in", "=="])
def test_ids_are_asked_for_as_in_haystacks_store(store: BM25SDocumentStore, operator: str, asked: Any) -> None:
    theirs = InMemoryDocumentStore(shared=False)
    odd = [Document(id=each, content=each) for each in ODD_IDS if each != "1"]
    theirs.write_documents([*DOCUMENTS, *odd])
    store.write_documents(odd)
    outcomes = []
    for each in (store, theirs):
        try:
            outcomes.append(ids(each.filter_documents({"field": "id", "operator": operator, "value": asked})))
        except FilterError as error:
            outcomes.append([str(error)])
    assert outcomes[0] == outcomes[1]


def test_who_asks_for_ids_does_not_look_through_the_store(
    store: BM25SDocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To delete the 8,000 old entries of a FAQ, 500 at a time, took half a minute, and four times that for twice."""
    looked: list[str] = []
    matches = stored.document_matches_filter

    def noted(filters: dict[str, Any], document: Document) -> bool:
        looked.append(document.id)
        return matches(filters, document)

    monkeypatch.setattr(stored, "document_matches_filter", noted)
    assert ids(store.filter_documents({"field": "id", "operator": "in", "value": ["4", "gone", "2"]})) == ["2", "4"]
    assert looked == ["2", "4"]


@pytest.mark.parametrize("wrong", ["01", None, 3, ["0", ["1"]], ["0", 1]], ids=str)
def test_no_document_is_deleted_by_what_is_no_list_of_ids(store: BM25SDocumentStore, wrong: Any) -> None:
    with refused("document_ids … list"):
        store.delete_documents(wrong)
    assert store.filter_documents() == DOCUMENTS
    store.delete_documents(one.id for one in ODD)  # type: ignore[arg-type]
    assert store.filter_documents() == DOCUMENTS[len(ODD) :]


@pytest.mark.parametrize("number", [1, np.int64(1)], ids=["int", "numpy"])
def test_a_number_is_no_id(store: BM25SDocumentStore, number: Any) -> None:
    """A folder would take 1 for "1", and replace that document."""
    with refused(f"{number!r} … id … text … {type(number).__name__}"):
        store.write_documents([Document(id=number, content="x")], policy=DuplicatePolicy.OVERWRITE)
    assert store.filter_documents() == DOCUMENTS


def test_an_update_is_checked_as_a_document_is(store: BM25SDocumentStore) -> None:
    for wrong in (None, ["tag"], "tag"):
        with refused(f"meta … dictionary … {wrong}"):
            store.update_by_filter(NEAR, wrong)  # type: ignore[arg-type]
    assert store.filter_documents() == DOCUMENTS
    given: dict[str, Any] = {"new": ["a"], "ap_ranker": {"stored_question": True}}
    assert store.update_by_filter(NEAR, given) == 2
    given["new"].append("b")
    expected = [{"n": n, "in": {"n": n}, "new": ["a"]} for n in (4, 5)]
    assert [one.meta for one in store.filter_documents(NEAR)] == expected, "a query's data are not kept"


@pytest.mark.parametrize("place", [None, "store"], ids=["memory", "folder"])
def test_a_search_takes_meta_of_any_type(place: str | None, model: dict[str, Any], tmp_path: Path) -> None:
    """In a store that a program has filled, a name may be a number, an answer a date or `None`."""
    store = BM25SDocumentStore(None if place is None else tmp_path / place)
    day, rest = date(2024, 5, 1), {1: "a", ("x", 2): "b"}
    metas = [{"question": day, "answer": day}, {"question": Decimal("1.5"), "answer": None}, {"answer": [1]}]
    store.write_documents([Document(str(n), f"{TEXTS[0]} {n}", meta=meta | rest) for n, meta in enumerate(metas)])
    search = AnswerSearch(BM25SRetriever(store), AnswerRanker(**model))
    found = search.run(query=QUERY)["documents"]
    assert len(found) == len(metas)
    entries = json.loads(AgentSearch(search).run(query=QUERY)["text"])["entries"]
    told = {entry["answer"]: entry.get("question") for entry in entries}
    assert told == {"2024-05-01": "2024-05-01", f"{TEXTS[0]} 1": "1.5", "[1]": None}
    shown = json.loads(json.dumps(presented(QUERY, found, calibrated=False)))
    assert {one["answer"]: one["question"] or None for one in shown} == told
    assert [source_of(one) for one in found] == [None] * len(metas)
    assert AnswerSigner(b"secret").sign(QUERY, "0", ShownAnswer.of(found[0]))


@pytest.mark.parametrize(
    "filters",
    [
        {"field": "in", "operator": "<", "value": 2},
        {"field": "n", "operator": ["=="], "value": 2},
        {"field": 5, "operator": "==", "value": 2},
        {"operator": "AND", "conditions": None},
    ],
    ids=str,
)
def test_filters_that_haystack_compares_in_vain(store: BM25SDocumentStore, filters: dict[str, Any]) -> None:
    """Haystack's function raises a TypeError, which ended `ap-ranker ask` in a traceback."""
    asked: list[Callable[[], Any]] = [
        lambda: store.filter_documents(filters),
        lambda: store.delete_by_filter(filters),
        lambda: store.update_by_filter(filters, {"x": 1}),
        lambda: BM25SRetriever(store, filters=filters).run(QUERY),
    ]
    for ask in asked:
        with refused("filters"):
            ask()
    assert store.filter_documents() == DOCUMENTS
