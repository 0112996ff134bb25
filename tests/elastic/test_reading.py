"""All expectations of how texts are read, by BM25 in a real Elasticsearch: each row in an index of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, write_checkpoint
from haystack import Document
from haystack.utils import ComponentDevice
from reading_table import OTHERS, Row, read_table

from ap_ranker.search.elasticsearch.index_cluster import Cluster
from ap_ranker.search.elasticsearch.index_layout import Layout
from ap_ranker.search.index_source import sources_of
from elastic.engine import WHOLE, Engine
from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever
from haystack_integrations.document_stores.ap_ranker import ElasticsearchFAQStore

ROWS = [row for row in read_table() if row.expected in ("found", "first", "not")]

HANDBOOK = ROOT / "docs" / "archive" / "elasticsearch.md"

CPU = ComponentDevice.from_str("cpu")


@pytest.fixture(scope="module")
def retrievers(
    server: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str | None, ElasticsearchFAQRetriever]]:
    """One for each language: of a model without vectors, so that BM25 alone finds."""
    made: dict[str | None, ElasticsearchFAQRetriever] = {}
    for language in {row.language for row in ROWS}:
        folder = tmp_path_factory.mktemp("language") / str(language)
        checkpoint = write_checkpoint("ap-cnn", folder, bm25_language=language)
        store = ElasticsearchFAQStore(hosts=server.url, index=f"ap-ranker-row-{uuid.uuid4().hex}")
        made[language] = ElasticsearchFAQRetriever(store, model=checkpoint, device=CPU)
    yield made


def scores(retriever: ElasticsearchFAQRetriever, row: Row) -> tuple[float, float]:
    """That of the row's text, and the best of the others."""
    store, index = retriever.document_store, retriever.index
    cluster = Cluster(store.client, store.index)
    layout = Layout.read(None, language=row.language, dimensions=None)
    cluster.client.indices.create(index=index, settings=layout.settings, mappings=layout.mappings)
    try:
        texts = [row.text, *OTHERS, *([row.twin] if row.twin else [])]
        documents = [Document(id=str(place), content=text) for place, text in enumerate(texts)]
        sources = sources_of(documents, "", row.language, None)
        actions: list[dict[str, Any]] = [
            {"_op_type": "index", "_id": one.id, "_source": source}
            for one, source in zip(documents, sources, strict=True)
        ]
        cluster.write(index, actions)
        cluster.client.indices.refresh(index=index)
        found = {one.id: one.meta["ap_ranker"]["bm25_score"] for one in retriever.run(query=row.query)["documents"]}
    finally:
        cluster.client.indices.delete(index=index)
        retriever._kept = type(retriever._kept)()
        retriever._parts = {}
    return found.get("0", 0.0), max((score for name, score in found.items() if name != "0"), default=0.0)


def test_rows_hold(retrievers: dict[str | None, ElasticsearchFAQRetriever]) -> None:
    """In `make test` every 60th, by `make cluster` all; the archive says how many there are, and that all do."""
    assert f"language: {len(ROWS)} were asked" in " ".join(HANDBOOK.read_text(encoding="utf-8").split())
    rows = ROWS if os.environ.get(WHOLE) else ROWS[::60]
    failing = []
    for row in rows:
        own, best = scores(retrievers[row.language], row)
        if own > 0 if row.expected == "not" else own <= best:
            failing.append(str(row))
    assert not failing, "\n".join(failing)


def test_the_analyzers_for_haystacks_components(server: Engine, tmp_path: Path) -> None:
    """The field `content`, which they search, is read nearly as ap-ranker reads."""
    store = ElasticsearchFAQStore(hosts=server.url, index=f"ap-ranker-test-{uuid.uuid4().hex}")
    layout = Layout.read(None, language="german", dimensions=8)
    store.client.indices.create(index=store.index, settings=layout.settings, mappings=layout.mappings)
    analyzed = store.client.indices.analyze(index=store.index, analyzer="reading", text="E‑Mail für 20€, Häuser")
    tokens = [token["token"] for token in analyzed["tokens"]]
    assert tokens == ["email", "e", "mail", "fur", "20", "haus"]
    store.client.indices.delete(index=store.index)
