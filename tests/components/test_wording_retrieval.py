"""Entries that only a known wording finds, in a store larger than the number of candidates."""

from __future__ import annotations

import asyncio
import copy
import pickle
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from conftest import TEXTS, write_checkpoint
from haystack import Document, Pipeline
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils import ComponentDevice
from naive.vectors import cosine, rounded
from refusals import refused
from torch import Tensor

from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.wordings import Leg
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import FAQSearch, HybridRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore
from haystack_integrations.document_stores.ap_ranker.documents import Documents

CPU = ComponentDevice.from_str("cpu")
QUERY = "Where is my parcel?"
WORDS = sorted({word for text in TEXTS for word in text.lower().strip("?.;").split()})
SIZE, TOP_K = 2000, 5
TARGET = 1700
"""The row of the entry that shares no word with the query and means something else."""


def both_legs(
    store: BM25SDocumentStore,
    query: str,
    embedding: list[float] | None,
    filters: dict[str, Any] | None,
    top_k: int,
    wordings: Leg | None = None,
) -> list[Document]:
    """What words and, with an embedding, meaning find, beside the best by wordings."""
    embeddings = None if embedding is None else [embedding]
    [found] = store.find_for_each([query], embeddings, filters, top_k, wordings=[wordings])
    return found.copies()


def stored_documents() -> list[Document]:
    """Every tenth has a stored question, every fiftieth a further wording; the model knows no word of their content."""
    some = random.Random(0)

    def question() -> str:
        return " ".join(some.sample(WORDS, 6))

    documents = []
    for i in range(SIZE):
        meta: dict[str, Any] = {"aid": f"a{i}", "answer": f"Answer  {i}", "even": i % 2 == 0}
        if i % 10 == 3:
            meta["question"] = question()
        if i % 50 == 3:
            meta["wordings"] = [question(), question()]
        content = f"xyzzy{i}" if i % 4 == 0 else f"{some.choice(WORDS)} xyzzy{i}"
        documents.append(Document(id=str(i), content=content, meta=meta))
    return documents


DOCUMENTS = stored_documents()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its ranker goes by the wordings."""
    return write_checkpoint("qa-cnn", tmp_path_factory.mktemp("checkpoints") / "qa-cnn", wording_weight=100.0)


@pytest.fixture(scope="module")
def embedded(checkpoint: Path) -> BM25SDocumentStore:
    """Copied by each test, as embedding takes a second."""
    store = BM25SDocumentStore()
    store.write_documents(DOCUMENTS)
    HybridRetriever(store, model=checkpoint, device=CPU).warm_up()
    return store


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path, embedded: BM25SDocumentStore) -> Iterator[BM25SDocumentStore]:
    if request.param == "memory":
        yield copy.deepcopy(embedded)
        return
    with closing(BM25SDocumentStore(tmp_path / "store")) as made:
        made.write_documents(embedded.filter_documents())
        yield made


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions and wordings that were encoded during a test."""
    texts: list[str] = []
    original = Ranker.encode_questions

    def spy(self: Ranker, questions: Sequence[str]) -> Any:
        texts.extend(questions)
        return original(self, questions)

    monkeypatch.setattr(Ranker, "encode_questions", spy)
    return texts


def hybrid(store: BM25SDocumentStore, checkpoint: Path, **options: Any) -> HybridRetriever:
    return HybridRetriever(store, model=checkpoint, device=CPU, **{"top_k": TOP_K, **options})


def by_id(path: Path, *rows: tuple[str, str], column: str = "answer_ids") -> Path:
    lines = [f"{first},{second}\n" for first, second in (("question", column), *rows)]
    path.write_text("".join(lines) if rows else "")  # nothing yet
    return path


def by_text(path: Path, *rows: tuple[str, str]) -> Path:
    return by_id(path, *rows, column="answer")


def ids_of(retriever: HybridRetriever, query: str = QUERY, **options: Any) -> set[str]:
    return {document.id for document in retriever.run(query=query, **options)["documents"]}


def naive_scores(checkpoint: Path, query: str, known: dict[str, list[str]]) -> dict[str, float]:
    """Document id -> the cosine of its best wording, one after the other."""
    ranker = Ranker.from_pretrained(checkpoint, "cpu")

    def vector(text: str) -> list[float]:
        numbers: list[float] = ranker.embed_questions([text])[0].double().tolist()
        return numbers

    question = vector(query)
    return {key: max(cosine(question, rounded(vector(text))) for text in texts) for key, texts in known.items()}


@pytest.mark.parametrize("filtered", [False, True])
def test_the_third_leg_is_a_loop_over_all_wordings(
    store: BM25SDocumentStore, checkpoint: Path, tmp_path: Path, filtered: bool
) -> None:
    """In meta, by id and by text; a wording that two entries share, one whose entry is gone."""
    shared, query = "my bike in your e-mail", "Which battery fits my parcel?"
    files = [by_id(tmp_path / "a.csv", (shared, "a7 a8"), ("Which parcel fits", f"a{TARGET} a{SIZE}"), (query, "gone"))]
    deleted = ("the money", "an answer that was deleted")
    files.append(by_text(tmp_path / "b.csv", ("battery parcel", "ANSWER 9 "), deleted))
    known = {
        d.id: [*filter(None, [d.meta.get("question")]), *d.meta.get("wordings", [])]
        for d in DOCUMENTS
        if d.meta.get("question")
    }
    for key, text in (("7", shared), ("8", shared), (str(TARGET), "Which parcel fits"), ("9", "battery parcel")):
        known.setdefault(key, []).append(text)
    expected = naive_scores(checkpoint, query, known)
    filters = {"field": "meta.even", "operator": "==", "value": True} if filtered else None
    fitting = [key for key in sorted(expected, key=int) if not filtered or int(key) % 2 == 0]
    best = sorted(fitting, key=lambda key: -expected[key])[: 2 * TOP_K]

    retriever = hybrid(store, checkpoint, wordings=list(map(str, files)), top_k=2 * TOP_K)
    found = {d.id: d for d in retriever.run(query=query, filters=filters)["documents"]}
    ranks = {
        key: d.meta["ap_ranker"]["wording_rank"]
        for key, d in found.items()
        if d.meta["ap_ranker"]["wording_rank"] is not None
    }
    # Equal texts may differ in the last digit: the places, not which of two equals stands at each.
    assert sorted(ranks.values()) == list(range(1, len(best) + 1))
    in_order = [expected[key] for key in sorted(ranks, key=ranks.__getitem__)]
    assert in_order == pytest.approx([expected[key] for key in best], abs=1e-4)
    assert len(found) <= 6 * TOP_K
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    vector = ranker.embed_questions([query])[0].tolist()
    question, rows = np.array(vector, np.float32), retriever._rows
    leg = retriever._known.similar(rows, question, ranker)
    with store._transaction() as stored:
        names = [document.id for document in stored.fetch(leg.rows.tolist()).values()]
    assert dict(zip(names, leg.scores.tolist(), strict=True)) == pytest.approx(expected, abs=1e-4)

    # What the other legs say is as without wordings, also of those found only by them.
    words = {d.id: d.score for d in store.bm25_retrieval(query, top_k=SIZE)}
    meaning = {d.id: d.score for d in store.embedding_retrieval(vector, top_k=SIZE)}
    two_legs = {d.id: d for d in both_legs(store, query, vector, filters, 2 * TOP_K)}
    assert set(found) == set(two_legs) | set(ranks)
    assert set(ranks) - set(two_legs), "some are found by nothing else"
    for key, document in found.items():
        assert (document.meta["ap_ranker"]["bm25_score"], document.score) == (words.get(key, 0.0), meaning[key])
        other = two_legs.get(key)
        for name in ("bm25_rank", "embedding_rank"):
            assert document.meta["ap_ranker"][name] == (other.meta["ap_ranker"][name] if other else None)


@pytest.mark.parametrize("by", ["id", "text"])
def test_a_file_makes_an_entry_searchable_at_once_and_takes_it_back(
    store: BM25SDocumentStore, checkpoint: Path, tmp_path: Path, by: str, encoded: list[str]
) -> None:
    write = by_id if by == "id" else by_text
    path = write(tmp_path / "wordings.csv")
    retriever = hybrid(store, checkpoint)
    retriever.add_wordings(path)
    assert retriever.wordings == [str(path)]
    retriever.warm_up()
    question = f"{QUERY} {by} {store.path}"  # not one of the last questions of another test
    assert str(TARGET) not in ids_of(retriever, question)
    encoded.clear()
    write(path, (question.upper(), f"a{TARGET}" if by == "id" else f"answer {TARGET}"))
    started = time.monotonic()
    found = {d.id: d for d in retriever.run(query=question)["documents"]}
    assert time.monotonic() - started < 1
    assert encoded == [question.upper()], "only what is new"
    assert found[str(TARGET)].meta["ap_ranker"]["wording_rank"] == 1
    assert (
        found[str(TARGET)].meta["ap_ranker"]["bm25_rank"],
        found[str(TARGET)].meta["ap_ranker"]["embedding_rank"],
    ) == (None, None)
    assert str(TARGET) in {d.id for d in hybrid(store, checkpoint, wordings=path).run(query=question)["documents"]}

    ranker = AnswerRanker(model=checkpoint, device=CPU, wordings=path, top_k=SIZE)
    ranked = ranker.run(query=question, documents=list(found.values()))["documents"]
    assert [d.meta["ap_ranker"]["matched_wording"] for d in ranked if d.id == str(TARGET)] == [question.upper()]
    assert encoded == [question.upper()], "the ranker has what the retriever encoded"

    write(path, ("another", "a5"))
    assert str(TARGET) not in ids_of(retriever, question)


def test_an_entry_that_is_written_or_deleted(store: BM25SDocumentStore, checkpoint: Path, tmp_path: Path) -> None:
    path = by_id(tmp_path / "train.csv", (QUERY, f"new a{TARGET}"))
    retriever = hybrid(store, checkpoint, wordings=path)
    assert str(TARGET) in ids_of(retriever)
    store.delete_documents([str(TARGET)])
    assert str(TARGET) not in ids_of(retriever)
    store.write_documents([Document(id="n", content="xyzzy", meta={"aid": "new"})])
    assert "n" in ids_of(retriever)
    store.write_documents([Document(id="q", content="xyzzy", meta={"question": QUERY})])
    assert "q" in ids_of(retriever)
    store.write_documents([Document(id="q", content="xyzzy")], DuplicatePolicy.OVERWRITE)
    assert "q" not in ids_of(retriever)


def test_documents_deleted_between_the_scores_and_the_search(store: BM25SDocumentStore) -> None:
    rows = np.arange(SIZE) + min(store._latest(store._words).rows)
    leg = Leg(rows, np.linspace(0, 1, SIZE))
    store.delete_documents([str(SIZE - 1)])
    vector = [1.0] * store._latest(Documents.vectors).scorer.matrix.shape[1]
    for embedding in (vector, None):
        found = both_legs(store, "xyzzy", embedding, None, 1, wordings=leg)
        assert [d.id for d in found if d.meta["ap_ranker"]["wording_rank"] == 1] == [str(SIZE - 2)]


def test_bm25_and_wordings_without_vectors_of_documents(store: BM25SDocumentStore) -> None:
    """Documents found by wordings alone come last, with BM25's score of 0."""
    leg = Leg(np.array(store._latest(store._words).rows[[3, TARGET]]), np.array([0.5, 0.9]))
    alone = store.bm25_retrieval("parcel", top_k=2)
    both = store.find_documents("parcel", None, 2, wordings=leg).copies()
    assert [(d.id, d.score, d.meta["ap_ranker"]["bm25_rank"]) for d in both[:2]] == [
        (d.id, d.score, i) for i, d in enumerate(alone, 1)
    ]
    found = {d.id: (d.score, d.meta["ap_ranker"]["bm25_rank"], d.meta["ap_ranker"]["wording_rank"]) for d in both[2:]}
    assert found == {"3": (0.0, None, 2), str(TARGET): (0.0, None, 1)}
    assert "wording_rank" not in alone[0].meta


def test_without_wordings_nothing_changes(checkpoint: Path, tmp_path: Path) -> None:
    store = BM25SDocumentStore()
    store.write_documents([Document(id=str(i), content=text) for i, text in enumerate(TEXTS)])
    for wordings in (None, [], by_text(tmp_path / "wordings.csv")):
        found = hybrid(store, checkpoint, top_k=1, rank_all=0, wordings=wordings).run(query=QUERY)["documents"]
        assert 1 <= len(found) <= 2
        assert all(d.meta["ap_ranker"]["wording_rank"] is None for d in found)


@pytest.mark.parametrize("odd", ["", "text", 5, None, [1, None, "", QUERY]])
def test_other_things_in_meta(checkpoint: Path, odd: object) -> None:
    store = BM25SDocumentStore()
    store.write_documents([Document(content="xyzzy", meta={"question": 7, "wordings": odd, "answer": None, "aid": 3})])
    [found] = hybrid(store, checkpoint).run(query=QUERY)["documents"]
    assert found.meta["ap_ranker"]["wording_rank"] == (1 if isinstance(odd, list) else None)


def test_a_prefix_of_questions_is_one_of_wordings(
    embedded: BM25SDocumentStore, checkpoint: Path, tmp_path: Path
) -> None:
    path = by_id(tmp_path / "train.csv", (QUERY, f"a{TARGET}"))
    options = {"query_prefix": "battery fits ", "query_suffix": " frame", "wordings": str(path)}
    found = hybrid(copy.deepcopy(embedded), checkpoint, **options).run(query=QUERY)["documents"]
    [target] = [d for d in found if d.id == str(TARGET)]
    assert target.meta["ap_ranker"]["wording_rank"] == 1
    ranker = AnswerRanker(model=checkpoint, device=CPU, top_k=SIZE, **options)
    [first, *_] = ranker.run(query=QUERY, documents=found)["documents"]
    assert (first.id, first.meta["ap_ranker"]["matched_wording"]) == (str(TARGET), QUERY)


def test_16_cold_threads_encode_each_wording_once(
    store: BM25SDocumentStore, checkpoint: Path, tmp_path: Path, encoded: list[str]
) -> None:
    path = by_id(tmp_path / "train.csv", (f"cold {store.path}", f"a{TARGET}"))
    retriever = hybrid(store, checkpoint, wordings=path)
    barrier = Barrier(16)

    def ask(_: int) -> list[Document]:
        barrier.wait()
        documents: list[Document] = retriever.run(query=QUERY)["documents"]
        return documents

    with ThreadPoolExecutor(16) as pool:
        first, *others = pool.map(ask, range(16))
    assert all(other == first for other in others)
    assert encoded.count(f"cold {store.path}") == 1


def test_threads_ask_while_a_file_grows(embedded: BM25SDocumentStore, checkpoint: Path, tmp_path: Path) -> None:
    path = by_text(tmp_path / "wordings.csv")
    retriever = hybrid(copy.deepcopy(embedded), checkpoint, wordings=path)
    retriever.warm_up()
    with ThreadPoolExecutor(4) as pool:
        for i in range(20):
            asked = [pool.submit(ids_of, retriever) for _ in range(4)]
            by_text(path, *((f"{QUERY} {'parcel ' * row}", f"answer {4 * row}") for row in range(i + 1)))
            for each in asked:
                each.result()
    last = {
        d.id
        for d in retriever.run(query=QUERY, top_k=SIZE)["documents"]
        if d.meta["ap_ranker"]["wording_rank"] is not None
    }
    assert {str(4 * i) for i in range(20)} <= last


async def test_run_async_is_run(store: BM25SDocumentStore, checkpoint: Path, tmp_path: Path) -> None:
    retriever = hybrid(store, checkpoint, wordings=by_id(tmp_path / "train.csv", (QUERY, f"a{TARGET}")))
    await retriever.warm_up_async()
    found = await asyncio.gather(*(retriever.run_async(query=QUERY) for _ in range(4)))
    assert all(result == retriever.run(query=QUERY) for result in found)
    assert str(TARGET) in {document.id for document in found[0]["documents"]}


def test_yaml_copies_and_a_close_keep_the_files(store: BM25SDocumentStore, checkpoint: Path, tmp_path: Path) -> None:
    path = by_id(tmp_path / "train.csv", (QUERY, f"a{TARGET}"))
    retriever = hybrid(store, checkpoint, wordings=tmp_path / "train.csv")
    assert str(TARGET) in ids_of(retriever)
    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever)
    loaded = Pipeline.loads(pipeline.dumps()).get_component("retriever")
    assert loaded.wordings == [str(path)]
    loaded.document_store.write_documents(store.filter_documents(), DuplicatePolicy.SKIP)
    for other in (loaded, copy.deepcopy(retriever), pickle.loads(pickle.dumps(retriever))):
        assert ids_of(other) == ids_of(retriever)
    more = by_id(tmp_path / "more.csv", (QUERY, "a1900"))
    other = copy.deepcopy(retriever)
    other.add_wordings(more)
    other.add_wordings(more)
    assert other.wordings == [str(path), str(more)]
    assert "1900" in ids_of(other)
    assert retriever.wordings == [str(path)]
    retriever.close()
    assert str(TARGET) in ids_of(retriever)


def test_a_missing_file_is_named(embedded: BM25SDocumentStore, checkpoint: Path) -> None:
    with refused("none.csv"):
        hybrid(copy.deepcopy(embedded), checkpoint, wordings="none.csv").warm_up()


# --- FAQSearch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "store"])
def test_faq_search_fetches_by_wordings(
    checkpoint: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a vector of any entry."""
    faq, wordings = tmp_path / "FAQ.csv", by_text(tmp_path / "wordings.csv")
    rows = [f"{d.meta.get('question', '')},{d.content}\n" for d in DOCUMENTS[:1000]]
    faq.write_text("question,answer\n" + "".join(rows))
    source: dict[str, Any] = {"documents": faq}
    if kind == "store":
        store = BM25SDocumentStore()
        store.write_documents(DOCUMENTS[:1000])
        source = {"document_store": store}
    monkeypatch.setattr(Ranker, "embed_answers", lambda self, texts: pytest.fail("no vector is needed"))
    search = FAQSearch(model=checkpoint, candidates=TOP_K, wordings=wordings, device=CPU, top_k=SIZE, **source)
    before = contents(search)
    assert "xyzzy800" not in before
    by_text(wordings, ("where IS my parcel", "xyzzy800"))
    after = contents(search)
    assert after[0] == "xyzzy800"
    assert contents(copy.deepcopy(search)) == after
    by_text(wordings)
    assert contents(search) == before
    search.close()
    assert contents(search) == before


def contents(search: FAQSearch) -> list[str | None]:
    return [document.content for document in search.run(query=QUERY)["documents"]]


def test_faq_search_without_a_weight_of_wordings_is_bm25(checkpoint: Path, tmp_path: Path, encoded: list[str]) -> None:
    plain = write_checkpoint("qa-cnn", tmp_path / "plain")
    store = BM25SDocumentStore()
    store.write_documents(DOCUMENTS)
    found = FAQSearch(model=plain, document_store=store, candidates=TOP_K, device=CPU).run(query="my battery")
    assert {d.id for d in found["documents"]} == {d.id for d in store.bm25_retrieval("my battery", top_k=TOP_K)}
    assert encoded == ["my battery"], "no wording is encoded"


def test_vectors_are_those_of_questions(checkpoint: Path) -> None:
    """The tests above need different vectors of different texts."""
    vectors: Tensor = Ranker.from_pretrained(checkpoint, "cpu").embed_questions([QUERY, "Which battery fits my bike?"])
    assert (vectors[0] @ vectors[1]).item() < 0.999
