"""Elasticsearch, Qdrant and PostgreSQL in front, with our embedders and our ranker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from both_pipelines import assembled, ids, run_both
from elastic.engine import shared_engine
from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.components.writers import DocumentWriter
from haystack.utils import Secret
from postgres import programs, running_postgres

from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder, APTextEmbedder
from haystack_integrations.components.rankers.ap_ranker import APRanker
from haystack_integrations.components.retrievers.ap_ranker import BM25Scores
from pipelines.conftest import BY_MEANING, CPU, ENTRIES

MakeRanker = Callable[..., APRanker]
SIZE = 384
"""Numbers of a vector of the default encoder."""


def index(store: Any, documents: list[Document], minilm: Path) -> None:
    """Write the documents by a pipeline, as a user does; the store is empty before."""
    pipeline = assembled(
        {"embedder": APDocumentEmbedder(model=minilm, device=CPU), "writer": DocumentWriter(store)},
        "embedder > writer",
    )
    assert pipeline.run({"embedder": {"documents": documents}}) == {"writer": {"documents_written": len(documents)}}


def finding(minilm: Path, retriever: Any, ranker: APRanker) -> Pipeline:
    """By meaning alone."""
    return assembled(
        {"embedder": APTextEmbedder(model=minilm, device=CPU), "retriever": retriever, "ranker": ranker},
        "embedder > retriever.query_embedding",
        "retriever > ranker",
    )


def inputs_of(query: str, *names: str) -> dict[str, dict[str, str]]:
    return {"embedder": {"text": query}, **{name: {"query": query} for name in ("ranker", *names)}}


@pytest.fixture
def elasticsearch() -> str:
    """The URL of a server."""
    pytest.importorskip("elasticsearch", reason="elasticsearch-haystack is not installed")
    return shared_engine().url


def test_elasticsearch(
    elasticsearch: str, documents: list[Document], minilm: Path, ranker: MakeRanker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By words and by meaning, joined by ranks: BM25's scores are still there for the ranker."""
    from haystack_integrations.components.retrievers.elasticsearch import (
        ElasticsearchBM25Retriever,
        ElasticsearchEmbeddingRetriever,
    )
    from haystack_integrations.document_stores.elasticsearch import ElasticsearchDocumentStore

    for name in ("ELASTIC_API_KEY", "ELASTIC_API_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    store = ElasticsearchDocumentStore(hosts=elasticsearch, index=f"pipelines-{uuid4().hex}")
    index(store, documents, minilm)
    pipeline = assembled(
        {
            "embedder": APTextEmbedder(model=minilm, device=CPU),
            "words": ElasticsearchBM25Retriever(document_store=store, fuzziness="0", top_k=3),
            "lucene": BM25Scores(),
            "meaning": ElasticsearchEmbeddingRetriever(document_store=store, top_k=3),
            "joiner": DocumentJoiner(join_mode="reciprocal_rank_fusion"),
            "scores": BM25Scores(ElasticsearchBM25Retriever(document_store=store, fuzziness="0")),
            "ranker": ranker(fuse_scores=True),
        },
        "embedder > meaning.query_embedding",
        "words > lucene.documents",
        "lucene > joiner",
        "meaning > joiner",
        "joiner > scores",
        "scores > ranker",
    )
    for query, right in BY_MEANING.items():
        found = run_both(pipeline, inputs_of(query, "words", "lucene", "scores"))["ranker"]["documents"]
        assert ids(found)[0] == right
        assert len(found) >= 3
        assert all("bm25_score" in document.meta["ap_ranker"] for document in found)


def test_qdrant(documents: list[Document], minilm: Path, ranker: MakeRanker, tmp_path: Path) -> None:
    """In a folder, without a server: one client at a time has it."""
    reason = "qdrant-haystack is not installed"
    package = pytest.importorskip("haystack_integrations.components.retrievers.qdrant", reason=reason)
    from haystack_integrations.document_stores.qdrant import QdrantDocumentStore

    store = QdrantDocumentStore(path=str(tmp_path / "qdrant"), embedding_dim=SIZE, progress_bar=False)
    index(store, documents, minilm)
    pipeline = finding(minilm, package.QdrantEmbeddingRetriever(document_store=store, top_k=4), ranker(top_k=2))
    repair = {"field": "meta.category", "operator": "==", "value": "repair"}

    def answers(one: Pipeline) -> list[Any]:
        found = [one.run(inputs_of(query))["ranker"]["documents"] for query in BY_MEANING]
        inputs = inputs_of(next(iter(BY_MEANING)))
        inputs["retriever"] = {"filters": repair}  # type: ignore[dict-item]
        return [*found, one.run(inputs)["ranker"]["documents"]]

    built = answers(pipeline)
    assert [ids(found)[0] for found in built[:-1]] == list(BY_MEANING.values())
    assert set(ids(built[-1])) == {name for name, entry in ENTRIES.items() if entry[2] == "repair"}
    text = pipeline.dumps()
    store.close()
    again = Pipeline.loads(text)
    loaded = answers(again)
    assert list(map(ids, loaded)) == list(map(ids, built))
    again.get_component("retriever").close()


@contextmanager
def pgvector() -> Iterator[str]:
    """The URL of a database with the extension; skips without it."""
    import psycopg

    if programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with running_postgres() as url:
        place = url.format(name="postgres")
        with psycopg.connect(place, autocommit=True) as connection:
            known = connection.execute("select 1 from pg_available_extensions where name = 'vector'").fetchone()
        if known is None:
            pytest.skip("PostgreSQL has no pgvector (Debian: apt-get install postgresql-VERSION-pgvector)")
        yield place


def test_pgvector(documents: list[Document], minilm: Path, ranker: MakeRanker, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "pgvector-haystack is not installed"
    package = pytest.importorskip("haystack_integrations.components.retrievers.pgvector", reason=reason)
    from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

    with pgvector() as url:
        monkeypatch.setenv("PG_CONN_STR", url)
        secret = Secret.from_env_var("PG_CONN_STR")
        store = PgvectorDocumentStore(connection_string=secret, embedding_dimension=SIZE, recreate_table=False)
        index(store, documents, minilm)
        pipeline = finding(minilm, package.PgvectorEmbeddingRetriever(document_store=store, top_k=4), ranker(top_k=2))
        for query, right in BY_MEANING.items():
            assert ids(run_both(pipeline, inputs_of(query))["ranker"]["documents"])[0] == right
