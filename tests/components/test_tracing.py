"""What Haystack's tracer is told of a search: sizes and names always, texts only where content may be traced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import TEXTS
from haystack import Document, Pipeline, tracing
from haystack.utils import ComponentDevice
from spying_tracer import SpyingTracer, spying

from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever, FAQSearch
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

CPU = ComponentDevice.from_str("cpu")
DOCUMENTS = [Document(content=text) for text in TEXTS]


@pytest.fixture
def tracer() -> Iterator[SpyingTracer]:
    with spying() as tracer:
        yield tracer


@pytest.fixture
def search(checkpoint: Path, faq: Path) -> FAQSearch:
    return FAQSearch(model=checkpoint, documents=faq, device=CPU)


def in_a_pipeline(search: FAQSearch) -> Pipeline:
    """Its two components, each with a span of its own."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", search.retriever)
    pipeline.add_component("ranker", search.ranker)
    pipeline.connect("retriever.documents", "ranker.documents")
    return pipeline


def asked(question: str) -> dict[str, dict[str, object]]:
    return {"retriever": {"query": question}, "ranker": {"query": question, "score_threshold": 0.0}}


@pytest.mark.parametrize("content", [False, True])
def test_a_search(tracer: SpyingTracer, search: FAQSearch, monkeypatch: pytest.MonkeyPatch, content: bool) -> None:
    monkeypatch.setattr(tracing.tracer, "is_content_tracing_enabled", content)
    question = "my bike, my e-mail, the frame"
    pipeline = in_a_pipeline(search)
    for _ in range(2):
        fetched = len(pipeline.run(asked(question))["ranker"]["documents"])
    assert fetched > 1
    assert tracer.named("retriever") == [{"ap_ranker.top_k": 100, "ap_ranker.found": fetched}] * 2
    common = {
        "ap_ranker.model": search.model,
        "ap_ranker.architecture": "ap-cnn",
        "ap_ranker.candidates": fetched,
        **({"ap_ranker.question": question} if content else {}),
    }
    assert tracer.named("ranker") == [
        common | {"ap_ranker.cache_hits": 0},
        common | {"ap_ranker.cache_hits": fetched},
    ]


async def test_concurrent_searches_tag_their_own_spans(tracer: SpyingTracer, search: FAQSearch) -> None:
    questions = {"parcel": 1, "my bike, my e-mail, the frame": 2, "the refund": 3, "xyzzy": 0}
    await search.warm_up_async()
    pipeline = in_a_pipeline(search)
    results = await asyncio.gather(*(pipeline.run_async(asked(text)) for text in questions))
    sizes = [len(result["ranker"]["documents"]) for result in results]
    assert len(set(sizes)) > 2
    assert sorted(tags["ap_ranker.found"] for tags in tracer.named("retriever")) == sorted(sizes)
    assert sorted(tags.get("ap_ranker.candidates", 0) for tags in tracer.named("ranker")) == sorted(sizes)


def test_equal_documents_are_one_candidate_and_hits_are_of_this_run(tracer: SpyingTracer, checkpoint: Path) -> None:
    ranker = AnswerRanker(model=checkpoint, device=CPU, query_prefix="query: ")
    for given in (DOCUMENTS[:2] * 2, DOCUMENTS[1:4]):
        with tracing.tracer.trace("a user's own span"):
            ranker.run(query="x", documents=given)
    assert [(span.ours["ap_ranker.candidates"], span.ours["ap_ranker.cache_hits"]) for span in tracer.spans] == [
        (2, 0),
        (3, 1),
    ]
    info = ranker.cache_info
    assert info is not None
    assert (info.hits, info.misses) == (1, 4), "to trace is not to use"


def test_without_a_cache_there_are_no_hits_to_tell(tracer: SpyingTracer, checkpoint: Path) -> None:
    with tracing.tracer.trace("run"):
        AnswerRanker(model=checkpoint, device=CPU, cache={"megabytes": 0}).run(query="x", documents=DOCUMENTS)
    assert tracer.spans[0].ours == {
        "ap_ranker.model": str(checkpoint),
        "ap_ranker.architecture": "ap-cnn",
        "ap_ranker.candidates": len(DOCUMENTS),
    }


def test_outside_of_any_span(tracer: SpyingTracer, checkpoint: Path) -> None:
    """A component that runs alone, with a tracer that has no span: it ranks."""
    store = BM25SDocumentStore()
    store.write_documents(DOCUMENTS)
    found = BM25SRetriever(store).run(query=TEXTS[0])["documents"]
    assert found
    ranked = AnswerRanker(model=checkpoint, device=CPU).run(query=TEXTS[0], documents=found)["documents"]
    assert {document.id for document in ranked} == {document.id for document in found}
    assert tracer.spans == []
