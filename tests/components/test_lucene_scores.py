"""Elasticsearch's scores on Lucene's scale; tests/elastic compares them with the formula on a server."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from haystack import Document
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from haystack_integrations.components.retrievers.ap_ranker import LuceneScores


def test_scores() -> None:
    documents = [Document(content="a", score=2.2), Document(content="b", score=None), Document(content="c", score=0.0)]
    found = LuceneScores().run(documents=documents)["documents"]
    assert [document.score for document in found] == [pytest.approx(1.0), None, 0.0]
    assert [document.id for document in found] == [document.id for document in documents]
    assert documents[0].score == 2.2  # the caller's stay as they are
    assert LuceneScores(k1=0).run(documents=documents)["documents"][0].score == 2.2


def test_k1_out_of_range() -> None:
    with refused("k1 … 0 … -1.0"):
        LuceneScores(k1=-1.0)


def documents(scores: Sequence[float | None], name: str = "") -> list[Document]:
    return [Document(id=f"{name}{i}", content=str(i), score=score) for i, score in enumerate(scores)]


def test_known_scores_stay() -> None:
    known = Document(content="a", score=0.5, meta={"ap_ranker": {"bm25_score": 3.0, "bm25_rank": 1}})
    found = LuceneScores().run(documents=[known, *documents([2.2])])["documents"]
    assert found[0] is known
    added = {"query": None, "bm25_score": pytest.approx(1.0), "bm25_rank": 2}
    assert (found[1].score, found[1].meta) == (pytest.approx(1.0), {"ap_ranker": added})


@given(st.lists(st.floats(2**-10, 50, width=32), max_size=20))
def test_any_scores_are_converted(scores: list[float]) -> None:
    found = LuceneScores().run(documents=documents(scores))["documents"]
    assert [document.meta["ap_ranker"]["bm25_score"] for document in found] == pytest.approx(
        [score / 2.2 for score in scores]
    )
