"""What a document has for a query is read for the same query, and for no other one."""

from __future__ import annotations

import pytest
from haystack import Document

from haystack_integrations.common.ap_ranker.query_data import query_data, query_key, with_query_data

QUESTION = "where is my parcel"


@pytest.mark.parametrize(
    ("asked", "is_same"),
    [
        (" where is my parcel", True),
        ("where is my parcel\n", True),
        ("where  is my\tparcel", True),
        ("\u3000where is\r\nmy\xa0parcel", True),
        ("where is myparcel", False),
        ("whereis my parcel", False),
        ("Where is my parcel", False),
        ("", False),
    ],
)
def test_white_space_makes_no_other_query(asked: str, is_same: bool) -> None:
    """A pipeline may strip or join lines between a retriever and a ranker."""
    document = with_query_data(Document(content="here"), query_key(QUESTION), {"bm25_score": 2.5}, None)
    expected = 2.5 if is_same else None
    assert query_data(document, query_key(asked)).get("bm25_score") == expected
