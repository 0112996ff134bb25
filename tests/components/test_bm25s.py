"""The store keeps Haystack's contract (its test suite), finds what Lucene's formula says, and outlives its process."""

from __future__ import annotations

import json
import pickle
import re
import sqlite3
import tempfile
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from copy import deepcopy
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
import snowballstemmer
from conftest import TEXTS
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.components.writers import DocumentWriter
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.errors import FilterError
from haystack.testing import document_store as suite
from haystack.testing import document_store_async as async_suite
from hypothesis import given, settings
from hypothesis import strategies as st
from killed import killed_while
from refusals import refused

import ap_ranker
from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import BM25
from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore, documents
from haystack_integrations.document_stores.ap_ranker.folder_documents import DIGEST, _digest

KINDS = ["memory", "folder"]
QUERY = "Where is my parcel?"
DOCUMENTS = [Document(id=str(i), content=text, meta={"even": i % 2 == 0}) for i, text in enumerate(TEXTS)]
ADDED = ("ap_ranker",)
"""The meta field that retrieval adds."""

EVEN = {"field": "meta.even", "operator": "==", "value": True}


def new_store(kind: str, tmp_path: Path) -> Iterator[BM25SDocumentStore]:
    store = BM25SDocumentStore(None if kind == "memory" else tmp_path / "store")
    yield store
    store.close()


@pytest.fixture(params=KINDS)
def document_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BM25SDocumentStore]:
    """An empty store of each kind in turn."""
    yield from new_store(request.param, tmp_path)


@pytest.fixture
def store(document_store: BM25SDocumentStore) -> BM25SDocumentStore:
    document_store.write_documents(DOCUMENTS)
    return document_store


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with documents and their index."""
    store = BM25SDocumentStore(tmp_path / "saved")
    store.write_documents(DOCUMENTS)
    store.bm25_retrieval(QUERY)
    store.close()
    return tmp_path / "saved"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all indexes that are built (not loaded) during a test."""
    sizes: list[int] = []

    def build(*arguments: Any, **options: Any) -> BM25:
        index = BM25(*arguments, **options)
        sizes.append(len(index))
        return index

    build.load = BM25.load  # type: ignore[attr-defined]
    monkeypatch.setattr(documents, "BM25", build)
    return sizes


def words(text: str, language: str | None = None) -> list[str]:
    split = re.findall(r"[a-z0-9]+", text.lower())
    split += ["email"] * split.count("mail")  # of e-mail, which the texts index in both spellings
    stems = snowballstemmer.stemmer(language).stemWords(split) if language else split
    return [*stems, *chinese_words(text)]


def chinese_words(text: str) -> list[str]:
    """Its characters and all pairs of neighbours; a punctuation mark is no neighbour."""
    runs = re.findall("[\u4e00-\u9fff]+", text)
    return [run[i : i + n] for run in runs for n in (1, 2) for i in range(len(run) - n + 1)]


def lucene(
    texts: Sequence[str], query: str, k1: float = 1.2, b: float = 0.75, language: str | None = None
) -> list[float]:
    """The sum over the query's words of log(1 + (N - df + .5) / (df + .5)) tf / (tf + k1 (1 - b + b len / avglen))."""
    docs = [words(text, language) for text in texts]
    average = sum(map(len, docs)) / len(docs) if docs else 0
    scores = []
    for doc in docs:
        score = 0.0
        for word in words(query, language):
            df, tf = sum(word in other for other in docs), doc.count(word)
            if tf:
                weight = tf / (tf + k1 * (1 - b + b * len(doc) / average))
                score += log(1 + (len(docs) - df + 0.5) / (df + 0.5)) * weight
        scores.append(score)
    return scores


def ranked(store: BM25SDocumentStore, query: str, **options: Any) -> list[tuple[str, float]]:
    found = store.bm25_retrieval(query, **options)
    return [(document.id, float(document.score or 0)) for document in found]


def opened(path: Path | None, **options: Any) -> AbstractContextManager[BM25SDocumentStore]:
    return closing(BM25SDocumentStore(path, **options))


# --- Haystack's contract ----------------------------------------------------------------------------------------------


class TestContract(
    suite.DocumentStoreBaseExtendedTests,
    suite.CountDocumentsByFilterTest,
    suite.CountUniqueMetadataByFilterTest,
    suite.GetMetadataFieldsInfoTest,
    suite.GetMetadataFieldMinMaxTest,
    suite.GetMetadataFieldUniqueValuesTest,
):
    @pytest.fixture(params=KINDS)
    def document_store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BM25SDocumentStore]:
        """The suite brings a fixture of this name, which hides that of the module."""
        yield from new_store(request.param, tmp_path)

    def test_write_documents(self, document_store: BM25SDocumentStore) -> None:  # type: ignore[override]
        """Without a policy, a duplicate is an error, as in InMemoryDocumentStore."""
        assert document_store.write_documents(DOCUMENTS) == len(DOCUMENTS)
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents(DOCUMENTS[:1])


class TestAsyncContract(
    async_suite.CountDocumentsAsyncTest,
    async_suite.CountDocumentsByFilterAsyncTest,
    async_suite.CountUniqueMetadataByFilterAsyncTest,
    async_suite.DeleteAllAsyncTest,
    async_suite.DeleteByFilterAsyncTest,
    async_suite.DeleteDocumentsAsyncTest,
    async_suite.FilterDocumentsAsyncTest,
    async_suite.GetMetadataFieldMinMaxAsyncTest,
    async_suite.GetMetadataFieldsInfoAsyncTest,
    async_suite.GetMetadataFieldUniqueValuesAsyncTest,
    async_suite.UpdateByFilterAsyncTest,
    async_suite.WriteDocumentsAsyncTest,
):
    async def test_write_documents_async(self, document_store: BM25SDocumentStore) -> None:  # type: ignore[override]
        assert await document_store.write_documents_async(DOCUMENTS) == len(DOCUMENTS)
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async(DOCUMENTS[:1])


def test_every_class_of_the_suites_is_used() -> None:
    """So that a later Haystack's new class is noticed."""
    for module, used in ((suite, TestContract), (async_suite, TestAsyncContract)):
        names = {name for name in vars(module) if re.fullmatch(r"\w+Test", name)}
        assert names
        assert names <= {base.__name__ for base in used.__mro__}


# --- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [DuplicatePolicy.NONE, DuplicatePolicy.FAIL])
def test_a_refused_batch_leaves_no_trace(store: BM25SDocumentStore, policy: DuplicatePolicy) -> None:
    new, twice = Document(id="new", content="parcel"), Document(id="new", content="again")
    for batch in ([new, DOCUMENTS[0]], [new, twice], [new, "text"], [new, Document(id="bad", content="\ud800")]):
        with pytest.raises((DuplicateDocumentError, ValueError)):
            store.write_documents(batch, policy)  # type: ignore[arg-type]
        assert store.filter_documents() == DOCUMENTS


def test_a_policy_by_its_name(document_store: BM25SDocumentStore) -> None:
    """As people write it; another text is not taken for no policy."""
    batch = [Document(id="1", content="first"), Document(id="1", content="second")]
    assert document_store.write_documents(batch, "skip") == 1  # type: ignore[arg-type]
    with refused("sometimes", by=ValueError):
        document_store.write_documents(batch, "sometimes")  # type: ignore[arg-type]


@pytest.mark.parametrize(("policy", "count", "kept"), [("SKIP", 1, "first"), ("OVERWRITE", 2, "second")])
def test_duplicates_within_a_batch(document_store: BM25SDocumentStore, policy: str, count: int, kept: str) -> None:
    batch = [Document(id="1", content="first"), Document(id="1", content="second")]
    assert document_store.write_documents(batch, DuplicatePolicy[policy]) == count
    assert [document.content for document in document_store.filter_documents()] == [kept]


def test_whole_documents_come_back(document_store: BM25SDocumentStore) -> None:
    from haystack.dataclasses import ByteStream, SparseEmbedding

    document = Document(
        id="Ünï\0",
        content="保险 parcel\0",
        blob=ByteStream(b"\x00\xff", meta={"a": 1}, mime_type="x/y"),
        meta={"nested": {"list": [1, 2.5, None, True]}, "content": "a meta field of that name"},
        score=0.25,
        embedding=[0.1, 1e-30],
        sparse_embedding=SparseEmbedding([1, 5], [0.1, 0.2]),
    )
    document_store.write_documents([document])
    assert document_store.filter_documents() == [document]
    [found] = document_store.bm25_retrieval("保险")
    assert found.score != document.score
    assert found.embedding is None, "only who asks for an embedding waits for it to be read"
    embedding = document.embedding
    assert replace(found, score=document.score, meta=of_the_writer(found), embedding=embedding) == document


def of_the_writer(document: Document) -> dict[str, Any]:
    """The meta without what retrieval adds."""
    return {name: value for name, value in document.meta.items() if name not in ADDED}


def test_documents_are_copied_in_and_out(store: BM25SDocumentStore) -> None:
    mine = Document(id="mine", content="helmet", meta={"list": [1]})
    store.write_documents([mine])
    mine.meta["list"].append(2)
    for found in (store.bm25_retrieval("helmet"), store.filter_documents({**EVEN, "value": None})):
        assert [of_the_writer(document) for document in found] == [{"list": [1]}]
        found[0].meta["list"].append(3)
    changes = {"tags": ["x"]}
    assert store.update_by_filter({"field": "id", "operator": "==", "value": "mine"}, changes) == 1
    changes["tags"].append("y")
    assert of_the_writer(store.bm25_retrieval("helmet")[0]) == {"list": [1], "tags": ["x"]}
    assert mine.meta == {"list": [1, 2]}
    assert mine.score is None


@pytest.mark.parametrize("filters", [{}, None, {"meta.even": True}])
def test_documents_are_not_all_deleted_or_updated_by_mistake(store: BM25SDocumentStore, filters: Any) -> None:
    for change in (store.delete_by_filter, lambda filters: store.update_by_filter(filters, {"x": 1})):
        with pytest.raises((FilterError, TypeError)):
            change(filters)
    assert store.filter_documents() == DOCUMENTS


def test_meta_that_json_cannot_hold(tmp_path: Path) -> None:
    document = Document(id="late", content="x", meta={"where": Path("x")})
    with opened(tmp_path) as store:
        store.write_documents(DOCUMENTS)
        with refused("late … PosixPath"):
            store.write_documents([Document(id="early", content="y"), document])
        assert store.filter_documents() == DOCUMENTS
    memory = BM25SDocumentStore()
    memory.write_documents([document])
    assert memory.filter_documents() == [document]


# --- finding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [QUERY, "parcel PARCEL refund", "the", "my, the: frame!"])
@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.0, 1.0), (2.0, 0.0)])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_lucenes(query: str, k1: float, b: float, kind: str, tmp_path: Path) -> None:
    with opened(None if kind == "memory" else tmp_path, k1=k1, b=b) as store:
        store.write_documents(DOCUMENTS)
        found = dict(ranked(store, query))
    expected = {str(i): score for i, score in enumerate(lucene(TEXTS, query, k1, b)) if score}
    assert expected
    assert found == pytest.approx(expected, abs=1e-5)
    assert list(found) == sorted(found, key=lambda name: -found[name])
    assert all(type(score) is float for score in found.values())


FORMS = ["Parcels are tracked.", "Track the parcel: tracking!", "Your refunds", "refunding refunds", "We track."]


@pytest.mark.parametrize("query", ["a tracked parcel", "refund", "tracks PARCELS parcel"])
@pytest.mark.parametrize("language", ["english", "porter", "german"])
@pytest.mark.parametrize("kind", KINDS)
def test_stemmed_scores_are_lucenes_over_the_stems(query: str, language: str, kind: str, tmp_path: Path) -> None:
    texts = [*FORMS, *TEXTS]
    with opened(None if kind == "memory" else tmp_path, language=language) as store:
        store.write_documents([Document(id=str(i), content=text) for i, text in enumerate(texts)])
        found = store.bm25_retrieval(query, top_k=100)
        store.close()
        again = store.bm25_retrieval(query, top_k=100)  # from the saved index, if there is one
    expected = {str(i): score for i, score in enumerate(lucene(texts, query, language=language)) if score}
    assert expected
    assert {document.id: document.score for document in found} == pytest.approx(expected, abs=1e-5)
    assert again == found
    assert {document.meta["ap_ranker"]["bm25_language"] for document in found} == {language}


@pytest.mark.parametrize("query", ["包裹", "我的包裹在哪里?", "退款；包"])
def test_chinese_scores_are_lucenes_over_characters_and_pairs(query: str) -> None:
    texts = ["我的包裹在哪里？", "如何退款。", "包装里裹着东西", "哪里退款？退款，退货"]
    with opened(None) as store:
        store.write_documents([Document(id=str(i), content=text) for i, text in enumerate(texts)])
        found = dict(ranked(store, query))
    assert found == pytest.approx({str(i): score for i, score in enumerate(lucene(texts, query)) if score}, abs=1e-5)


@pytest.mark.parametrize("query", ["ＰＡＲＣＥＬ　１２", "Grüße", unicodedata.normalize("NFD", "grüße"), "ﬁx"])
def test_words_that_look_alike_are_the_same(query: str) -> None:
    with opened(None) as store:
        store.write_documents([Document(content="parcel 12"), Document(content="Grüße"), Document(content="fix it")])
        store.write_documents([Document(content="nothing of it")])
        assert len(ranked(store, query)) == 1


def test_parcels_finds_parcel_only_with_a_stemmer() -> None:
    for language, expected in ((None, ["0"]), ("english", ["0", "1"])):
        store = BM25SDocumentStore(language=language)
        store.write_documents([Document(id=str(i), content=text) for i, text in enumerate(FORMS)])
        assert sorted(name for name, _ in ranked(store, "parcels")) == expected


def test_scores_are_the_baselines(store: BM25SDocumentStore) -> None:
    scores = BM25(TEXTS).scores(QUERY)
    assert dict(ranked(store, QUERY)) == {str(i): score for i, score in enumerate(scores.tolist()) if score}


def test_what_is_found_is_what_the_in_memory_store_finds(document_store: BM25SDocumentStore) -> None:
    everything = [*DOCUMENTS, Document(id="empty", content=""), Document(id="none", content=None)]
    other = InMemoryDocumentStore()
    for store in (document_store, other):
        store.write_documents(everything)
    if len(other.bm25_retrieval("refund")) > 1:  # only one text has the word
        pytest.skip("the in-memory store of this Haystack returns documents that share no word, too")
    for query in (QUERY, "unknownword", "?!", "refund"):
        for filters in (None, EVEN):
            found, expected = (s.bm25_retrieval(query, filters=filters) for s in (document_store, other))
            assert {document.id for document in found} == {document.id for document in expected}


def test_documents_without_content_do_not_count(document_store: BM25SDocumentStore) -> None:
    document_store.write_documents([Document(id="before", content=None), *DOCUMENTS, Document(id="after")])
    assert dict(ranked(document_store, QUERY)) == dict(ranked_alone(DOCUMENTS, QUERY))


def ranked_alone(some: list[Document], query: str) -> list[tuple[str, float]]:
    store = BM25SDocumentStore()
    store.write_documents(some)
    return ranked(store, query)


@pytest.mark.parametrize("content", [None, "", "?!"])
def test_without_any_word_nothing_is_found(document_store: BM25SDocumentStore, content: str | None) -> None:
    assert document_store.bm25_retrieval("parcel") == []
    document_store.write_documents([Document(content=content)])
    assert document_store.bm25_retrieval("parcel") == []
    assert document_store.bm25_retrieval("?!") == []


def test_equal_scores_keep_the_order_of_writing(document_store: BM25SDocumentStore) -> None:
    document_store.write_documents([Document(id=str(i), content="same " * (i % 3 + 1)) for i in range(300)])
    everything = ranked(document_store, "same", top_k=1000)
    assert (len(everything), len({score for _, score in everything})) == (300, 3)
    assert everything == sorted(everything, key=lambda pair: (-pair[1], int(pair[0])))
    for top_k in (1, 7, 100, 150, 299, 300):
        assert ranked(document_store, "same", top_k=top_k) == everything[:top_k]


def test_filters_come_before_top_k(document_store: BM25SDocumentStore) -> None:
    """The best of a rare kind are found, however many better ones there are; their scores stay."""
    some = [
        Document(id=f"{i:04}", content="parcel " * (i % 7 + 1) + "x", meta={"rare": i % 400 == 3}) for i in range(900)
    ]
    document_store.write_documents(some)
    rare = {"field": "meta.rare", "operator": "==", "value": True}
    everything = ranked(document_store, "parcel", top_k=900)
    expected = [(name, score) for name, score in everything if int(name) % 400 == 3]
    assert len(expected) == 3
    assert ranked(document_store, "parcel", filters=rare, top_k=10) == expected
    assert ranked(document_store, "parcel", filters=rare, top_k=2) == expected[:2]
    with pytest.raises(FilterError):
        document_store.bm25_retrieval("parcel", filters={"operator": "AND"})


def test_top_k_is_the_head_of_the_whole_ranking(store: BM25SDocumentStore) -> None:
    everything = ranked(store, "the parcel where is my refund", top_k=99)
    assert len(everything) > 3
    for top_k in range(7):
        assert ranked(store, "the parcel where is my refund", top_k=top_k) == everything[:top_k]


NAMES = [first + second for first in "abcdefgh" for second in "klmnopqr"]


def test_the_index_is_built_once_after_writing(document_store: BM25SDocumentStore, built: list[int]) -> None:
    for start in range(0, 50, 5):
        document_store.write_documents([Document(id=str(i), content=NAMES[i]) for i in range(start, start + 5)])
    assert built == []
    for i in range(50):
        assert [name for name, _ in ranked(document_store, NAMES[i])] == [str(i)]
    document_store.delete_documents(["unknown"])
    assert len(ranked(document_store, f"{NAMES[1]} {NAMES[2]}")) == 2
    assert built == [50]
    document_store.delete_documents(["1"])
    assert len(ranked(document_store, f"{NAMES[1]} {NAMES[2]}")) == 1
    document_store.delete_all_documents()
    assert ranked(document_store, NAMES[2]) == []
    assert built == [50, 49, 0]


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(list(DuplicatePolicy)),
            st.lists(
                st.tuples(
                    st.sampled_from("pqrst"), st.none() | st.lists(st.sampled_from("abcd?"), max_size=5).map(" ".join)
                ),
                max_size=5,
            ),
        ),
        st.tuples(st.just("delete"), st.lists(st.sampled_from("pqrstx"), max_size=3)),
        st.tuples(st.sampled_from(["query", "reopen", "clear"]), st.sampled_from(["a b", "c c d", "?"])),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", KINDS)
@given(operations=OPERATIONS)
@settings(max_examples=60, deadline=None)
def test_any_sequence_of_operations_is_that_on_a_dictionary(kind: str, operations: list[tuple[Any, Any]]) -> None:
    model: dict[str, str | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = BM25SDocumentStore(None if kind == "memory" else folder)
        for name, value in [*operations, ("query", "a b c")]:
            if name == "delete":
                store.delete_documents(value)
                for key in value:
                    model.pop(key, None)
            elif name == "clear":
                store.delete_all_documents()
                model.clear()
            elif name == "reopen":
                store.close()
            elif name == "query":
                check_query(store, model, value)
            else:
                check_write(store, model, value, name)
            assert [(d.id, d.content) for d in store.filter_documents()] == list(model.items())
            assert store.count_documents() == len(model)
        store.close()


def check_query(store: BM25SDocumentStore, model: dict[str, str | None], query: str) -> None:
    texts = {key: text for key, text in model.items() if text is not None}
    expected = {key: score for key, score in zip(texts, lucene(list(texts.values()), query), strict=True) if score}
    found = ranked(store, query)
    assert dict(found) == pytest.approx(expected, abs=1e-5)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def check_write(
    store: BM25SDocumentStore,
    model: dict[str, str | None],
    batch: list[tuple[str, str | None]],
    policy: DuplicatePolicy,
) -> None:
    some = [Document(id=key, content=text) for key, text in batch]
    keys = [key for key, _ in batch]
    if policy == DuplicatePolicy.OVERWRITE:
        assert store.write_documents(some, policy) == len(some)
        for key, text in batch:
            model.pop(key, None)
            model[key] = text
    elif policy == DuplicatePolicy.SKIP:
        new = set(keys) - set(model)
        assert store.write_documents(some, policy) == len(new)
        for key, text in batch:
            model.setdefault(key, text)
    elif len(set(keys)) < len(keys) or set(keys) & set(model):
        with pytest.raises(DuplicateDocumentError):
            store.write_documents(some, policy)
    else:
        assert store.write_documents(some, policy) == len(some)
        model.update(batch)


def test_threads_never_see_half_a_write(document_store: BM25SDocumentStore) -> None:
    """Batches of 5 that share a word: whoever asks finds a multiple of 5, each time at least as many."""
    done = threading.Event()

    def write(number: int) -> None:
        for batch in range(10):
            names = (f"{number}-{batch}-{i}" for i in range(5))
            document_store.write_documents([Document(id=name, content=f"shared {name}") for name in names])

    def ask() -> list[int]:
        counts = []
        while not done.is_set():
            counts.append(len(document_store.bm25_retrieval("shared", top_k=1000)))
        return counts

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask) for _ in range(2)]
        try:
            for written in [pool.submit(write, number) for number in range(2)]:
                written.result()
        finally:
            done.set()
    counts = [task.result() for task in asked]
    assert all(count % 5 == 0 for some in counts for count in some)
    assert all(some == sorted(some) for some in counts)
    assert len(document_store.bm25_retrieval("shared", top_k=1000)) == 100


# --- a folder ---------------------------------------------------------------------------------------------------------


def test_a_new_process_finds_the_same(saved: Path) -> None:
    program = """
import json, sys
from haystack import Pipeline
retriever = Pipeline.load(open(sys.argv[1])).get_component("retriever")
print(json.dumps([(d.id, d.score, d.content, d.meta) for d in retriever.run(query=sys.argv[2])["documents"]]))
"""
    with opened(saved) as store:
        pipeline = Pipeline()
        pipeline.add_component("retriever", BM25SRetriever(store))
        (saved.parent / "pipeline.yaml").write_text(pipeline.dumps())
        found = store.bm25_retrieval(QUERY)
    result = forked.run(program, saved.parent / "pipeline.yaml", QUERY)
    assert result.returncode == 0, result.stderr
    assert found
    assert json.loads(result.stdout) == [[d.id, d.score, d.content, d.meta] for d in found]


def test_a_saved_index_is_mapped_not_built(saved: Path, built: list[int]) -> None:
    with opened(saved) as store:
        assert dict(ranked(store, QUERY)) == dict(ranked_alone(DOCUMENTS, QUERY))
        index = store.computed(store._words)
        assert index.scorer._index is not None
        arrays = [index.rows, *(index.scorer._index.scores[name] for name in ("data", "indices", "indptr"))]
        assert all(isinstance(array, np.memmap) for array in arrays)
    assert built == [len(DOCUMENTS)]  # by `ranked_alone`


def test_stores_of_one_folder_see_each_others_writes(tmp_path: Path) -> None:
    with opened(tmp_path / "deep" / "s") as first, opened(tmp_path / "deep" / "s", k1=0.5) as second:
        for store, other in ((first, second), (second, first)):
            name = f"k{store.k1}"
            store.write_documents([Document(id=name, content=f"parcel {name}")])
            assert name in dict(ranked(other, "parcel"))
            assert dict(ranked(store, "parcel")) != dict(ranked(other, "parcel"))  # each with its own k1
        first.write_documents([Document(id="last", content="parcel")])
        assert len(ranked(first, "parcel")) == len(ranked(second, "parcel")) == 3
    assert len(list((tmp_path / "deep" / "s").iterdir())) == 3  # the database and two indexes; old ones are gone


def test_a_saved_index_is_not_used_for_another_language(tmp_path: Path, built: list[int]) -> None:
    languages = (None, "english", "german")
    with opened(tmp_path / "s") as store:
        store.write_documents([Document(id=str(i), content=text) for i, text in enumerate(FORMS)])
    found = {}
    for times in (1, 2):  # the second time, each has its saved index
        for language in languages:
            with opened(tmp_path / "s", language=language) as store:
                found[language] = dict(ranked(store, "tracked parcels"))
            expected = enumerate(lucene(FORMS, "tracked parcels", language=language))
            assert found[language] == pytest.approx({str(i): score for i, score in expected if score}, abs=1e-5)
        assert built == [len(FORMS)] * 3, times
    assert len(found[None]) < len(found["german"]) < len(found["english"])
    folders = sorted(re.sub("index-[0-9a-f]{16}-", "", path.name) for path in (tmp_path / "s").glob("index-*"))
    assert folders == [f"words4-1.2-0.75{language}" for language in ("", "-english", "-german")]
    with opened(tmp_path / "s", language="english") as store:
        store.write_documents([Document(content="another")])
        store.warm_up()
    assert len(list((tmp_path / "s").glob("index-*"))) == 1, "old ones are gone"


KILLED = killed_while(
    "put",
    """
store.write_documents([Document(id=f"new{i}", content=f"parcel {i} " * 500) for i in range(int(sys.argv[4]))])
store.bm25_retrieval("parcel")
""",
)


@pytest.mark.parametrize(
    ("place", "call"),
    [
        ("write", 600),
        ("arrays", 2),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("arrays", 4), ("rename", 1))),
    ],
)
def test_killed_in_the_middle(saved: Path, place: str, call: int) -> None:
    """Half a write leaves no trace, although half of it is in the file; half an index is never used."""
    database = saved / "documents.sqlite"
    before = database.stat().st_size
    size, kept = (600, 0) if place == "write" else (20, 20)
    result = forked.run(KILLED, saved, place, call, size)
    assert result.returncode == -9, result.stderr
    assert database.stat().st_size > before + 50_000
    assert any(path.name.endswith("-journal") or path.name.startswith(".index-") for path in saved.iterdir())
    with opened(saved) as store:
        assert store.filter_documents()[: len(DOCUMENTS)] == DOCUMENTS
        assert store.count_documents() == len(DOCUMENTS) + kept
        assert [document.id for document in store.bm25_retrieval("tracking link")] == ["1"]
        assert len(store.bm25_retrieval("parcel", top_k=2000)) == 2 + kept
        store.delete_all_documents()
        store.write_documents(DOCUMENTS)
        assert dict(ranked(store, QUERY)) == dict(ranked_alone(DOCUMENTS, QUERY))
    assert len(list(saved.iterdir())) == 2  # what the killed process left is gone


def foreign_file(folder: Path) -> None:
    folder.write_text("mine")


def foreign_folder(folder: Path) -> None:
    folder.mkdir()
    for number in range(9):
        (folder / f"{number}.txt").write_text("mine")


def other_database(folder: Path) -> None:
    folder.mkdir()
    connection = sqlite3.connect(folder / "documents.sqlite")
    connection.execute("CREATE TABLE documents (mine TEXT)")
    connection.close()


def no_database(folder: Path) -> None:
    folder.mkdir()
    (folder / "documents.sqlite").write_bytes(b"not a database, but long enough to have a header" * 50)


def test_a_process_that_changes_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a daemon does: the store stays where it is, and leaves nothing elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with closing(BM25SDocumentStore("store")) as store:
        store.write_documents([Document(content="a parcel")])
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert len(store.bm25_retrieval("parcel")) == 1
        store.close()
        assert store.count_documents() == 1
        assert store.to_dict()["init_parameters"]["path"] == "store"
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (foreign_file, "file"),
        (foreign_folder, "0.txt, 1.txt, 2.txt, 3.txt, 4.txt"),
        (other_database, "database"),
        (no_database, "database"),
    ],
)
def test_a_foreign_folder_is_left_alone(tmp_path: Path, make: Callable[[Path], None], facts: str) -> None:
    place = tmp_path / "place"
    make(place)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    store = BM25SDocumentStore(place)
    for use in (store.count_documents, lambda: store.write_documents(DOCUMENTS), lambda: store.bm25_retrieval("x")):
        with refused(f"{place} … {facts}"):
            use()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_later_format_is_refused(saved: Path) -> None:
    connection = sqlite3.connect(saved / "documents.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with refused("format 1 … format 99 … ap-ranker"):
        BM25SDocumentStore(saved).count_documents()


def test_damaged_documents_are_named(saved: Path) -> None:
    with opened(saved) as store:
        connection = sqlite3.connect(saved / "documents.sqlite")
        connection.execute("UPDATE documents SET rest = '{' WHERE id = '3'")
        connection.commit()
        connection.close()
        with refused("3"):
            store.filter_documents()
    with opened(saved) as store:
        store.write_documents([Document(id=str(i), content="parcel " * 200) for i in range(10, 200)])
    whole = (saved / "documents.sqlite").read_bytes()
    (saved / "documents.sqlite").write_bytes(whole[: len(whole) // 2])
    with opened(saved) as store, refused("documents.sqlite"):
        store.filter_documents()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def change_a_number(file: Path) -> None:
    """Each file and shape stays as it was."""
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("harm", [cut, change_a_number, Path.unlink])
def test_a_damaged_index_is_built_again(saved: Path, built: list[int], harm: Callable[[Path], None]) -> None:
    [index] = saved.glob("index-*")
    files = sorted(index.iterdir())
    assert len(files) == 7
    expected = dict(ranked_alone(DOCUMENTS, QUERY))
    for number, file in enumerate(files, start=1):
        built.clear()
        harm(file)
        for times in (1, 0):  # the second time, it is there
            with opened(saved) as store:
                assert dict(ranked(store, QUERY)) == expected
            assert len(built) == 1, (number, times)
    assert sorted(index.iterdir()) == files


def test_an_index_that_a_library_reads_no_more_is_built_again(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(folder: Path, language: str | None = None) -> BM25:
        raise KeyError("num_docs")

    monkeypatch.setattr(BM25, "load", load)
    with opened(saved) as store:
        assert dict(ranked(store, QUERY)) == dict(ranked_alone(DOCUMENTS, QUERY))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE documents SET content = x'ff00'",  # bytes where there should be text
        "UPDATE documents SET content = CAST(x'ff00' AS TEXT)",  # text that is not UTF-8
        "UPDATE documents SET rest = '" + '{"a":' * 5_000 + "'",
        "UPDATE documents SET rest = '[]'",
        "UPDATE state SET revision = '../../outside'",  # names a folder
    ],
)
def test_what_another_program_wrote_into_the_database_is_one_message(saved: Path, statement: str) -> None:
    connection = sqlite3.connect(saved / "documents.sqlite")
    connection.execute(statement)
    connection.commit()
    connection.close()
    before = sorted(saved.parent.iterdir())
    with opened(saved) as store, pytest.raises(InputError) as error:
        store.bm25_retrieval(QUERY)
        store.filter_documents()
    assert len(str(error.value)) < 1000
    assert sorted(saved.parent.iterdir()) == before


class Pickled:
    """Proof of its own loading: the file that it writes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (self.path, "loaded")


@pytest.mark.parametrize("name", ["rows.npy", "data.csc.index.npy"])
def test_pickled_arrays_are_never_read(saved: Path, name: str) -> None:
    [index] = saved.glob("index-*")
    np.save(index / name, np.array([Pickled(saved.parent / "proof")]), allow_pickle=True)
    np.load(index / name, allow_pickle=True)  # the trap works
    (saved.parent / "proof").unlink()
    (index / DIGEST).write_text(_digest(index))
    with opened(saved) as store:
        assert dict(ranked(store, QUERY)) == dict(ranked_alone(DOCUMENTS, QUERY))
    assert not (saved.parent / "proof").exists()


# --- construction -----------------------------------------------------------------------------------------------------

STORE = "haystack_integrations.document_stores.ap_ranker.bm25s.BM25SDocumentStore"
RETRIEVER = "haystack_integrations.components.retrievers.ap_ranker.bm25s.BM25SRetriever"
DEFAULTS = {
    "path": None,
    "k1": 1.2,
    "b": 0.75,
    "language": None,
    "documents": None,
    "match": "both",
    "synonyms": None,
    "index": None,
}


def test_store_to_and_from_dict(tmp_path: Path) -> None:
    default = {"type": STORE, "init_parameters": DEFAULTS | {"index": "a"}}
    assert BM25SDocumentStore(index="a").to_dict() == default
    settings = {"path": str(tmp_path / "s"), "k1": 0.9, "b": 0.4, "language": "english"}
    data = {"type": STORE, "init_parameters": DEFAULTS | settings}
    store = BM25SDocumentStore.from_dict(data)
    assert (store.path, store.k1, store.b, store.language) == (str(tmp_path / "s"), 0.9, 0.4, "english")
    assert BM25SDocumentStore(tmp_path / "s", 0.9, 0.4, "english").to_dict() == store.to_dict() == data
    assert pickle.loads(pickle.dumps(store)).to_dict() == deepcopy(store).to_dict() == data
    earlier = {"type": STORE, "init_parameters": {"path": None, "k1": 1.2, "b": 0.75, "index": "a"}}
    assert BM25SDocumentStore.from_dict(earlier).to_dict() == default
    assert not (tmp_path / "s").exists()  # nothing happens before the first use


def test_a_store_of_a_file(faq: Path) -> None:
    """It reads the file at the first use, once; what a program adds is there, too, in copies as well."""
    store = BM25SDocumentStore(documents=faq.name)
    with refused(f"{faq.name}"):
        store.count_documents()
    store = BM25SDocumentStore(documents=faq, language="english")
    unread = deepcopy(store)
    assert [d.meta["answer"] for d in store.bm25_retrieval("any batteries")] == [TEXTS[5]]
    assert BM25SDocumentStore(documents=faq, match="answer").filter_documents()[0].content == TEXTS[1]
    store.write_documents([Document(content="zebra")])
    faq.unlink()
    for same in (store, deepcopy(store), pickle.loads(pickle.dumps(store))):
        assert same.count_documents() == 4
        assert (same.documents, same.language) == (unread.documents, unread.language)
        same.delete_all_documents()
        assert same.count_documents() == 0
    with refused(f"{faq}"):
        unread.count_documents()


def test_a_store_of_a_folder_of_documents(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Returns\n\nWithin 30 days.\n")
    (tmp_path / "b.csv").write_text("question,answer\nWhere is it?,On its way.\nWhere is it?,On its way.\n")
    store = BM25SDocumentStore(documents=tmp_path)
    assert [document.meta.get("title") for document in store.bm25_retrieval("30 days")] == ["Returns"]
    assert store.count_documents() == 2


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"path": "index", "documents": "FAQ.csv"}, "index … FAQ.csv"),
        ({"k1": -0.1}, "k1 … 0 … -0.1"),
        ({"k1": float("nan")}, "k1 … nan"),
        ({"b": 1.1}, "b … 0 … 1 … 1.1"),
        ({"language": "englisch"}, "language … 'englisch' … 'english'"),
    ],
)
def test_store_parameters_are_checked(options: dict[str, Any], facts: str) -> None:
    with refused(facts):
        BM25SDocumentStore(**options)


def test_re_exports_are_the_same_classes() -> None:
    assert ap_ranker.BM25SDocumentStore is BM25SDocumentStore
    assert ap_ranker.BM25SRetriever is BM25SRetriever


def test_retriever_arguments_are_those_of_the_in_memory_one() -> None:
    """A drop-in: the same names, order and defaults; what only ours has comes last."""
    from inspect import signature

    for name in ("__init__", "run", "run_async"):
        ours, theirs = (signature(getattr(kind, name)).parameters for kind in (BM25SRetriever, InMemoryBM25Retriever))
        found, expected = ([(p.name, p.default, p.kind) for p in each.values()] for each in (ours, theirs))
        assert found[: len(expected)] == expected
        assert [name for name, _, _ in found[len(expected) :]] == (["wordings"] if name == "__init__" else [])


def test_retriever_to_and_from_dict() -> None:
    data = {
        "type": RETRIEVER,
        "init_parameters": {
            "document_store": {
                "type": STORE,
                "init_parameters": DEFAULTS | {"k1": 1.5, "language": "english", "index": "a"},
            },
            "filters": EVEN,
            "top_k": 3,
            "scale_score": True,
            "filter_policy": "merge",
            "wordings": ["more.csv"],
        },
    }
    retriever = BM25SRetriever(
        BM25SDocumentStore(k1=1.5, language="english", index="a"), EVEN, 3, True, FilterPolicy.MERGE, "more.csv"
    )
    assert retriever.to_dict() == data
    again = BM25SRetriever.from_dict(data)
    assert again.to_dict() == data
    assert again.filter_policy is FilterPolicy.MERGE
    assert again.document_store.k1 == 1.5
    store = {"type": STORE, "init_parameters": {"index": "a"}}
    short = BM25SRetriever.from_dict({"type": RETRIEVER, "init_parameters": {"document_store": store}})
    assert short.to_dict() == BM25SRetriever(BM25SDocumentStore(index="a")).to_dict()


def test_retriever_refuses_another_store_and_an_empty_result() -> None:
    with refused("document_store … BM25SDocumentStore … InMemoryDocumentStore"):
        BM25SRetriever(InMemoryDocumentStore())  # type: ignore[arg-type]
    for top_k in (0, -2):
        with refused(f"top_k … 1 … {top_k}", by=ValueError):
            BM25SRetriever(BM25SDocumentStore(), top_k=top_k)


# --- the retriever at work --------------------------------------------------------------------------------------------


def test_run(store: BM25SDocumentStore) -> None:
    retriever = BM25SRetriever(store, top_k=2)
    everything = store.bm25_retrieval(QUERY)
    assert len(everything) > 2
    assert retriever.run(query=QUERY) == {"documents": everything[:2]}
    assert retriever.run(query=QUERY, top_k=9) == {"documents": everything}
    assert retriever.run(query=QUERY, top_k=0) == {"documents": []}
    with refused("top_k … 0 … -1", by=ValueError):
        retriever.run(query=QUERY, top_k=-1)
    with refused("Query", by=ValueError):
        retriever.run(query="")


def test_scaled_scores(store: BM25SDocumentStore) -> None:
    raw = store.bm25_retrieval(QUERY)
    scaled = [1 / (1 + exp(-(document.score or 0) / 8)) for document in raw]
    on, off = (BM25SRetriever(store, scale_score=value) for value in (True, False))
    for found in (on.run(query=QUERY), off.run(query=QUERY, scale_score=True)):
        assert [document.id for document in found["documents"]] == [document.id for document in raw]
        assert [document.score for document in found["documents"]] == pytest.approx(scaled)
    assert on.run(query=QUERY, scale_score=False) == {"documents": raw}


def test_filter_policies(store: BM25SDocumentStore) -> None:
    not_the_first = {"field": "id", "operator": "!=", "value": "0"}
    query = "the parcel where is my battery"

    def found(policy: FilterPolicy, filters: dict[str, Any] | None) -> set[str]:
        retriever = BM25SRetriever(store, filters=EVEN, filter_policy=policy)
        return {document.id for document in retriever.run(query=query, filters=filters)["documents"]}

    for policy in FilterPolicy:
        assert found(policy, None) == {"0", "2", "4"}
    assert found(FilterPolicy.REPLACE, not_the_first) == {"1", "2", "3", "4", "5"}
    assert found(FilterPolicy.MERGE, not_the_first) == {"2", "4"}


def test_in_pipelines_that_share_a_folder(tmp_path: Path) -> None:
    """One writes, one asks; each with a store of its own, from YAML."""
    indexing, asking = Pipeline(), Pipeline()
    indexing.add_component("writer", DocumentWriter(BM25SDocumentStore(tmp_path / "s")))
    asking.add_component("retriever", BM25SRetriever(BM25SDocumentStore(tmp_path / "s")))
    indexing, asking = (Pipeline.loads(pipeline.dumps()) for pipeline in (indexing, asking))
    assert indexing.run({"writer": {"documents": DOCUMENTS}}) == {"writer": {"documents_written": len(DOCUMENTS)}}
    found = asking.run({"retriever": {"query": "tracking link"}})["retriever"]["documents"]
    assert [document.id for document in found] == ["1"]
    indexing.close()
    asking.close()
    assert asking.run({"retriever": {"query": "tracking link"}})["retriever"]["documents"] == found
    asking.close()
