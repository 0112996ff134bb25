"""The union of both legs is what each of them finds alone, with the scores of both, and needs one encoding."""

from __future__ import annotations

import asyncio
import copy
import json
import math
import pickle
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import yaml
from conftest import ROOT, TEXTS, settings_of, write_checkpoint
from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.core.serialization import component_from_dict, component_to_dict
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.utils import ComponentDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from typer.testing import CliRunner

import ap_ranker
from ap_ranker.cli.main import app
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.ranking import state_store
from ap_ranker.ranking.checkpoint import read_checkpoint_config
from ap_ranker.ranking.fingerprint import fingerprint
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import BM25Scores, BM25SRetriever, HybridRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore, stored_documents

CPU = ComponentDevice.from_str("cpu")
QUERY = "Where is my parcel?"
DOCUMENTS = [Document(id=str(i), content=text, meta={"even": i % 2 == 0}) for i, text in enumerate(TEXTS)]
EVEN = {"field": "meta.even", "operator": "==", "value": True}


@pytest.fixture(scope="module")
def bi_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("qa-cnn", tmp_path_factory.mktemp("checkpoints") / "qa-cnn")


@pytest.fixture(scope="module")
def retrained(bi_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another checkpoint, with vectors of another size."""
    options = read_checkpoint_config(bi_encoder).options
    folder = tmp_path_factory.mktemp("checkpoints") / "retrained"
    return write_checkpoint("qa-cnn", folder, {**options, "filters": options["filters"] + 1})


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BM25SDocumentStore]:
    with closing(BM25SDocumentStore(None if request.param == "memory" else tmp_path / "store")) as made:
        made.write_documents(DOCUMENTS)
        yield made


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The numbers of texts that were encoded during a test, call by call."""
    calls: dict[str, list[int]] = {"encode_questions": [], "embed_answers": []}

    def count(name: str) -> None:
        original = getattr(Ranker, name)

        def counted(self: Ranker, texts: Any, *options: Any) -> Any:
            calls[name].append(len(texts))
            return original(self, texts, *options)

        monkeypatch.setattr(Ranker, name, counted)

    for name in calls:
        count(name)
    return calls


def hybrid(store: BM25SDocumentStore, model: Path, **options: Any) -> HybridRetriever:
    return HybridRetriever(store, model=model, device=CPU, **options)


# --- the union --------------------------------------------------------------------------------------------------------

WORDS = "abcd"
VECTORS = st.lists(st.integers(-3, 3), min_size=3, max_size=3)
STORED = st.lists(
    st.tuples(
        st.none() | st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), st.none() | VECTORS, st.booleans()
    ),
    max_size=14,
)


@pytest.mark.parametrize("kind", ["memory", "folder"])
@given(
    stored=STORED,
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
    vector=VECTORS,
    top_k=st.integers(0, 6),
    rank_all=st.integers(0, 20),
    filtered=st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_the_union_is_that_of_both_legs(
    kind: str,
    tmp_path_factory: pytest.TempPathFactory,
    stored: list[tuple[str | None, list[int] | None, bool]],
    query: str,
    vector: list[int],
    top_k: int,
    rank_all: int,
    filtered: bool,
) -> None:
    store = BM25SDocumentStore(None if kind == "memory" else tmp_path_factory.mktemp("store"))
    documents = [
        Document(
            id=str(i), content=text, embedding=None if numbers is None else list(map(float, numbers)), meta={"m": m}
        )
        for i, (text, numbers, m) in enumerate(stored)
    ]
    store.write_documents(documents)
    filters = {"field": "meta.m", "operator": "==", "value": True} if filtered else None
    embedding = list(map(float, vector))
    [by_both] = store.find_for_each([query], [embedding], filters, top_k, rank_all=rank_all, wordings=[None])
    found = by_both.copies()

    by_words = {d.id: d for d in store.bm25_retrieval(query, top_k=99)}
    by_meaning = {d.id: d for d in store.embedding_retrieval(embedding, top_k=99)}
    legs = [store.bm25_retrieval(query, filters, top_k), store.embedding_retrieval(embedding, filters, top_k)]
    expected = {document.id for leg in legs for document in leg}
    findable = [d for d in documents if d.content is not None or d.embedding is not None]
    if len(findable) <= rank_all:
        expected = {d.id for d in findable if d.meta["m"] or not filtered}
    assert {document.id for document in found} == expected
    assert len(found) == len(expected)
    ranks = [{d.id: rank for rank, d in enumerate(leg, start=1)} for leg in legs]
    for document in found:
        meta = document.meta
        assert meta["ap_ranker"]["bm25_score"] == (by_words[document.id].score if document.id in by_words else 0.0)
        assert meta["ap_ranker"]["embedding_score"] == (
            by_meaning[document.id].score if document.id in by_meaning else None
        )
        assert (meta["ap_ranker"]["bm25_rank"], meta["ap_ranker"]["embedding_rank"]) == tuple(
            rank.get(document.id) for rank in ranks
        )
        assert document.score == meta["ap_ranker"]["embedding_score"]
        assert document.embedding is None
    order = [-math.inf if d.score is None else d.score for d in found]
    assert order == sorted(order, reverse=True)
    if vector != [0, 0, 0]:
        for document in found:
            numbers = stored[int(document.id)][1]
            if numbers is not None and any(numbers):
                cosine = np.dot(numbers, vector) / np.linalg.norm(numbers) / np.linalg.norm(vector)
                assert document.score == pytest.approx(cosine, abs=0.02)
    store.close()


def test_run(store: BM25SDocumentStore, bi_encoder: Path) -> None:
    """Against a brute force of both scores."""
    ranker = Ranker.from_pretrained(bi_encoder, "cpu")
    cosines = ranker.embed_answers(TEXTS) @ ranker.embed_questions([QUERY])[0]
    words = {d.id: d.meta["ap_ranker"]["bm25_score"] for d in BM25SRetriever(store).run(query=QUERY)["documents"]}
    found = hybrid(store, bi_encoder).run(query=QUERY)["documents"]
    assert {d.id for d in found} == {d.id for d in DOCUMENTS}
    for document in found:
        assert document.score == pytest.approx(cosines[int(document.id)].item(), abs=0.02)
        assert document.meta["ap_ranker"]["bm25_score"] == words.get(document.id, 0.0)
        assert document.meta["embedded_by"] == fingerprint(bi_encoder)
    assert sorted(d.meta["ap_ranker"]["embedding_rank"] for d in found) == [1, 2, 3, 4, 5, 6]
    assert any(d.meta["ap_ranker"]["bm25_rank"] is None for d in found)
    few = hybrid(store, bi_encoder, top_k=1, rank_all=0).run(query=QUERY)["documents"]
    assert len(few) in (1, 2)
    assert hybrid(store, bi_encoder, rank_all=0).run(query=QUERY, top_k=0) == {"documents": []}
    for policy in FilterPolicy:
        narrow = hybrid(store, bi_encoder, filters=EVEN, filter_policy=policy)
        assert {d.id for d in narrow.run(query=QUERY)["documents"]} == {"0", "2", "4"}


def test_a_question_is_encoded_once(store: BM25SDocumentStore, bi_encoder: Path, encoded: dict[str, list[int]]) -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", hybrid(store, bi_encoder, query_prefix="q: "))
    pipeline.add_component("ranker", AnswerRanker(model=bi_encoder, device=CPU, query_prefix="q: "))
    pipeline.connect("retriever.documents", "ranker.documents")
    pipeline = Pipeline.loads(pipeline.dumps())
    pipeline.get_component("retriever").document_store.write_documents(DOCUMENTS, DuplicatePolicy.SKIP)
    pipeline.warm_up()
    encoded["encode_questions"].clear()
    for count, text in enumerate(TEXTS, start=1):
        question = f"{text} {store.path}"  # not one of the last questions of another test
        pipeline.run({"retriever": {"query": question}, "ranker": {"query": question}})
        assert encoded["encode_questions"] == [1] * count


CACHES: list[dict[str, Any]] = [
    {},
    {"megabytes": 512},
    {"megabytes": 1, "dtype": "float32"},
    {"dtype": "float16"},
    {"dtype": "int4"},
    {"megabytes": 512, "dtype": "int8"},
]


@pytest.fixture(params=["qa-cnn", "ap-transformer"])
def with_vectors(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint that nobody else has loaded; its model stores vectors of texts, or also states of tokens."""
    return write_checkpoint(request.param, tmp_path / "own")


def encoded_texts(encode: Any, model: Path) -> Counter[tuple[int, ...]]:
    """How often each text was encoded, by its tokens; without the empty one, which is tried when a model is loaded."""
    counts: Counter[tuple[int, ...]] = Counter()
    for call in encode.call_args_list:
        counts.update(tuple(ids) for ids in call.args[1])
    del counts[tuple(Ranker.from_pretrained(model, "cpu").tokenize([""])[0])]
    return counts


@pytest.mark.parametrize("order", ["retriever first", "ranker first", "ranker made last"])
@pytest.mark.parametrize("options", CACHES, ids=str)
def test_a_document_is_encoded_once(
    store: BM25SDocumentStore, with_vectors: Path, order: str, options: dict[str, Any]
) -> None:
    """For its vector and to be ranked, whichever part is loaded first, whatever the ranker's cache is."""
    retriever = hybrid(store, with_vectors)
    with patch.object(Ranker, "encode_answers", autospec=True, side_effect=Ranker.encode_answers) as encode:
        if order == "ranker made last":
            retriever.warm_up()
        ranker = AnswerRanker(model=with_vectors, device=CPU, cache=options)
        parts = [ranker, retriever] if order == "ranker first" else [retriever, ranker]
        for part in parts:
            part.warm_up()
        documents = retriever.run(query=QUERY)["documents"]
        ranked = ranker.run(query=QUERY, documents=documents)["documents"]
        counts = encoded_texts(encode, with_vectors)
    assert len(counts) == len(set(TEXTS))
    assert set(counts.values()) == {1}
    other = shutil.copytree(with_vectors, with_vectors.with_name("other"))
    alone = AnswerRanker(model=other, device=CPU, cache=options).run(query=QUERY, documents=documents)["documents"]
    assert [d.id for d in ranked] == [d.id for d in alone]
    assert [d.score for d in ranked] == pytest.approx([d.score for d in alone], abs=1e-6)


@pytest.mark.parametrize("options", [{}, {"megabytes": 512}], ids=str)
def test_more_documents_than_are_kept_exact_are_encoded_once(
    store: BM25SDocumentStore, with_vectors: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a ranker is loaded, a large store's states are already rounded as most rankers want them."""
    monkeypatch.setattr(state_store, "EXACT_BYTES", 100)
    retriever = hybrid(store, with_vectors, batch_size=2)
    ranker = AnswerRanker(model=with_vectors, device=CPU, cache=options)
    with patch.object(Ranker, "encode_answers", autospec=True, side_effect=Ranker.encode_answers) as encode:
        retriever.warm_up()
        ranker.run(query=QUERY, documents=retriever.run(query=QUERY)["documents"])
        counts = encoded_texts(encode, with_vectors)
    assert len(counts) == len(set(TEXTS))
    assert set(counts.values()) == {1}


def test_two_rankers_of_other_sizes_share_what_is_encoded(store: BM25SDocumentStore, with_vectors: Path) -> None:
    """The larger size holds for both, whichever is loaded first."""
    retriever = hybrid(store, with_vectors)
    rankers = [AnswerRanker(model=with_vectors, device=CPU, cache={"megabytes": size}) for size in (1, 300, 2)]
    with patch.object(Ranker, "encode_answers", autospec=True, side_effect=Ranker.encode_answers) as encode:
        for part in (rankers[0], retriever, *rankers[1:]):
            part.warm_up()
        documents = retriever.run(query=QUERY)["documents"]
        ranked = [ranker.run(query=QUERY, documents=documents)["documents"] for ranker in rankers]
        counts = encoded_texts(encode, with_vectors)
    assert set(counts.values()) == {1}
    assert ranked[0] == ranked[1] == ranked[2]
    caches = {id(ranker.loaded().cache): ranker.loaded().cache for ranker in rankers}
    assert [cache.max_bytes for cache in caches.values() if cache is not None] == [300 * 10**6]


# --- embedding the documents ------------------------------------------------------------------------------------------


def test_only_new_documents_are_encoded(
    store: BM25SDocumentStore, bi_encoder: Path, encoded: dict[str, list[int]]
) -> None:
    retriever = hybrid(store, bi_encoder)
    retriever.warm_up()
    assert sum(encoded["embed_answers"]) == len(DOCUMENTS)
    after = store.filter_documents()
    assert [d.id for d in after] == [d.id for d in DOCUMENTS]
    expected = Ranker.from_pretrained(bi_encoder, "cpu").embed_answers(TEXTS).tolist()
    assert [d.embedding for d in after] == [pytest.approx(vector, abs=1e-6) for vector in expected]
    encoded["embed_answers"].clear()
    revision = store.revision()
    for other in (
        retriever,
        hybrid(store, bi_encoder),
        copy.deepcopy(retriever),
        pickle.loads(pickle.dumps(retriever)),
    ):
        other.warm_up()
        other.run(query=QUERY)
    assert encoded["embed_answers"] == []
    assert store.revision() == revision, "nothing is written"
    store.write_documents([Document(id="new", content="a parcel is new")])
    assert "new" in {document.id for document in retriever.run(query=QUERY)["documents"]}
    assert encoded["embed_answers"] == [1]
    store.delete_documents(["new"])
    retriever.run(query=QUERY)
    assert encoded["embed_answers"] == [1]


def test_progress_is_reported_in_parts(bi_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_documents, "_BATCH", 4)
    store = BM25SDocumentStore()
    store.write_documents(DOCUMENTS)
    reported: list[tuple[int, int]] = []
    hybrid(store, bi_encoder).embed_documents(lambda done, total: reported.append((done, total)))
    assert reported == [(0, 6), (4, 6), (6, 6)]
    expected = Ranker.from_pretrained(bi_encoder, "cpu").embed_answers(TEXTS).tolist()
    assert [d.embedding for d in store.filter_documents()] == [pytest.approx(vector, abs=1e-6) for vector in expected]


def test_a_checkpoint_trained_again_embeds_anew(store: BM25SDocumentStore, bi_encoder: Path, retrained: Path) -> None:
    first = hybrid(store, bi_encoder)
    first.run(query=QUERY)
    second = hybrid(store, retrained)
    found = second.run(query=QUERY)["documents"]
    assert {d.meta["embedded_by"] for d in found} == {fingerprint(retrained)}
    ranker = Ranker.from_pretrained(retrained, "cpu")
    cosines = ranker.embed_answers(TEXTS) @ ranker.embed_questions([QUERY])[0]
    assert {d.id: d.score for d in found} == pytest.approx(
        {str(i): cosine for i, cosine in enumerate(cosines.tolist())}, abs=0.02
    )
    for _ in range(2):
        with refused("embeddings … checkpoint"):
            first.run(query=QUERY)
    assert second.run(query=QUERY)["documents"] == found
    assert hybrid(store, bi_encoder).run(query=QUERY)["documents"], "a new program may take over"


def test_another_checkpoint_in_the_folder_of_a_closed_one(
    store: BM25SDocumentStore, bi_encoder: Path, retrained: Path, tmp_path: Path
) -> None:
    """What runs again is the new one, for the documents, too."""
    folder = shutil.copytree(bi_encoder, tmp_path / "checkpoint")
    retriever = hybrid(store, folder)
    retriever.run(query=QUERY)
    retriever.close()
    shutil.rmtree(folder)
    shutil.copytree(retrained, folder)
    found = retriever.run(query=QUERY)["documents"]
    ranker = Ranker.from_pretrained(retrained, "cpu")
    cosines = ranker.embed_answers(TEXTS) @ ranker.embed_questions([QUERY])[0]
    assert {d.id: d.score for d in found} == pytest.approx(dict(zip("012345", cosines.tolist(), strict=True)), abs=0.02)
    assert {d.meta["embedded_by"] for d in found} == {fingerprint(retrained)}


def test_other_settings_embed_anew(store: BM25SDocumentStore, bi_encoder: Path, encoded: dict[str, list[int]]) -> None:
    hybrid(store, bi_encoder).warm_up()
    encoded["embed_answers"].clear()
    hybrid(store, bi_encoder, meta_fields_to_embed=["even"]).warm_up()
    assert sum(encoded["embed_answers"]) == len(DOCUMENTS)
    expected = Ranker.from_pretrained(bi_encoder, "cpu").embed_answers([f"True\n{TEXTS[0]}"])[0].tolist()
    assert store.filter_documents()[0].embedding == pytest.approx(expected, abs=1e-6)


def test_a_folder_that_is_opened_again(tmp_path: Path, bi_encoder: Path, encoded: dict[str, list[int]]) -> None:
    """Also by two programs at once; each sees the documents of the other."""
    with closing(BM25SDocumentStore(tmp_path / "s")) as first:
        first.write_documents(DOCUMENTS)
        expected = hybrid(first, bi_encoder).run(query=QUERY)
    encoded["embed_answers"].clear()
    with closing(BM25SDocumentStore(tmp_path / "s")) as first, closing(BM25SDocumentStore(tmp_path / "s")) as second:
        one, other = hybrid(first, bi_encoder), hybrid(second, bi_encoder)
        assert one.run(query=QUERY) == other.run(query=QUERY) == expected
        assert encoded["embed_answers"] == []
        first.write_documents([Document(id="new", content="a parcel is new")])
        assert len(other.run(query=QUERY)["documents"]) == len(one.run(query=QUERY)["documents"]) == 7
        assert encoded["embed_answers"] == [1]


def test_16_cold_threads_embed_once(store: BM25SDocumentStore, bi_encoder: Path, encoded: dict[str, list[int]]) -> None:
    retriever = hybrid(store, bi_encoder)
    barrier = threading.Barrier(16)

    def ask(_: int) -> list[Document]:
        barrier.wait()
        return retriever.run(query=QUERY)["documents"]

    with ThreadPoolExecutor(16) as pool:
        first, *others = pool.map(ask, range(16))
    assert all(other == first for other in others)
    assert sum(encoded["embed_answers"]) == len(DOCUMENTS)


def test_an_empty_store(bi_encoder: Path) -> None:
    retriever = hybrid(BM25SDocumentStore(), bi_encoder)
    retriever.warm_up()
    assert retriever.run(query=QUERY) == {"documents": []}
    assert HybridRetriever.from_dict(retriever.to_dict()).run(query=QUERY) == {"documents": []}


# --- construction -----------------------------------------------------------------------------------------------------


def test_to_and_from_dict(tmp_path: Path) -> None:
    parameters = {
        "document_store": BM25SDocumentStore(tmp_path / "s").to_dict(),
        "model": "m",
        "device": {"type": "single", "device": "cpu"},
        "token": {"env_vars": ["ENV_VAR"], "strict": False, "type": "env_var"},
        "filters": EVEN,
        "top_k": 3,
        "filter_policy": "merge",
        "rank_all": 0,
        "query_prefix": "a",
        "query_suffix": "b",
        "document_prefix": "c",
        "document_suffix": "d",
        "meta_fields_to_embed": ["question"],
        "embedding_separator": " ",
        "batch_size": 5,
        "wordings": ["train.csv", "more.csv"],
    }
    kind = "haystack_integrations.components.retrievers.ap_ranker.hybrid.HybridRetriever"
    data = {"type": kind, "init_parameters": parameters}
    retriever = HybridRetriever.from_dict(copy.deepcopy(data))
    assert retriever.to_dict() == data
    assert retriever.filter_policy is FilterPolicy.MERGE
    assert ap_ranker.HybridRetriever is HybridRetriever


def test_what_is_refused(checkpoint: Path) -> None:
    store = BM25SDocumentStore()
    with refused("document_store … BM25SDocumentStore … InMemoryDocumentStore"):
        HybridRetriever(InMemoryDocumentStore(), model="m")  # type: ignore[arg-type]
    for name, value in (("top_k", 0), ("rank_all", -1), ("batch_size", 0)):
        with refused(name, by=ValueError):
            hybrid(store, checkpoint, **{name: value})
    store.write_documents(DOCUMENTS)
    with refused("ap-transformer … ap-cnn"):
        hybrid(store, checkpoint).warm_up()


def test_an_empty_query(store: BM25SDocumentStore, bi_encoder: Path) -> None:
    with refused("Query", by=ValueError):
        hybrid(store, bi_encoder).run(query="")
    with refused("top_k … 0 … -1", by=ValueError):
        hybrid(store, bi_encoder).run(query=QUERY, top_k=-1)


# --- BM25's scores of other retrievers' documents ---------------------------------------------------------------------


def test_bm25_scores_of_our_own_store(store: BM25SDocumentStore) -> None:
    retriever = BM25SRetriever(store)
    by_words = {d.id: d for d in retriever.run(query=QUERY)["documents"]}
    given = [DOCUMENTS[3], *list(by_words.values())[:1], DOCUMENTS[0], DOCUMENTS[0], Document(id="other", content="x")]
    component = component_from_dict(BM25Scores, component_to_dict(BM25Scores(retriever), "scores"), "scores")
    component.retriever.document_store.write_documents(DOCUMENTS, DuplicatePolicy.SKIP)
    component.warm_up()
    found = component.run(query=QUERY, documents=given)["documents"]
    assert [d.id for d in found] == [d.id for d in given]
    assert found[1] is given[1]
    for document in found:
        expected = by_words[document.id].meta["ap_ranker"]["bm25_score"] if document.id in by_words else 0.0
        assert document.meta["ap_ranker"]["bm25_score"] == expected
    assert given[0].meta == {"even": False}, "the caller's stay as they are"
    assert asyncio.run(component.run_async(query=QUERY, documents=given)) == {"documents": found}
    component.retriever.run = None  # nothing is asked
    assert component.run(query=QUERY, documents=found) == {"documents": found}
    component.close()
    assert ap_ranker.BM25Scores is BM25Scores


def test_bm25_scores_of_nothing_to_ask() -> None:
    with refused("BM25SDocumentStore"):
        BM25Scores(BM25SDocumentStore())
    with refused("k1 … 0"):
        BM25Scores(BM25SRetriever(BM25SDocumentStore()), k1=-1)


# --- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture
def pipeline(tmp_path: Path, bi_encoder: Path) -> Path:
    """The project's file with our checkpoint, and a folder for its documents."""
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search_hybrid.yaml").read_text())
    parts = settings_of(declared)
    for part in parts.values():
        part |= {"model": str(bi_encoder), "device": CPU.to_dict()}
    parts["retriever"]["document_store"]["init_parameters"] = {"path": str(tmp_path / "index")}
    (tmp_path / "search.yaml").write_text(yaml.safe_dump(declared))
    return tmp_path / "search.yaml"


def invoke(*command: object) -> str:
    return CliRunner().invoke(app, list(map(str, command)), catch_exceptions=False).stdout


def test_index_embeds_and_ask_finds_what_shares_no_word(
    pipeline: Path, faq: Path, tmp_path: Path, encoded: dict[str, list[int]]
) -> None:
    assert "3 added" in invoke("index", faq, "--pipeline", pipeline)
    assert sum(encoded["embed_answers"]) == 3
    encoded["embed_answers"].clear()
    assert "3 unchanged" in invoke("index", faq, "--pipeline", pipeline)
    assert encoded["embed_answers"] == []
    found = json.loads(invoke("ask", "xyzzy", "--pipeline", pipeline, "--json"))
    assert {answer["answer"] for answer in found["answers"]} == set(TEXTS[1::2])
    faq.write_text(faq.read_text() + "new?,yes\n")
    assert "1 added" in invoke("index", faq, "--pipeline", pipeline)
    with closing(BM25SDocumentStore(tmp_path / "index")) as store:
        assert all(document.embedding for document in store.filter_documents())


def test_ask_with_a_file_and_serve(pipeline: Path, faq: Path, tmp_path: Path) -> None:
    """As `ap-ranker ask --documents` and `ap-ranker serve` do it: one searches a file, the other what is written."""
    found = json.loads(invoke("ask", TEXTS[0], "--documents", faq, "--pipeline", pipeline, "--json"))
    assert {answer["answer"] for answer in found["answers"]} == set(TEXTS[1::2])
    assert "3 added" in invoke("index", faq, "--pipeline", pipeline)
    search = DeclaredPipeline.load(pipeline)
    search.warm_up(search.fill(None, DEFAULT_MATCH))
    assert [d.meta["answer"] for d in search.run(TEXTS[0])] == [answer["answer"] for answer in found["answers"]]
    shutil.rmtree(tmp_path / "index")


def test_a_joiners_scores_are_not_bm25s(store: BM25SDocumentStore, bi_encoder: Path) -> None:
    """Documents of two retrievers, joined by any mode, keep BM25's score in their meta or get it again."""
    retriever = BM25SRetriever(store)
    expected = {d.id: d.meta["ap_ranker"]["bm25_score"] for d in retriever.run(query=QUERY)["documents"]}
    hybrid(store, bi_encoder).warm_up()
    vector = Ranker.from_pretrained(bi_encoder, "cpu").embed_questions([QUERY])[0].tolist()
    for mode in ("concatenate", "merge", "reciprocal_rank_fusion", "distribution_based_rank_fusion"):
        lists = [retriever.run(query=QUERY)["documents"], store.embedding_retrieval(vector)]
        joined = DocumentJoiner(join_mode=mode).run(lists)["documents"]
        found = BM25Scores(retriever).run(query=QUERY, documents=joined)["documents"]
        assert {d.id: d.meta["ap_ranker"]["bm25_score"] for d in found} == {
            d.id: expected.get(d.id, 0.0) for d in DOCUMENTS
        }
