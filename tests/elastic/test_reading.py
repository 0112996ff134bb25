"""All expectations of how texts are read, by BM25 in a real Elasticsearch: each row in an index of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, write_checkpoint
from haystack import Document
from haystack.utils import ComponentDevice
from reading_table import OTHERS, Row, read_table

from ap_ranker.search.index_cluster import Cluster
from ap_ranker.search.index_layout import Layout
from ap_ranker.search.index_source import sources_of
from elastic.engine import Engine
from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever
from haystack_integrations.document_stores.ap_ranker import ElasticsearchFAQStore

ROWS = [row for row in read_table() if row.expected in ("found", "first", "not")]

WHOLE = "AP_RANKER_CLUSTER"
"""The variable of the environment with which `make cluster` runs what takes minutes."""

HANDBOOK = ROOT / "docs" / "haystack.md"

CPU = ComponentDevice.from_str("cpu")


WORKERS = 4
"""Number of rows that are asked at once: most of a row's time, Elasticsearch makes and removes its index."""

ANALYZED = 700
"""Number of rows that hold for Haystack's own components, by Elasticsearch's analyzers, as docs/haystack.md says."""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str | None, Path]:
    """One for each language: of a model without vectors, so that BM25 alone finds."""
    folder = tmp_path_factory.mktemp("languages")
    languages = {row.language for row in ROWS}
    return {each: write_checkpoint("ap-cnn", folder / str(each), bm25_language=each) for each in languages}


class Asked:
    """Where the rows of a language are asked, one after another, each in an index of its own."""

    def __init__(self, url: str, checkpoint: Path, language: str | None) -> None:
        from haystack_integrations.components.retrievers.elasticsearch import ElasticsearchBM25Retriever
        from haystack_integrations.document_stores.elasticsearch import ElasticsearchDocumentStore

        self._store = ElasticsearchFAQStore(hosts=url, index=f"ap-ranker-row-{uuid.uuid4().hex}")
        self._ours = ElasticsearchFAQRetriever(self._store, model=checkpoint, device=CPU)
        self._layout = Layout.read(None, language=language, dimensions=None)
        theirs = ElasticsearchDocumentStore(hosts=url, index=self._ours.index)
        self._theirs = ElasticsearchBM25Retriever(document_store=theirs, fuzziness="0")

    def holds(self, row: Row) -> tuple[bool, bool]:
        """Whether a row does, for our retriever and for Haystack's."""
        index = self._ours.index
        cluster = Cluster(self._store.client, self._store.index)
        cluster.client.indices.create(index=index, settings=self._layout.settings, mappings=self._layout.mappings)
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
            ours = self._ours.run(query=row.query)["documents"]
            theirs = self._theirs.run(query=row.query)["documents"]
        finally:
            cluster.client.indices.delete(index=index)
            self._ours._kept = type(self._ours._kept)()
            self._ours._parts = {}
        scores = {document.id: document.meta["ap_ranker"]["bm25_score"] for document in ours}
        return is_expected(row, scores), is_expected(row, {document.id: document.score for document in theirs})


def is_expected(row: Row, scores: Mapping[str, float]) -> bool:
    """Whether the row's text, whose id is 0, is found, and before all others, or is not found."""
    own = scores.get("0", 0.0)
    best = max((score for name, score in scores.items() if name != "0"), default=0.0)
    return own <= 0 if row.expected == "not" else own > best


def test_rows_hold(server: Engine, checkpoints: dict[str | None, Path]) -> None:
    """In `make test` every 60th, by `make cluster` all; docs/haystack.md says how many there are."""
    rows = ROWS if os.environ.get(WHOLE) else ROWS[::60]

    def ask(own: Sequence[Row]) -> list[tuple[Row, bool, bool]]:
        asked: dict[str | None, Asked] = {}
        for row in own:
            if row.language not in asked:
                asked[row.language] = Asked(server.url, checkpoints[row.language], row.language)
        return [(row, *asked[row.language].holds(row)) for row in own]

    with ThreadPoolExecutor(WORKERS) as workers:
        parts = list(workers.map(ask, [rows[first::WORKERS] for first in range(WORKERS)]))
    found = [each for part in parts for each in part]
    failing = [str(row) for row, is_held, _ in found if not is_held]
    assert not failing, "\n".join(failing)
    analyzed = [row for row, _, is_held in found if is_held]
    if len(rows) == len(ROWS):
        assert len(analyzed) == ANALYZED, "\n".join(str(row) for row, _, is_held in found if not is_held)
        assert all(str(number) in HANDBOOK.read_text(encoding="utf-8") for number in (len(ROWS), ANALYZED))


def test_the_analyzers_for_haystacks_components(server: Engine, tmp_path: Path) -> None:
    """The field `content`, which they search, is read nearly as ap-ranker reads."""
    store = ElasticsearchFAQStore(hosts=server.url, index=f"ap-ranker-test-{uuid.uuid4().hex}")
    layout = Layout.read(None, language="german", dimensions=8)
    store.client.indices.create(index=store.index, settings=layout.settings, mappings=layout.mappings)
    analyzed = store.client.indices.analyze(index=store.index, analyzer="reading", text="E‑Mail für 20€, Häuser")
    tokens = [token["token"] for token in analyzed["tokens"]]
    assert tokens == ["email", "e", "mail", "fur", "20", "haus"]
    store.client.indices.delete(index=store.index)
