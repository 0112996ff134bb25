"""Haystack's own components for Elasticsearch: what they would take for an answer, or make, is refused here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from haystack import Document

from ap_ranker.errors import InputError
from ap_ranker.ranking.wordings import EMBEDDED_BY
from ap_ranker.search.elasticsearch.index_cluster import Cluster
from ap_ranker.search.elasticsearch.index_target import UPSTREAM, elasticsearch_of
from haystack_integrations.components.embedders.ap_ranker import APTextEmbedder

_GUARDED = "ap_ranker_guarded"


def guard(store: Any) -> None:
    """
    Let a store of Haystack's refuse partial results, and read only what is there.

    Its client makes an index that it does not find, and takes what some shards answer for all. InputError if there is
    no index, or the name is an alias of several.
    """
    if type(store).__name__ != UPSTREAM or hasattr(store, _GUARDED):
        return
    check_index(store)
    for client in (store.client, store.async_client):
        client.perform_request = _complete(client.perform_request)
    setattr(store, _GUARDED, True)


def _complete(send: Callable[..., Any]) -> Callable[..., Any]:
    """What sends a request, or begins to, so that a search is answered by all shards or refused."""

    def perform_request(method: str, path: str, **options: Any) -> Any:
        if path.partition("?")[0].endswith("/_search"):
            options["params"] = {**(options.get("params") or {}), "allow_partial_search_results": "false"}
        return send(method, path, **options)

    return perform_request


def check_index(store: Any) -> None:
    """InputError unless the index of Haystack's store is there."""
    ours = elasticsearch_of(store)
    if Cluster(ours.client, ours.index).current() is None:
        raise InputError(
            f"Expected the index {ours.index!r}, found none. Make it with `ap-ranker index FAQ.csv --pipeline "
            "FILE.yaml`, or correct index in the pipeline."
        )


def check_shards(store: Any) -> None:
    """InputError unless all shards of Haystack's store answer."""
    check_index(store)
    ours = elasticsearch_of(store)
    ours.search(ours.index, [{"size": 0}])


def check_origin(embedder: APTextEmbedder, documents: Sequence[Document]) -> None:
    """InputError if documents were embedded by another checkpoint than the question."""
    fingerprint = embedder.loaded().fingerprint
    for document in documents:
        origin = document.meta.get(EMBEDDED_BY)
        if isinstance(origin, str) and not origin.startswith(fingerprint):
            raise InputError(
                f"Expected documents with vectors of the checkpoint {embedder.model}, found {document.id!r} with those "
                "of another one, which cannot be compared. Run `ap-ranker index` with this checkpoint, or search with "
                "that one."
            )
