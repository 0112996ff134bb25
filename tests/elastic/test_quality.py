"""As good as the store in memory, on three shards: `make cluster-all`, as thousands of answers are encoded."""

from __future__ import annotations

import csv
import gzip
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from haystack import Document
from haystack.utils import ComponentDevice

from ap_ranker.data.faq import Match
from ap_ranker.documents import read_entries
from ap_ranker.ranking.loaded_checkpoints import flush_encodings
from ap_ranker.ranking.state_store import keep_encodings
from ap_ranker.ranking.wordings import EMBEDDED_BY
from ap_ranker.search.elasticsearch.build_index import build_index
from ap_ranker.search.elasticsearch.index_target import find_target
from ap_ranker.training.untrained import write_untrained
from elastic.conftest import Search
from elastic.engine import WHOLE, Engine
from haystack_integrations.common.ap_ranker.entries import to_document
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import (
    AnswerSearch,
    ElasticsearchFAQRetriever,
    HybridRetriever,
)
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore, ElasticsearchFAQStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(WHOLE not in os.environ, reason="thousands of answers: run by `make cluster-all`"),
]

CPU = ComponentDevice.from_str("cpu")
NUMBER = "AP_RANKER_ANSWERS"
"""The variable of the environment for a smaller number of InsuranceQA's answers."""

KEPT = "AP_RANKER_KEPT"
"""That for a folder that keeps encoded answers for the next run."""


@dataclass
class Both:
    """The same documents, with the same vectors, in Elasticsearch and in memory."""

    shared: ElasticsearchFAQRetriever
    memory: HybridRetriever
    ranker: AnswerRanker
    vectors: np.ndarray
    ids: list[str]

    def search(self, retriever: ElasticsearchFAQRetriever | HybridRetriever) -> AnswerSearch:
        """Both rank by the same ranker, so that an answer is encoded once."""
        return AnswerSearch(retriever, self.ranker)


def both(server: Engine, folder: Path, documents: list[Document], texts: Sequence[str]) -> Both:
    """With a checkpoint that knows how rare words are in some texts."""
    model = folder / "checkpoint"
    write_untrained(model, texts, "english", stored=True, wordings=[() for _ in texts])
    settings = folder / "settings.json"
    settings.write_text(
        (ROOT / "pipelines" / "elasticsearch_index.json")
        .read_text()
        .replace('"number_of_shards": 1', '"number_of_shards": 3')
    )
    store = ElasticsearchFAQStore(hosts=server.url, index=f"ap-ranker-{uuid.uuid4().hex}", settings=str(settings))
    shared = ElasticsearchFAQRetriever(store, model=model, device=CPU)
    target = find_target(store, None, [shared])
    assert target is not None
    embedded = {document.id: document for document in shared.embedded(documents)}

    def embed(some: list[Document]) -> list[Document]:
        """What was embedded once."""
        known = [embedded[one.id] for one in some]
        return [
            Document(
                id=one.id, content=one.content, meta=one.meta | {EMBEDDED_BY: target.origin}, embedding=it.embedding
            )
            for one, it in zip(some, known, strict=True)
        ]

    build_index(type(target)(**{**vars(target), "embed": embed}), documents)
    in_memory = BM25SDocumentStore(language="english")
    in_memory.write_documents(list(embedded.values()))
    memory = HybridRetriever(in_memory, model=model, device=CPU)
    vectors = np.array([document.embedding for document in embedded.values()])
    ranker = AnswerRanker(model=model, device=CPU, fuse_scores=True, top_k=10)
    ranker.run(query="What is insured?", documents=documents[:1])
    return Both(shared, memory, ranker, vectors, list(embedded))


@pytest.fixture(scope="module")
def insurance(
    server: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Both, list[tuple[str, set[str]]]]]:
    folder = ROOT.parent / "shared" / "data" / "insuranceqa"
    if not folder.is_dir():
        pytest.skip("the benchmark data is not here")
    rows = table(folder / "answers.tsv.gz")
    texts = list(dict.fromkeys(row["answer"] for row in rows))
    answers = {row["aid"]: row["answer"] for row in rows[: int(os.environ.get(NUMBER, "27413"))]}
    documents = [Document(content=text, meta={"answer": text, "aid": aid}) for aid, text in answers.items()]
    asked: list[tuple[str, set[str]]] = []
    for row in table(folder / "test.tsv.gz"):
        right = {aid for aid in row["answer_ids"].split() if aid in answers}
        if right:
            asked.append((row["question"], right))
    with kept_encodings():
        unique = list({document.id: document for document in documents}.values())
        made = both(server, tmp_path_factory.mktemp("insurance"), unique, texts)
        yield made, asked[:300]
    remove_index(server, made.shared.document_store.index)


@contextmanager
def kept_encodings() -> Iterator[None]:
    """Within, what is encoded is kept in the folder that the environment names, if it names one."""
    folder = os.environ.get(KEPT)
    if folder is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", folder)
        keep_encodings(True)
        try:
            yield
        finally:
            flush_encodings()
            keep_encodings(False)


def table(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def remove_index(server: Engine, name: str) -> None:
    """All that a FAQ has in the cluster."""
    search = Search(Path(), server, None, name)  # type: ignore[arg-type]
    for each in [*search.indexes(), f"{name}-lock"]:
        search.request("DELETE", each)


def first_right(search: AnswerSearch, question: str, right: set[str]) -> float:
    """The reciprocal rank of the first right answer, 0 if there is none among ten."""
    documents, _ = search.search(question, offer=True)
    ranks = (rank for rank, one in enumerate(documents, start=1) if one.meta["aid"] in right)
    return 1 / next(ranks, np.inf)


def test_insuranceqa(insurance: tuple[Both, list[tuple[str, set[str]]]]) -> None:
    made, asked = insurance
    found = []
    for retriever in (made.shared, made.memory):
        search = made.search(retriever)
        search.warm_up()
        ranks = [first_right(search, question, right) for question, right in asked]
        found.append((np.mean(np.array(ranks) == 1), np.mean(ranks)))
    print(f"{len(made.ids)} answers, {len(asked)} questions, P@1 and MRR, Elasticsearch and in memory:", found)
    assert np.abs(np.subtract(*found)).max() <= 0.003


def test_nearest_neighbours(insurance: tuple[Both, list[tuple[str, set[str]]]]) -> None:
    made, asked = insurance
    ranker = made.shared.loaded()
    recalls = []
    for question, _ in asked[:200]:
        vector = ranker.embed_questions([question])[0].numpy()
        exact = {made.ids[row] for row in np.argsort(-made.vectors @ vector)[:100]}
        near = made.shared.run(query=question)["documents"]
        ranked = {one.id for one in near if one.meta["ap_ranker"]["embedding_rank"] is not None}
        recalls.append(len(exact & ranked) / 100)
    print(f"recall at 100 of {len(made.ids)} answers: {np.mean(recalls):.4f}")
    assert np.mean(recalls) >= 0.995


def test_the_example(server: Engine, tmp_path: Path) -> None:
    entries = read_entries(ROOT / "examples" / "faq" / "answers.csv")
    documents = [to_document(entry, Match.both) for entry in entries]
    made = both(server, tmp_path, documents, [document.content or "" for document in documents])
    with (ROOT / "examples" / "faq" / "test.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["answer_ids"]]
    found = []
    for retriever in (made.shared, made.memory):
        search = made.search(retriever)
        search.warm_up()
        found.append(np.mean([first_right(search, row["question"], set(row["answer_ids"].split())) for row in rows]))
    remove_index(server, made.shared.document_store.index)
    print(f"MRR of {len(rows)} questions of the example, Elasticsearch and in memory:", found)
    assert abs(found[0] - found[1]) <= 0.003
