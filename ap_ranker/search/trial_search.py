"""A copy of a search in which one document is another, to see what a change would do before it is made."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

from haystack import Document

from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import find_stores
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

MOST_DOCUMENTS = 20_000
"""Maximum number of documents of a copy: its index is built anew."""


def trial_search(search: DeclaredPipeline, document: Document, *, replaced: str) -> DeclaredPipeline | None:
    """A search as this one, in which a document stands in the place of the one with the id `replaced`.

    The search itself stays as it is; both share the model and what it has encoded. `None` if its documents are not all
    in memory, as those of Elasticsearch, or are more than `MOST_DOCUMENTS`. InputError if it cannot be loaded.
    """
    memo: dict[int, Any] = {}
    stores = find_stores(search.pipeline)
    for store in stores:
        in_memory = isinstance(store, BM25SDocumentStore) and store.path is None
        if not in_memory or store.count_documents() > MOST_DOCUMENTS:
            return None
        memo[id(store)] = store.twin()  # a deep copy would copy each document
    twins = [memo[id(store)] for store in stores]
    trial = copy(search)
    trial.pipeline = deepcopy(search.pipeline, memo)
    copied = find_stores(trial.pipeline)
    if [id(store) for store in copied] != [id(store) for store in twins]:
        return None  # a component reads a file of its own
    for store in copied:
        store.exchange_documents([document], [replaced])
    trial.prepare()
    return trial
