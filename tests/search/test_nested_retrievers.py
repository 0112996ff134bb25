"""Components that a pipeline's components use: their stores, files and models are those of the search, too."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import TEXTS, write_checkpoint, write_faq
from refusals import refused

from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import components_of
from ap_ranker.search.setup import search_faq, set_up

OURS, THEIRS = "haystack_integrations.components", "haystack.components.retrievers"
OTHER = "question,answer\nCan I pay by card?,Yes by any card.\nDo you mend tyres?,Every tyre within a day.\n"


def part(kind: str, **settings: Any) -> dict[str, Any]:
    return {"type": kind, "init_parameters": settings}


def by_meaning(store: dict[str, Any]) -> dict[str, Any]:
    """Haystack's own composition of an embedder and a retriever."""
    return part(
        f"{THEIRS}.text_embedding_retriever.TextEmbeddingRetriever",
        retriever=part(f"{OURS}.retrievers.ap_ranker.bm25s.BM25SEmbeddingRetriever", document_store=store),
        text_embedder=part(f"{OURS}.embedders.ap_ranker.text_embedder.APTextEmbedder", model="c"),
    )


def declared(name: str) -> dict[str, Any]:
    """A search with BM25's scores of what was found by meaning, or Haystack's search with several retrievers."""
    store = part(
        "haystack_integrations.document_stores.ap_ranker.bm25s.BM25SDocumentStore", documents="FAQ.csv", index=name
    )
    by_words = part(f"{OURS}.retrievers.ap_ranker.bm25s.BM25SRetriever", document_store=store)
    hybrid = part(f"{OURS}.retrievers.ap_ranker.hybrid.HybridRetriever", document_store=store, model="c")
    parts = {"ranker": part(f"{OURS}.rankers.ap_ranker.ranker.AnswerRanker", model="c", fuse_scores=True)}
    if name == "scores":
        parts |= {"scores": part(f"{OURS}.retrievers.ap_ranker.bm25_scores.BM25Scores", retriever=by_words)}
        parts |= {"found": by_meaning(store), "embedded": hybrid}
        path, queries = ["found", "scores", "ranker"], ["found", "scores", "ranker", "embedded"]
    else:
        retrievers = {"words": by_words, "both": hybrid}
        parts |= {"found": part(f"{THEIRS}.multi_retriever.MultiRetriever", retrievers=retrievers)}
        path, queries = ["found", "ranker"], ["found", "ranker"]
    return {
        "components": parts,
        "connections": [{"sender": f"{a}.documents", "receiver": f"{b}.documents"} for a, b in pairwise(path)],
        "inputs": {"query": [f"{each}.query" for each in queries]},
        "outputs": {"documents": "ranker.documents"},
    }


@pytest.fixture(params=["scores", "several"])
def pipeline(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for each in ("multi_retriever", "text_embedding_retriever"):
        pytest.importorskip(f"{THEIRS}.{each}", reason="of a later Haystack than the oldest")
    monkeypatch.chdir(tmp_path)
    write_checkpoint("ap-transformer", Path("c"))
    write_faq(Path("FAQ.csv"))
    Path("other.csv").write_text(OTHER, encoding="utf-8")
    Path("synonyms.txt").write_text("bill = card\n", encoding="utf-8")
    Path("search.yaml").write_text(yaml.safe_dump(declared(request.param)), encoding="utf-8")
    yield Path("search.yaml")
    gc.collect()  # documents of a name in memory live as long as a store has them


def found(search: DeclaredPipeline, question: str) -> dict[str, float]:
    """The answers to a question, with BM25's scores."""
    search.prepare()
    documents = search.run(question)
    return {one.meta["answer"]: one.meta.get("ap_ranker", {}).get("bm25_score", -1.0) for one in documents}


def test_the_documents_of_the_pipeline(pipeline: Path) -> None:
    with set_up(pipeline=pipeline) as setup:
        assert found(setup.load()[0], "bill").keys() == set(TEXTS[1::2])


def test_other_documents_replace_those_of_every_store(pipeline: Path) -> None:
    with set_up(Path("other.csv"), pipeline=pipeline) as setup:
        scores = found(setup.load()[0], "bill")
    assert scores == dict.fromkeys(("Yes by any card.", "Every tyre within a day."), 0.0)


def test_synonyms_reach_every_store(pipeline: Path) -> None:
    with set_up(Path("other.csv"), pipeline=pipeline, synonyms=Path("synonyms.txt")) as setup:
        scores = found(setup.load()[0], "bill")
    assert scores["Yes by any card."] > scores["Every tyre within a day."] == 0.0


def test_each_component_is_named(pipeline: Path) -> None:
    names = [type(each).__name__ for each in components_of(DeclaredPipeline.load(pipeline).pipeline)]
    assert len(names) == len(set(names)), "none twice"
    assert {"BM25SRetriever", "HybridRetriever", "AnswerRanker"} < set(names)
    assert ("APTextEmbedder" in names) == ("BM25SEmbeddingRetriever" in names) == ("BM25Scores" in names)


@pytest.mark.parametrize("value", ["x", {"a": 1}], ids=str)
def test_filters_of_the_file_that_fit_nothing(pipeline: Path, value: object) -> None:
    """In a pipeline of one component, too, which Haystack's own errors do not pass through."""
    search = part(
        f"{OURS}.retrievers.ap_ranker.faq_search.AnswerSearch",
        retriever=declared("several")["components"]["found"]["init_parameters"]["retrievers"]["words"],
        ranker=declared("several")["components"]["ranker"],
    )
    search["init_parameters"]["retriever"]["init_parameters"]["filters"] = {
        "field": "question",
        "operator": "<",
        "value": value,
    }
    whole = {"components": {"search": search}, "inputs": {"query": "search.query"}}
    pipeline.write_text(yaml.safe_dump(whole | {"outputs": {"documents": "search.documents"}}), encoding="utf-8")
    with set_up(pipeline=pipeline) as setup, refused("search.yaml"):
        search_faq(["Where is my parcel?"], setup)
