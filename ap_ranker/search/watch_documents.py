"""Follows the documents of a running search: what is edited is found within seconds, without a restart."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ap_ranker.data.faq import Entry, Match
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.ranking.loaded_checkpoints import flush_encodings
from ap_ranker.search.declared_pipeline import DeclaredPipeline, Limits
from ap_ranker.search.load_pipeline import components_of, find_stores, report_store_errors
from ap_ranker.search.setup import SearchSetup
from haystack_integrations.common.ap_ranker.entries import to_document
from haystack_integrations.components.retrievers.ap_ranker import HybridRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

logger = logging.getLogger(__name__)

PAUSE, TIMES = 0.5, 20
"""Seconds between two looks at the files, and how many times as long as a look they are apart at least."""


def follow(search: DeclaredPipeline, setup: SearchSetup, *, encode: bool = True) -> list[DocumentWatcher]:
    """Keep a search like the documents of its setup, or those that its pipeline's file names, from now on.

    Only stores in memory are kept so; `ap-ranker index` changes the others. Without `encode`, new entries are found
    before they are encoded, which is for a process that leaves the questions to others.
    """
    stores = [store for store in find_stores(search.pipeline) if isinstance(store, BM25SDocumentStore)]
    in_memory = [store for store in stores if store.path is None]
    if setup.documents is not None:
        followed = [(setup.documents, setup.match, in_memory)] if in_memory else []
    else:
        named = [(store, Path(store.documents)) for store in in_memory if store.documents is not None]
        followed = [(WatchedFolder(path), Match(store.match), [store]) for store, path in named]
        for documents, _, _ in followed:
            documents.version = documents.look()  # the store has read them
    return [DocumentWatcher(search, *each, setup.limits, encode) for each in followed]


@dataclass
class DocumentWatcher:
    """Keeps stores like their documents, in a thread of its own.

    A change counts when two looks have seen the same, so that a file that is still being written is left alone. Only
    what is new is encoded, in the background; then all is switched in one step, so that a question meets the old
    documents or the new ones. If the files cannot be read, a warning says why, and the search stays as it is.
    """

    search: DeclaredPipeline
    documents: WatchedFolder
    match: Match
    stores: Sequence[BM25SDocumentStore]
    limits: Limits
    encode: bool

    def __post_init__(self) -> None:
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="live documents", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Follow them no longer; a change that is being made is finished."""
        self._closed.set()
        self._thread.join()

    def _follow(self) -> None:
        seen, pause = self.documents.version, PAUSE
        while not self._closed.wait(pause):
            started = time.thread_time()
            now = self.documents.look()
            pause = max(PAUSE, TIMES * (time.thread_time() - started))
            if now == seen and now != self.documents.version:
                self._update()
            seen = now

    def _update(self) -> None:
        place = self.documents.path
        try:
            with report_store_errors(self.search.path, self.search.place):
                added, removed = self._write(self.documents.read())
        except InputError as error:
            logger.warning("%s The search goes on with what was read before.", error)
        except Exception:  # a defect of ours must not end the thread
            logger.exception("%s: the search goes on with what was read before.", place)
        else:
            if added or removed:
                logger.info("%s has changed. New entries: %s; gone: %s.", place, f"{added:,}", f"{removed:,}")

    def _write(self, entries: Sequence[Entry]) -> tuple[int, int]:
        """Let the stores hold these entries; returns the number of new ones, and of those that are gone."""
        documents = {document.id: document for document in (to_document(entry, self.match) for entry in entries)}
        retrievers = [part for part in components_of(self.search.pipeline) if isinstance(part, HybridRetriever)]
        added = removed = 0
        for store in self.stores:
            stored = store.document_ids()
            new = [document for document_id, document in documents.items() if document_id not in stored]
            gone = stored - documents.keys()
            if self.encode:
                for retriever in retrievers:
                    if retriever.document_store is store:
                        new = retriever.embedded(new)  # first: the ranker finds what it has encoded
                self.search.encode(new, self.limits)
            store.exchange_documents(new, gone)
            added, removed = len(new), len(gone)
        if self.encode and not any(retriever.embeds_now for retriever in retrievers):  # which will do it itself
            self.search.pipeline.warm_up()  # encodes new wordings
            flush_encodings()
        return added, removed
