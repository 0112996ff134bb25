"""Stores that last: `ap-ranker index` and the owner write them, and every other command leaves them as they are."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from haystack import Document
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy

from ap_ranker.errors import InputError
from ap_ranker.search.elasticsearch.build_index import KEYS
from ap_ranker.search.elasticsearch.index_cluster import Cluster
from ap_ranker.search.elasticsearch.index_target import elasticsearch_of, is_elasticsearch
from ap_ranker.search.load_pipeline import describe_store
from haystack_integrations.common.ap_ranker.entries import MARK
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Difference:
    """How a FAQ's file differs from a store: the number of entries that only the file has, and only the store."""

    more: int
    fewer: int

    def __bool__(self) -> bool:
        return bool(self.more or self.fewer)

    def __str__(self) -> str:
        parts = []
        if self.more:
            parts.append(f"{self.more:,} more")
        if self.fewer:
            parts.append(f"{self.fewer:,} fewer")
        return " and ".join(parts)

    @classmethod
    def between(cls, documents: Sequence[Document], stored: Mapping[str, bool]) -> Difference:
        """Of a file's documents and a store's, by their ids and whether `ap-ranker index` wrote them."""
        wanted = {document.id for document in documents}
        ours = {key for key, is_ours in stored.items() if is_ours}
        return cls(len(wanted - stored.keys()), len(ours - wanted))


def fill_store(store: Any, documents: list[Document], index: str | None) -> None:
    """
    Let a store be searched for these documents, without writing into one that lasts.

    A store with a folder of its own searches them in memory; another one that lasts is searched if it holds them.
    `index` is that of a store of ours in Elasticsearch. InputError if it holds others.
    """
    if isinstance(store, BM25SDocumentStore):
        if store.path is not None:
            difference = Difference.between(documents, _marks(store.filter_documents()))
            if difference:
                logger.warning(
                    "The file has %s entries than %s, which stays as it is. Write the file into it: ap-ranker index",
                    difference,
                    describe_store(store),
                )
            store.leave_folder()
        store.documents = None  # not read yet, and then never
        store.write_documents(documents, policy=DuplicatePolicy.SKIP)
    elif not is_lasting(store):
        store.write_documents(documents, policy=DuplicatePolicy.SKIP)
    else:
        stored = _listed(store, index) if is_elasticsearch(store) else _marks(_all_documents(store))
        difference = Difference.between(documents, stored)
        if difference:
            raise InputError(
                f"Expected the entries of the file in {describe_store(store)}, found that the file has {difference}. "
                "Leave the file out to search what is there, or write it (--database adds the owner's changes): "
                "ap-ranker index FAQ.csv --pipeline FILE.yaml"
            )


def is_lasting(store: Any) -> bool:
    """Whether what is written into a store outlives this process."""
    if isinstance(store, BM25SDocumentStore):
        return store.path is not None
    location = getattr(store, "location", None) or getattr(store, "_location", None)
    return not isinstance(store, InMemoryDocumentStore) and location != ":memory:"


def _all_documents(store: Any) -> list[Document]:
    """The documents of a store of another package; InputError if it lists fewer than it holds, as some servers do."""
    n_documents = store.count_documents()
    documents: list[Document] = store.filter_documents()
    if len(documents) < n_documents:
        raise InputError(
            f"Expected a list of all {n_documents:,} documents in {describe_store(store)}, found that it lists "
            f"{len(documents):,} at most, too few to compare the file with. Leave the file out to search what is there."
        )
    return documents


def _marks(documents: Sequence[Document]) -> dict[str, bool]:
    """The ids of documents, and whether `ap-ranker index` wrote them."""
    return {document.id: MARK in document.meta for document in documents}


def _listed(store: Any, index: str | None) -> dict[str, bool]:
    """As `_marks`, of an index of Elasticsearch."""
    ours = elasticsearch_of(store)
    if index is not None:
        store.require_complete(index)  # a server waits for an index that is being made
    cluster = Cluster(ours.client, ours.index)
    place = index or cluster.current()
    if place is None:
        return {}
    others = dict.fromkeys(cluster.list_ids(place), False)
    return others | dict.fromkeys(cluster.list_ours(place, (0, KEYS)), True)
