"""Documents of Haystack's own stores carry states (`APDocumentEmbedder(states=True)`), and no output has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import TEXTS, write_checkpoint
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import ComponentDevice
from naive import SMALL

from ap_ranker.ranking import loaded_checkpoints
from ap_ranker.ranking.state_bytes import STATES
from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import AnswerSearch, HybridRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

CPU = ComponentDevice.from_str("cpu")
QUERY = "Where is my parcel?"
DOCUMENTS = [Document(id=str(number), content=text) for number, text in enumerate(TEXTS)]


@pytest.fixture(params=["ap-transformer", "qa-cnn"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_checkpoint(request.param, tmp_path / "checkpoint")


def carriers(model: Path, **reading: str) -> list[Document]:
    """Documents that an embedder of another process has made."""
    embedder = APDocumentEmbedder(model=model, device=CPU, states=True, **reading)
    embedder = APDocumentEmbedder.from_dict(embedder.to_dict())
    documents: list[Document] = embedder.run(DOCUMENTS)["documents"]
    del embedder
    loaded_checkpoints._loaded.clear()
    return documents


def ranked(ranker: AnswerRanker, documents: list[Document]) -> dict[str, float | None]:
    found = ranker.run(query=QUERY, documents=documents)["documents"]
    assert not any(STATES in document.meta for document in found)
    return {document.id: document.score for document in found}


def counts(ranker: AnswerRanker) -> tuple[int, int]:
    info = ranker.cache_info
    assert info is not None
    return info.encoded, info.fetched


def test_they_come_back_from_a_store(model: Path) -> None:
    store = InMemoryDocumentStore()
    documents = carriers(model)
    store.write_documents(documents)
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=len(TEXTS)))
    pipeline.add_component("ranker", AnswerRanker(model=model, device=CPU))
    pipeline.connect("retriever", "ranker")
    found = pipeline.run({"retriever": {"query": QUERY}, "ranker": {"query": QUERY}})["ranker"]["documents"]
    assert counts(pipeline.get_component("ranker")) == (0, len(found))
    assert not any(STATES in document.meta for document in found)
    loaded_checkpoints._loaded.clear()
    alone = ranked(
        AnswerRanker(model=model, device=CPU), [one for one in DOCUMENTS if one.id in {it.id for it in found}]
    )
    assert {document.id: document.score for document in found} == pytest.approx(alone, abs=1e-6)
    assert all(STATES in document.meta for document in documents), "the caller's documents stay as they were"


def test_they_come_back_from_our_store(model: Path) -> None:
    store = BM25SDocumentStore()
    store.write_documents(carriers(model))
    ranker = AnswerRanker(model=model, device=CPU)
    search = AnswerSearch(HybridRetriever(store, model=model, device=CPU), ranker)
    search.warm_up()
    found = search.run(query=QUERY)["documents"]
    assert counts(ranker) == (0, len(TEXTS))
    assert not any(STATES in document.meta for document in found)


def test_those_of_another_reading_or_checkpoint_are_encoded_here(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = write_checkpoint("qa-cnn", tmp_path / "other", {**SMALL["qa-cnn"], "window": 3})
    expected = ranked(AnswerRanker(model=model, device=CPU), DOCUMENTS)
    for documents in (carriers(model, prefix="passage: "), carriers(other)):
        loaded_checkpoints._loaded.clear()
        ranker = AnswerRanker(model=model, device=CPU)
        caplog.clear()
        for _ in range(2):
            assert ranked(ranker, documents) == pytest.approx(expected, abs=1e-6)
        assert counts(ranker) == (len(TEXTS), 0)
        assert caplog.text.count("Embed the documents again") == 1


def test_a_ranker_without_a_cache_does_not_return_them(model: Path) -> None:
    ranker = AnswerRanker(model=model, device=CPU, cache={"megabytes": 0})
    expected = ranked(AnswerRanker(model=model, device=CPU, cache={"dtype": "float32"}), DOCUMENTS)
    assert ranked(ranker, carriers(model)).keys() == expected.keys()


def test_documents_carry_none_unless_asked_for(model: Path) -> None:
    [document] = APDocumentEmbedder(model=model, device=CPU).run(DOCUMENTS[:1])["documents"]
    assert STATES not in document.meta
