"""What stands before the ranker: joined retrievers, filters, several queries, a pipeline in a component."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from both_pipelines import assembled, ids, run_both
from haystack import Document, Pipeline, SuperComponent
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers import MultiQueryTextRetriever
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder, APTextEmbedder
from haystack_integrations.components.rankers.ap_ranker import APRanker
from haystack_integrations.components.retrievers.ap_ranker import (
    BM25Scores,
    BM25SEmbeddingRetriever,
    BM25SRetriever,
    HybridRetriever,
)
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore
from pipelines.conftest import BY_MEANING, CPU, ENTRIES

MakeRanker = Callable[..., APRanker]


@pytest.fixture
def embedded(documents: list[Document], minilm: Path) -> list[Document]:
    return APDocumentEmbedder(model=minilm, device=CPU).run(documents)["documents"]


@pytest.fixture
def both_ways(embedded: list[Document]) -> BM25SDocumentStore:
    """A store that is searched by words and by meaning."""
    store = BM25SDocumentStore(language="english")
    store.write_documents(embedded)
    return store


@pytest.mark.parametrize("mode", ["concatenate", "merge", "reciprocal_rank_fusion", "distribution_based_rank_fusion"])
def test_joined_retrievers(both_ways: BM25SDocumentStore, minilm: Path, ranker: MakeRanker, mode: str) -> None:
    """Whatever a joiner does to the scores, the ranker has BM25's, and the same order."""
    pipeline = assembled(
        {
            "words": BM25SRetriever(both_ways, top_k=3),
            "embedder": APTextEmbedder(model=minilm, device=CPU),
            "meaning": BM25SEmbeddingRetriever(both_ways, top_k=3),
            "joiner": DocumentJoiner(join_mode=mode),
            "scores": BM25Scores(BM25SRetriever(both_ways)),
            "ranker": ranker(fuse_scores=True),
        },
        "embedder > meaning.query_embedding",
        "words > joiner",
        "meaning > joiner",
        "joiner > scores",
        "scores > ranker",
    )
    for query, right in BY_MEANING.items():
        inputs = {name: {"query": query} for name in ("words", "scores", "ranker")} | {"embedder": {"text": query}}
        found = run_both(pipeline, inputs, include_outputs_from={"words", "meaning"})
        ranked = found["ranker"]["documents"]
        candidates = {one.id: one for part in ("meaning", "words") for one in found[part]["documents"]}
        assert ids(ranked)[0] == right
        assert sorted(ids(ranked)) == sorted(candidates), "none is lost, none is there twice"
        scored = BM25Scores(BM25SRetriever(both_ways)).run(query=query, documents=list(candidates.values()))
        expected = ranker(fuse_scores=True).run(query=query, documents=scored["documents"])["documents"]
        assert {one.id: one.score for one in ranked} == pytest.approx({one.id: one.score for one in expected}, abs=1e-6)


REPAIR = {"field": "meta.category", "operator": "==", "value": "repair"}
NEW = {"field": "meta.day", "operator": ">=", "value": "2026-01-07"}
RIGHT = {
    "replace": {name for name, entry in ENTRIES.items() if entry[3] >= "2026-01-07"},
    "merge": {name for name, entry in ENTRIES.items() if entry[3] >= "2026-01-07" and entry[2] == "repair"},
    None: {name for name, entry in ENTRIES.items() if entry[2] == "repair"},
}
"""Policy -> what the filters of the component and those of a run let through; `None`: those of the component alone."""


@pytest.mark.parametrize("policy", ["replace", "merge"])
@pytest.mark.parametrize("kind", ["words", "meaning", "hybrid"])
def test_filters(both_ways: BM25SDocumentStore, minilm: Path, ranker: MakeRanker, kind: str, policy: str) -> None:
    options: dict[str, Any] = {"filters": REPAIR, "filter_policy": policy}
    query = "my bike and the shop, the brakes, an invoice, other countries"
    argument: dict[str, Any] = {"query": query}
    if kind == "meaning":
        argument = {"query_embedding": APTextEmbedder(model=minilm, device=CPU).run(query)["embedding"]}
    retriever: Any = {
        "words": lambda: BM25SRetriever(both_ways, **options),
        "meaning": lambda: BM25SEmbeddingRetriever(both_ways, **options),
        "hybrid": lambda: HybridRetriever(both_ways, model=minilm, device=CPU, **options),
    }[kind]()
    pipeline = assembled({"retriever": retriever, "ranker": ranker()}, "retriever > ranker")

    def found(**more: Any) -> set[str]:
        inputs = {"retriever": argument | more, "ranker": {"query": query}}
        return set(ids(run_both(pipeline, inputs)["ranker"]["documents"]))

    assert found() == RIGHT[None]
    assert found(filters=NEW) == RIGHT[policy]


def test_several_queries(store: BM25SDocumentStore, ranker: MakeRanker) -> None:
    """A query in several wordings, as a language model writes them: the ranker compares with what was asked."""
    retriever = MultiQueryTextRetriever(retriever=BM25SRetriever(store, top_k=2))
    pipeline = assembled({"retriever": retriever, "ranker": ranker()}, "retriever > ranker")
    queries = ["bike stolen", "theft police", "shop open on Sundays"]
    inputs = {"retriever": {"queries": queries}, "ranker": {"query": "Somebody took my bicycle last night"}}
    found = ids(run_both(pipeline, inputs)["ranker"]["documents"])
    assert found[0] == "stolen"
    assert {"stolen", "hours"} <= set(found)
    assert len(found) == len(set(found))


def test_a_search_as_one_component(store: BM25SDocumentStore, minilm: Path, ranker: MakeRanker) -> None:
    """A SuperComponent between others; its store is still the one that is written."""
    inside = assembled(
        {"retriever": HybridRetriever(store, model=minilm, device=CPU), "ranker": ranker(top_k=1)},
        "retriever > ranker",
    )
    search = SuperComponent(
        pipeline=inside,
        input_mapping={"query": ["retriever.query", "ranker.query"]},
        output_mapping={"ranker.documents": "documents"},
    )
    pipeline = assembled({"search": search, "joiner": DocumentJoiner()}, "search.documents > joiner")
    again = Pipeline.loads(pipeline.dumps())
    for query, right in BY_MEANING.items():
        assert ids(run_both(pipeline, {"search": {"query": query}})["joiner"]["documents"]) == [right]
    store.write_documents([Document(id="helmet", content="Do I need a helmet? The law does not ask for one.")])
    for one in (pipeline, again):
        found = one.run({"search": {"query": "Must I protect my head?"}})["joiner"]["documents"]
        assert ids(found) == ["helmet"]


def test_our_vectors_in_another_store(embedded: list[Document], minilm: Path, ranker: MakeRanker) -> None:
    """Haystack's own, in memory."""
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    store.write_documents(embedded)
    pipeline = assembled(
        {
            "embedder": APTextEmbedder(model=minilm, device=CPU),
            "retriever": InMemoryEmbeddingRetriever(store, top_k=4),
            "ranker": ranker(top_k=1),
        },
        "embedder > retriever.query_embedding",
        "retriever > ranker",
    )
    for query, right in BY_MEANING.items():
        inputs = {"embedder": {"text": query}, "ranker": {"query": query}}
        assert ids(run_both(pipeline, inputs)["ranker"]["documents"]) == [right]


def test_one_right_document_among_a_thousand(minilm: Path, documents: list[Document], ranker: MakeRanker) -> None:
    """Words alone fetch a hundred; the rest is not read."""
    store = BM25SDocumentStore(language="english")
    others = [
        Document(id=f"{n}", content=f"The bicycle of model {n} is {n % 7} kilograms light and has {n % 24} gears.")
        for n in range(990)
    ]
    store.write_documents([*others[:500], *documents, *others[500:]])
    pipeline = assembled(
        {"retriever": BM25SRetriever(store, top_k=100), "ranker": ranker(top_k=1)}, "retriever > ranker"
    )
    query = "A bike of model 7 was stolen by thieves"
    found = run_both(pipeline, {"retriever": {"query": query}, "ranker": {"query": query}})
    assert ids(found["ranker"]["documents"]) == ["stolen"]
