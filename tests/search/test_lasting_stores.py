"""Which stores outlive a process: `index` writes into these alone, and nothing else writes into them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from haystack.document_stores.in_memory import InMemoryDocumentStore

from ap_ranker.search.lasting_stores import is_lasting
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore


@dataclass
class VectorStore:
    """The parameters of a store that may be in memory, in a folder or on a server, such as Qdrant's."""

    location: str | None = None
    url: str | None = None
    path: str | None = None


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (InMemoryDocumentStore(), False),
        (VectorStore(location=":memory:"), False),
        (VectorStore(path="vectors"), True),
        (VectorStore(url="http://localhost:6333"), True),
    ],
)
def test_stores_of_others(store: object, expected: bool) -> None:
    assert is_lasting(store) is expected


def test_our_store(tmp_path: Path) -> None:
    assert not is_lasting(BM25SDocumentStore())
    assert is_lasting(BM25SDocumentStore(path=str(tmp_path / "store")))
