"""Search by words and by meaning in Elasticsearch: the project's pipelines, and what a joiner does to scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import write_checkpoint
from haystack import Pipeline
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.ranking.checkpoint import read_checkpoint_config
from ap_ranker.search.load_pipeline import find_stores
from elastic.conftest import Search
from elastic.test_index import FAQ, counts, index
from haystack_integrations.components.retrievers.ap_ranker import BM25Scores

QUESTION = "battery"


@pytest.fixture
def hybrid(search: Search, bi_encoder: Path) -> Iterator[Search]:
    made = replace(search, kind="hybrid")
    made.write_pipelines(bi_encoder)
    yield made


def test_index_embeds_what_it_writes(hybrid: Search, bi_encoder: Path) -> None:
    assert counts(index(hybrid, FAQ)) == [3, 0, 0, 0]
    bulks = hybrid.proxy.bulks()
    assert counts(index(hybrid, FAQ)) == [0, 0, 0, 3]
    assert hybrid.proxy.bulks() == bulks  # nothing written
    later = [FAQ[0], (FAQ[1][0], "Ten days now."), ("Do you ship abroad?", "Yes.")]
    assert counts(index(hybrid, later)) == [1, 1, 1, 1]


def test_another_checkpoint_embeds_anew(hybrid: Search, bi_encoder: Path, tmp_path: Path) -> None:
    index(hybrid, FAQ)
    before = hybrid.current()
    options = read_checkpoint_config(bi_encoder).options
    hybrid.write_pipelines(write_checkpoint("qa-cnn", tmp_path / "other", {**options, "window": options["window"] + 1}))
    assert counts(index(hybrid, FAQ[:2])) == [2, 0, 0, 0]
    origins = [
        {fields["embedded_by"] for fields in hybrid.documents(name).values()} for name in (before, hybrid.current())
    ]
    assert len(origins[0]) == len(origins[1]) == 1
    assert origins[0] != origins[1]


def test_search(hybrid: Search) -> None:
    """Words find one entry, meaning all of them; each has BM25's score, of Lucene's scale."""
    index(hybrid, FAQ)
    pipeline = Pipeline.loads(hybrid.searching.read_text())
    inputs = {
        "embedder": {"text": QUESTION},
        **{name: {"query": QUESTION} for name in ("by_words", "lucene_scores", "scores", "ranker")},
    }
    parts = {"by_words", "by_meaning", "lucene_scores", "scores"}
    run = pipeline.run(inputs, include_outputs_from=parts)
    [by_words] = run["by_words"]["documents"]
    assert len(run["by_meaning"]["documents"]) == len(FAQ)
    scores = {document.id: document.meta["ap_ranker"]["bm25_score"] for document in run["scores"]["documents"]}
    assert {name: score for name, score in scores.items() if score} == {
        by_words.id: pytest.approx(by_words.score / 2.2)
    }
    assert len(scores) == len(FAQ)
    assert {document.id for document in run["ranker"]["documents"]} == scores.keys()
    ask = ["ask", QUESTION, "--pipeline", str(hybrid.searching), "--json"]
    found = json.loads(CliRunner().invoke(app, ask, catch_exceptions=False).stdout)
    assert len(found["answers"]) == len(FAQ)


def test_scores_of_documents_are_those_of_a_search_without_a_filter(search: Search) -> None:
    """Also of those that the joiner took from the other retriever, in any order."""
    search = replace(search, kind="words")
    index(search, FAQ)
    retriever = Pipeline.loads(search.searching.read_text()).get_component("retriever")
    store = find_stores(Pipeline.loads(search.searching.read_text()))[0]
    everything = store.filter_documents()
    for query in ("my", "battery", "my parcel", "nothing of this kind"):
        expected = {document.id: document.score / 2.2 for document in retriever.run(query=query)["documents"]}
        given = [replace(document, score=0.7) for document in everything]
        found = BM25Scores(retriever).run(query=query, documents=given)["documents"]
        assert [document.id for document in found] == [document.id for document in everything]
        assert {document.id: document.meta["ap_ranker"]["bm25_score"] for document in found} == {
            document.id: pytest.approx(expected.get(document.id, 0.0)) for document in everything
        }
        assert all(document.score == 0.7 for document in found)
