"""What a store finds by embeddings is what cosines in float64 say, and embeddings come back as they were written."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import run
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.errors import DocumentStoreError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.errors import FilterError
from killed import killed_while
from refusals import absent, refused

from haystack_integrations.components.retrievers.ap_ranker import BM25SEmbeddingRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore, documents

SIZE = 16
EVEN = {"field": "meta.even", "operator": "==", "value": True}
HAS_EMBEDDING = {"field": "embedding", "operator": "!=", "value": None}
LOSSLESS = 0.01
"""How far 8-bit numbers may be from the cosine of so short vectors."""


def vectors(number: int, seed: int = 0) -> list[list[float]]:
    found: list[list[float]] = np.random.default_rng(seed).normal(size=(number, SIZE)).tolist()
    return found


QUERY = vectors(1, seed=1)[0]
DOCUMENTS = [
    Document(id=str(i), content=f"text {i}", meta={"even": i % 2 == 0}, embedding=vector)
    for i, vector in enumerate(vectors(40))
]
MIXED = [
    Document(id="none", content="without"),
    *DOCUMENTS,
    Document(id="empty", content="no numbers", embedding=[]),
    Document(id="zeros", content="zeros", embedding=[0.0] * SIZE),
    Document(id="wordless", embedding=QUERY),
]


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BM25SDocumentStore]:
    """An empty store of each kind in turn."""
    with closing(BM25SDocumentStore(None if request.param == "memory" else tmp_path / "store")) as made:
        yield made


@pytest.fixture
def filled(store: BM25SDocumentStore) -> BM25SDocumentStore:
    store.write_documents(MIXED)
    return store


def cosines(some: list[Document], query: list[float] = QUERY) -> dict[str, float]:
    """By id, the highest first; equal ones in the order given."""
    found = {}
    for document in some:
        if document.embedding:
            vector, other = np.array(document.embedding, np.float64), np.array(query, np.float64)
            lengths = np.linalg.norm(vector) * np.linalg.norm(other)
            found[document.id] = float(vector @ other / lengths) if lengths else 0.0
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def ids(some: list[Document]) -> list[str]:
    return [document.id for document in some]


def test_scores_are_cosines(filled: BM25SDocumentStore) -> None:
    found = filled.embedding_retrieval(QUERY, top_k=99)
    expected = cosines(MIXED)
    assert {document.id: document.score for document in found} == pytest.approx(expected, abs=LOSSLESS)
    assert found[0].id == "wordless"
    assert all(type(document.score) is float for document in found)
    scores = [document.score or 0 for document in found]
    assert scores == sorted(scores, reverse=True)
    assert [document.meta["ap_ranker"]["embedding_rank"] for document in found] == list(range(1, len(expected) + 1))
    assert [document.meta["ap_ranker"]["embedding_score"] for document in found] == scores
    assert all(document.embedding is None for document in found)
    scaled = filled.embedding_retrieval(QUERY, top_k=99, scale_score=True)
    assert [document.score for document in scaled] == pytest.approx([(1 + score) / 2 for score in scores])
    assert [document.meta for document in scaled] == [document.meta for document in found]


@pytest.mark.parametrize("filters", [None, EVEN, HAS_EMBEDDING, {**EVEN, "value": None}])
@pytest.mark.parametrize("top_k", [0, 1, 7, 20, 41, 99])
def test_top_k_and_filters(filled: BM25SDocumentStore, top_k: int, filters: dict[str, Any] | None) -> None:
    everything = ids(filled.embedding_retrieval(QUERY, top_k=99))
    matching = {document.id for document in filled.filter_documents(filters)}
    assert len(matching) > 1
    expected = [name for name in everything if name in matching][:top_k]
    assert ids(filled.embedding_retrieval(QUERY, filters, top_k)) == expected
    with pytest.raises(FilterError):
        filled.embedding_retrieval(QUERY, {"operator": "AND"})


def test_ties_keep_the_order_of_writing(store: BM25SDocumentStore) -> None:
    three = vectors(3)
    store.write_documents([Document(id=str(i), embedding=three[i % 3]) for i in range(300)])
    found = store.embedding_retrieval(QUERY, top_k=300)
    assert len({document.score for document in found}) == 3
    assert ids(found) == ids(sorted(found, key=lambda document: (-(document.score or 0), int(document.id))))
    for top_k in (1, 99, 100, 101, 250):
        assert ids(store.embedding_retrieval(QUERY, top_k=top_k)) == ids(found)[:top_k]


def test_as_haystacks_in_memory_store(store: BM25SDocumentStore, caplog: pytest.LogCaptureFixture) -> None:
    """Order, and what is refused."""
    theirs = InMemoryDocumentStore(embedding_similarity_function="cosine")
    for made in (store, theirs):
        made.write_documents(DOCUMENTS)
    for scale in (False, True):
        expected = theirs.embedding_retrieval(QUERY, top_k=99, scale_score=scale)
        found = store.embedding_retrieval(QUERY, top_k=99, scale_score=scale)
        assert {d.id: d.score for d in found} == pytest.approx({d.id: d.score for d in expected}, abs=LOSSLESS)
    for wrong in ([], [1, 2], ["a"]):
        for made in (store, theirs):
            with refused("query_embedding", by=ValueError):
                made.embedding_retrieval(wrong)  # type: ignore[arg-type]
    for made in (store, theirs):
        with pytest.raises(DocumentStoreError):
            made.embedding_retrieval(QUERY[:-1])
        made.write_documents([Document(id="short", embedding=[1.0, 2.0])])
        with pytest.raises(DocumentStoreError):
            made.embedding_retrieval(QUERY)
    with refused("16 … 0 … 2 … short"):
        store.embedding_retrieval(QUERY)
    with refused("query_embedding", by=ValueError):
        store.embedding_retrieval([float("nan")] * SIZE)
    store.delete_all_documents()
    store.write_documents([Document(content="without an embedding")])
    caplog.set_level(logging.WARNING)
    assert store.embedding_retrieval(QUERY) == []
    assert not absent("embeddings … none", caplog.text)


@pytest.mark.parametrize(
    "embedding",
    [[], [0.0], [1, 2], [0.5, -0.25], [0.1, 1e-30], [1e300, -1e-300, 5e-324], vectors(1)[0], [-0.0, 2.0**-149]],
)
def test_embeddings_come_back_exactly(store: BM25SDocumentStore, embedding: list[float]) -> None:
    document = Document(id="1", content="parcel", embedding=embedding)
    store.write_documents([document])
    assert store.filter_documents() == [document]
    assert store.filter_documents({"field": "id", "operator": "==", "value": "1"}) == [document]
    assert store.update_by_filter({"field": "id", "operator": "==", "value": "1"}, {"new": 1}) == 1
    [found] = store.filter_documents()
    assert (found.embedding, found.meta) == (embedding, {"new": 1})
    store.close()
    assert store.filter_documents()[0].embedding == embedding


def test_a_list_is_no_object_of_the_store(store: BM25SDocumentStore) -> None:
    mine = [1.0, 2.0]
    store.write_documents([Document(id="1", embedding=mine)])
    mine[0] = 9.0
    store.filter_documents()[0].embedding[0] = 8.0  # type: ignore[index]
    assert store.filter_documents()[0].embedding == [1.0, 2.0]


@pytest.mark.parametrize("embedding", [[float("nan")], [float("inf")], [None], ["1"], [[1.0]], [True], [10**400]])
def test_what_is_no_embedding_is_refused(store: BM25SDocumentStore, embedding: Any) -> None:
    store.write_documents(DOCUMENTS[:1])
    with refused("bad"):
        store.write_documents([Document(id="bad", content="x", embedding=embedding)])
    assert store.filter_documents() == DOCUMENTS[:1]


def test_asked_for_embeddings_are_returned(filled: BM25SDocumentStore) -> None:
    found = filled.embedding_retrieval(QUERY, top_k=99, return_embedding=True)
    given = {document.id: document.embedding for document in MIXED}
    assert all(document.embedding == given[document.id] for document in found)
    assert all(document.embedding is None for document in filled.bm25_retrieval("text without zeros", top_k=99))
    with_filter = filled.embedding_retrieval(QUERY, HAS_EMBEDDING, top_k=99)
    assert all(document.embedding is None for document in with_filter)


def test_writes_are_found_and_deletes_are_not(filled: BM25SDocumentStore) -> None:
    best, second = ids(filled.embedding_retrieval(QUERY, top_k=2))
    filled.delete_documents([best])
    assert ids(filled.embedding_retrieval(QUERY, top_k=1)) == [second]
    filled.write_documents([Document(id=second, content="now without")], DuplicatePolicy.OVERWRITE)
    assert second not in ids(filled.embedding_retrieval(QUERY, top_k=99))
    filled.write_documents([Document(id="new", embedding=[2 * x for x in QUERY])])
    assert ids(filled.embedding_retrieval(QUERY, top_k=1)) == ["new"]


def test_in_memory_no_list_of_floats_is_kept() -> None:
    store = BM25SDocumentStore()
    store.write_documents(DOCUMENTS)
    assert all(document.embedding is None for document in store._shared.documents._documents.values())  # type: ignore[union-attr]


# --- a folder ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with documents and both indexes."""
    with closing(BM25SDocumentStore(tmp_path / "saved")) as store:
        store.write_documents(MIXED)
        store.bm25_retrieval("text")
        store.embedding_retrieval(QUERY)
    return tmp_path / "saved"


def only_vectors(folder: Path) -> Path:
    [index] = folder.glob("index-*-vectors")
    return index


def test_the_saved_index_is_mapped(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(path.name for path in saved.rglob("*"))
    monkeypatch.setattr(documents, "Index", None)  # nothing is built
    with closing(BM25SDocumentStore(saved)) as store:
        found = store.embedding_retrieval(QUERY, top_k=99)
        assert isinstance(store.computed(documents.Documents.vectors).scorer.matrix, np.memmap)
    assert {document.id: document.score for document in found} == pytest.approx(cosines(MIXED), abs=LOSSLESS)
    assert sorted(path.name for path in saved.rglob("*")) == before


def test_a_write_makes_the_saved_index_another(saved: Path) -> None:
    before = only_vectors(saved)
    with closing(BM25SDocumentStore(saved)) as store, closing(BM25SDocumentStore(saved)) as other:
        other.embedding_retrieval(QUERY)
        store.write_documents([Document(id="new", embedding=QUERY)])
        assert {"new", "wordless"} == set(ids(other.embedding_retrieval(QUERY, top_k=2)))
        assert only_vectors(saved) != before
        store.bm25_retrieval("text")
    assert len(list(saved.iterdir())) == 3  # the database and two indexes; old ones are gone


@pytest.mark.parametrize("name", ["vectors.npy", "scales.npy", "rows.npy"])
def test_a_damaged_index_is_built_again(saved: Path, name: str) -> None:
    index = only_vectors(saved)
    whole = (index / name).read_bytes()
    np.save(index / name, np.arange(3))
    with closing(BM25SDocumentStore(saved)) as store:
        assert ids(store.embedding_retrieval(QUERY, top_k=1)) == ["wordless"]
    assert (index / name).read_bytes() == whole


@pytest.mark.parametrize("value", ["x''", "x'66ff'", "x'78'", "'text'", "7", "x'660000c07f'"])
def test_a_damaged_embedding_is_named(saved: Path, value: str) -> None:
    """No bytes, half a number, an unknown type, no bytes at all, NaN."""
    connection = sqlite3.connect(saved / "documents.sqlite")
    connection.execute(f"UPDATE documents SET embedding = {value} WHERE id = '3'")
    connection.execute("UPDATE state SET revision = '0123456789abcdef'")
    connection.commit()
    connection.close()
    with closing(BM25SDocumentStore(saved)) as store:
        for use in (store.filter_documents, lambda: store.embedding_retrieval(QUERY)):
            with refused("3"):
                use()
        assert store.bm25_retrieval("text")


KILLED = killed_while(
    "update",
    """
store.embed_documents("another", lambda some: [[1.0, float(document.id == "3")] for document in some])
store.embedding_retrieval([0.0, 1.0])
""",
)


@pytest.mark.parametrize(("place", "call"), [("write", 20), ("arrays", 1), ("arrays", 3), ("rename", 1)])
def test_killed_in_the_middle(saved: Path, place: str, call: int) -> None:
    """Half of the embeddings leave no trace; half an index is never used."""
    result = run(KILLED, saved, place, call)
    assert result.returncode == -9, result.stderr
    with closing(BM25SDocumentStore(saved)) as store:
        if place == "write":
            assert store.filter_documents() == MIXED
            assert ids(store.embedding_retrieval(QUERY, top_k=1)) == ["wordless"]
        else:
            assert ids(store.embedding_retrieval([0.0, 1.0], top_k=1)) == ["3"]
            assert ids(store.filter_documents()) == ids(MIXED)


# --- embedding what is not embedded -----------------------------------------------------------------------------------


def test_only_missing_documents_are_embedded_and_stay_where_they_are(filled: BM25SDocumentStore) -> None:
    asked: list[str] = []
    progress: list[tuple[int, int]] = []

    def embed(some: list[Document]) -> list[list[float]]:
        asked.extend(ids(some))
        return [[float(len(document.content or ""))] * SIZE for document in some]

    revision = filled.embed_documents("one", embed, on_progress=lambda done, total: progress.append((done, total)))
    assert asked == ids(MIXED)
    assert progress[-1] == (len(MIXED), len(MIXED))
    assert revision == filled.revision()
    after = filled.filter_documents()
    assert ids(after) == ids(MIXED)
    assert all(document.meta["embedded_by"] == "one" for document in after)
    assert [document.embedding for document in after] == embed(MIXED)
    asked.clear()
    assert filled.embed_documents("one", embed) == revision == filled.revision(), "nothing is written"
    filled.write_documents([Document(id="new", content="new")])
    filled.update_by_filter({"field": "id", "operator": "==", "value": "3"}, {"embedded_by": "two"})
    with refused("(one) … (two)"):
        filled.embed_documents("one", embed, replace_others=False)
    assert asked == []
    assert filled.embed_documents("one", embed) == filled.revision()
    assert set(asked) == {"new", "3"}


def test_a_document_that_changes_while_it_is_embedded(filled: BM25SDocumentStore) -> None:
    def embed(some: list[Document]) -> list[list[float]]:
        if some[0].content != "changed":
            filled.write_documents([Document(id="0", content="changed")], DuplicatePolicy.OVERWRITE)
            filled.update_by_filter({"field": "id", "operator": "==", "value": "1"}, {"topic": "post"})
            filled.delete_documents(["2"])
        return [[1.0] * SIZE for _ in some]

    assert filled.embed_documents("one", embed) is None
    stored = {document.id: document for document in filled.filter_documents()}
    assert "2" not in stored
    assert (stored["0"].content, stored["0"].embedding) == ("changed", None)
    assert (stored["1"].meta, stored["1"].embedding) == ({"even": False, "topic": "post"}, DOCUMENTS[1].embedding)
    assert stored["3"].meta["embedded_by"] == "one"
    assert filled.embed_documents("one", embed) == filled.revision()
    assert filled.filter_documents({"field": "id", "operator": "==", "value": "1"})[0].meta["topic"] == "post"


# --- the retriever ----------------------------------------------------------------------------------------------------

TYPE = "haystack_integrations.components.retrievers.ap_ranker.bm25s.BM25SEmbeddingRetriever"


def test_retriever_arguments_are_those_of_the_in_memory_one() -> None:
    for name in ("__init__", "run", "run_async"):
        ours, theirs = (
            signature(getattr(kind, name)).parameters for kind in (BM25SEmbeddingRetriever, InMemoryEmbeddingRetriever)
        )
        assert [(p.name, p.default, p.kind) for p in ours.values()] == [
            (p.name, p.default, p.kind) for p in theirs.values()
        ]


def test_retriever_to_and_from_dict() -> None:
    retriever = BM25SEmbeddingRetriever(BM25SDocumentStore(k1=1.5, index="a"), EVEN, 3, True, True, FilterPolicy.MERGE)
    data = retriever.to_dict()
    assert data == {
        "type": TYPE,
        "init_parameters": {
            "document_store": BM25SDocumentStore(k1=1.5, index="a").to_dict(),
            "filters": EVEN,
            "top_k": 3,
            "scale_score": True,
            "return_embedding": True,
            "filter_policy": "merge",
        },
    }
    assert BM25SEmbeddingRetriever.from_dict(data).to_dict() == data
    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever)
    assert Pipeline.loads(pipeline.dumps()).dumps() == pipeline.dumps()


async def test_run(filled: BM25SDocumentStore) -> None:
    retriever = BM25SEmbeddingRetriever(filled, top_k=3)
    retriever.warm_up()
    assert filled._words not in filled._shared.computed, "an index of words is not built"
    for options in ({}, {"top_k": 1}, {"top_k": 0}, {"filters": EVEN}, {"scale_score": True, "return_embedding": True}):
        expected = filled.embedding_retrieval(QUERY, **{"top_k": 3, **options})
        assert retriever.run(QUERY, **options) == {"documents": expected}
        found = await asyncio.gather(*(retriever.run_async(QUERY, **options) for _ in range(4)))
        assert all(result == {"documents": expected} for result in found)
    with refused("top_k … 0 … -1", by=ValueError):
        retriever.run(QUERY, top_k=-1)
    with refused("document_store … BM25SDocumentStore … InMemoryDocumentStore"):
        BM25SEmbeddingRetriever(InMemoryDocumentStore())  # type: ignore[arg-type]
    empty = BM25SEmbeddingRetriever(BM25SDocumentStore())
    assert BM25SEmbeddingRetriever.from_dict(empty.to_dict()).run(QUERY) == {"documents": []}
