"""Elasticsearch's scores on Lucene's scale; tests/elastic compares them with the formula on a server."""

from __future__ import annotations

import pytest
from haystack import Document

from ap_ranker.errors import InputError
from haystack_integrations.components.retrievers.ap_ranker import LuceneScores


def test_scores() -> None:
    documents = [Document(content="a", score=2.2), Document(content="b", score=None), Document(content="c", score=0.0)]
    found = LuceneScores().run(documents=documents)["documents"]
    assert [document.score for document in found] == [pytest.approx(1.0), None, 0.0]
    assert [document.id for document in found] == [document.id for document in documents]
    assert documents[0].score == 2.2  # the caller's stay as they are
    assert LuceneScores(k1=0).run(documents=documents)["documents"][0].score == 2.2


def test_k1_out_of_range() -> None:
    with pytest.raises(InputError, match="Expected a k1 of 0 or more, found -1"):
        LuceneScores(k1=-1)
