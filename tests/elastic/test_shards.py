"""BM25 on three shards: the scores that rank are exact, and how far those of Elasticsearch itself are from them."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, write_checkpoint
from haystack import Document
from haystack.utils import ComponentDevice

from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.bm25_statistics import AskedWords
from ap_ranker.search.elasticsearch.build_index import build_index
from ap_ranker.search.elasticsearch.index_layout import SETTINGS
from ap_ranker.search.elasticsearch.index_target import find_target
from elastic.engine import WHOLE, Engine
from elastic.test_quality import NUMBER, remove_index, table
from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever
from haystack_integrations.components.retrievers.ap_ranker.elasticsearch_queries import word_queries
from haystack_integrations.document_stores.ap_ranker import ElasticsearchFAQStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(WHOLE not in os.environ, reason="thousands of answers: run by `make cluster-all`"),
]

LUCENE = 2.2
"""What Elasticsearch multiplies BM25's scores by."""


def test_bm25_on_three_shards(server: Engine, tmp_path: Path) -> None:
    folder = ROOT.parent / "shared" / "data" / "insuranceqa"
    if not folder.is_dir():
        pytest.skip("the benchmark data is not here")
    rows = table(folder / "answers.tsv.gz")[: int(os.environ.get(NUMBER, "27413"))]
    texts = list(dict.fromkeys(row["answer"] for row in rows))
    settings = json.loads(SETTINGS.read_text())
    settings["settings"]["number_of_shards"] = 3
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    checkpoint = write_checkpoint("ap-cnn", tmp_path / "checkpoint", bm25_language="english")
    name, file = f"ap-ranker-{uuid.uuid4().hex}", str(tmp_path / "settings.json")
    store = ElasticsearchFAQStore(hosts=server.url, index=name, settings=file, request_timeout=60)
    retriever = ElasticsearchFAQRetriever(store, model=checkpoint, device=ComponentDevice.from_str("cpu"))
    target = find_target(store, None, [retriever])
    assert target is not None
    documents = [Document(id=str(row), content=text) for row, text in enumerate(texts)]
    build_index(target, documents)
    exact = BM25(texts, language="english")
    differences: dict[str, list[float]] = {"query_then_fetch": [], "dfs_query_then_fetch": []}
    shared: dict[str, list[float]] = {kind: [] for kind in differences}
    for row in table(folder / "test.tsv.gz")[:100]:
        question = row["question"]
        expected = np.asarray(exact.scores(question))
        best = {str(place) for place in np.argsort(-expected, kind="stable")[:100]}
        for document in retriever.run(query=question)["documents"]:
            score = document.meta["ap_ranker"]["bm25_score"]
            assert score == pytest.approx(expected[int(document.id)], rel=1e-5, abs=1e-6)
        asked = AskedWords.of(question, "english", {})
        [query] = word_queries(asked)
        for kind in differences:
            hits = store.client.search(
                index=retriever.index, query=query, size=100, search_type=kind, docvalue_fields=["id"]
            )["hits"]["hits"]
            own = {hit["_id"]: asked.factor * hit["_score"] / LUCENE for hit in hits}
            differences[kind] += [abs(score / expected[int(key)] - 1) for key, score in own.items()]
            shared[kind].append(len(best & own.keys()) / 100)
    for kind, values in differences.items():
        print(
            f"{len(texts)} answers, {kind}: differences of scores {np.mean(values):.2%} on average, "
            f"{np.max(values):.1%} at most; {np.mean(shared[kind]):.1%} of the best 100 the same"
        )
    remove_index(server, name)
    assert np.mean(shared["query_then_fetch"]) > 0.95
