"""Elasticsearch's scores on Lucene's scale; tests/elastic compares them with the formula on a server."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from haystack import Document, Pipeline
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from haystack_integrations.components.retrievers.ap_ranker import BM25Scores, LuceneScores

QUERY = "Where is my parcel?"
MODULES = "haystack_integrations.components.retrievers.ap_ranker"


@pytest.fixture(params=[BM25Scores, LuceneScores])
def kind(request: pytest.FixtureRequest) -> type[BM25Scores]:
    """The component, and its earlier name."""
    chosen: type[BM25Scores] = request.param
    return chosen


def test_scores(kind: type[BM25Scores]) -> None:
    documents = [Document(content="a", score=2.2), Document(content="b", score=None), Document(content="c", score=0.0)]
    found = kind().run(query=QUERY, documents=documents)["documents"]
    assert [document.score for document in found] == [pytest.approx(1.0), None, 0.0]
    assert [document.id for document in found] == [document.id for document in documents]
    assert documents[0].score == 2.2  # the caller's stay as they are
    assert kind(k1=0).run(query=QUERY, documents=documents)["documents"][0].score == 2.2


def test_k1_out_of_range(kind: type[BM25Scores]) -> None:
    with refused("k1 … 0 … -1.0"):
        kind(k1=-1.0)


def documents(scores: Sequence[float | None], name: str = "") -> list[Document]:
    return [Document(id=f"{name}{i}", content=str(i), score=score) for i, score in enumerate(scores)]


def test_known_scores_stay(kind: type[BM25Scores]) -> None:
    known = Document(content="a", score=0.5, meta={"ap_ranker": {"bm25_score": 3.0, "bm25_rank": 1}})
    found = kind().run(query=QUERY, documents=[known, *documents([2.2])])["documents"]
    assert found[0] is known
    data = found[1].meta["ap_ranker"]
    assert (found[1].score, data["bm25_score"], data["bm25_rank"]) == (pytest.approx(1.0), pytest.approx(1.0), 2)


def test_without_a_query_scores_are_of_any() -> None:
    [found] = LuceneScores().run(documents=documents([2.2]))["documents"]
    assert found.meta == {"ap_ranker": {"query": None, "bm25_score": pytest.approx(1.0), "bm25_rank": 1}}


@pytest.mark.parametrize("name", ["lucene_scores.LuceneScores", "bm25_scores.BM25Scores"])
def test_yaml_names_either(name: str) -> None:
    """Pipelines of earlier releases name the first one, whose scores are still the same."""
    text = f"""
components:
  scores:
    type: {MODULES}.{name}
    init_parameters: {{k1: 0.5}}
connections: []
"""
    pipeline = Pipeline.loads(text)
    [found] = pipeline.run({"scores": {"query": QUERY, "documents": documents([3.0])}})["scores"]["documents"]
    assert found.score == pytest.approx(2.0)
    assert Pipeline.loads(pipeline.dumps()).to_dict() == pipeline.to_dict()


@given(st.lists(st.floats(2**-10, 50, width=32), max_size=20))
def test_any_scores_are_converted(scores: list[float]) -> None:
    found = BM25Scores().run(query=QUERY, documents=documents(scores))["documents"]
    assert [document.meta["ap_ranker"]["bm25_score"] for document in found] == pytest.approx(
        [score / 2.2 for score in scores]
    )
