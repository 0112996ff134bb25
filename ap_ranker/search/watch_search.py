"""Follows the documents and the checkpoint of a running search: what changes counts soon, without a restart."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from haystack import Document

from ap_ranker.data.faq import Entry, Match
from ap_ranker.data.wordings import log_wordings_of_no_entry
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.ranking.loaded_checkpoints import flush_encodings
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.elasticsearch.build_index import write_changes
from ap_ranker.search.elasticsearch.index_lock import LockedIndexError
from ap_ranker.search.elasticsearch.index_target import find_target
from ap_ranker.search.load_pipeline import components_of, find_stores, report_store_errors
from ap_ranker.search.setup import SearchSetup
from ap_ranker.threads import leave_what_lives
from haystack_integrations.common.ap_ranker.entries import to_document
from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever, HybridRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore, ElasticsearchFAQStore
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import MissingIndexError

logger = logging.getLogger(__name__)

PAUSE = 0.2
"""Seconds between two looks at the files and at the owner's changes, at least."""

STILL = 0.5
"""Seconds for which all looks at a file must have seen the same before it counts, as it may be half written."""

TIMES = 20
"""How many times as long as a look two of them are apart, at least."""

INDEX_SECONDS = 30.0
"""Seconds between two looks for the index of a new checkpoint."""


class _WatchedDocuments(NamedTuple):
    """Documents, the stores in memory that are kept like them, and the retrievers whose indexes the owner changes."""

    documents: WatchedFolder
    match: Match
    stores: Sequence[BM25SDocumentStore]
    indexed: Sequence[ElasticsearchFAQRetriever] = ()


@dataclass
class _OwnersChanges:
    """What the owner has added to the FAQ, documents by their ids, and the ids of what is gone; no index has it yet.

    Other changes of the file are not among these: `ap-ranker index` writes what a file has.
    """

    new: dict[str, Document]
    gone: set[str]

    def __bool__(self) -> bool:
        return bool(self.new or self.gone)

    def add(self, before: Sequence[Entry], now: Sequence[Entry], match: Match) -> None:
        """Let these changes contain those of one more step."""
        had = {to_document(entry, match).id for entry in before}
        has = _documents_by_id(now, match)
        for document_id in had - has.keys():
            self.new.pop(document_id, None)
            self.gone.add(document_id)
        for document_id in has.keys() - had:
            self.gone.discard(document_id)
            self.new[document_id] = has[document_id]


@dataclass
class _FileChanges:
    """The ids of documents that the file has had since the server began, and of those that it has not any more."""

    new: set[str]
    gone: set[str]

    def add(self, had: Set[str], has: Set[str]) -> None:
        """Let these contain one more change."""
        self.new = (self.new | (has - had)) & has
        self.gone = (self.gone | (had - has)) - has

    def count(self, retriever: ElasticsearchFAQRetriever | None) -> int:
        """How many of them an index does not have."""
        if retriever is None or not (self.new or self.gone):
            return 0
        searches = []
        for ids in (self.new, self.gone):
            counted = {"documents": {"value_count": {"field": "id"}}}
            searches.append({"size": 0, "query": {"ids": {"values": sorted(ids)}}, "aggs": counted})
        answers = retriever.document_store.search(retriever.index, searches)
        counts = [int(answer["aggregations"]["documents"]["value"]) for answer in answers]
        return len(self.new) - counts[0] + counts[1]


class SearchWatcher:
    """Keeps a search like the documents of its setup, or those that its pipeline's file names, and like its checkpoint.

    A change of a file counts when it has stayed as it is for a moment, as it may still be being written. All is
    switched in one step, so that a question meets what was or what is new: of documents, only what is new is encoded
    before; for a checkpoint, a second pipeline with all documents. If files cannot be read, or the checkpoint not
    search with the limits of this search, a warning says why, and the search stays as it is.

    Only stores in memory are kept so; `ap-ranker index` changes the others. What the owner changes on the website, and
    nothing else, is also written into the indexes of an `ElasticsearchFAQRetriever`. Without `encode`, new entries are
    found before they are encoded, which is for a process that leaves the questions to others; without `write`, another
    process writes into the indexes.
    """

    def __init__(
        self, search: DeclaredPipeline, setup: SearchSetup, *, encode: bool = True, write: bool = True
    ) -> None:
        self._search = search
        self._setup = setup
        self._encode = encode
        self._write = write
        self._checkpoint: object = search.version
        self._waits = False
        self._missing = ""
        self._unwritten = _OwnersChanges({}, set())
        self._in_file = _FileChanges(set(), set())
        self.documents = _watched_documents(search, setup)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="watch documents", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Follow them no longer; a change that is being made is finished."""
        self._closed.set()
        self._thread.join()

    def _follow(self) -> None:
        seen = None
        seen_since = 0.0
        pause = PAUSE
        while not self._closed.wait(pause):
            started = time.thread_time()
            versions = [watched.documents.look() for watched in self.documents]
            checkpoint = self._setup.look(self._search)
            pause = max(PAUSE, TIMES * (time.thread_time() - started))
            # Of the overlay's database, each look sees what is whole.
            files = ([version.files for version in versions], checkpoint)
            if files != seen:
                seen = files
                seen_since = time.monotonic()
            elif time.monotonic() - seen_since >= STILL:
                for watched, version in zip(self.documents, versions, strict=True):
                    before = watched.documents.version
                    if version == before:
                        continue
                    self._waits = False
                    self._try(partial(self._update, watched), watched.documents.path)
                    if self._waits:  # for another run of `ap-ranker index`, or for the cluster
                        watched.documents.version = before
                        pause = max(pause, INDEX_SECONDS)
                if checkpoint != self._checkpoint:
                    self._checkpoint = checkpoint  # even if it cannot be used, so that the same error is not met again
                    self._waits = False
                    self._try(self._switch, self._search.path)
                    if self._waits:  # for `ap-ranker index`, which makes the checkpoint's index
                        self._checkpoint = None
                        pause = max(pause, INDEX_SECONDS)

    def _try(self, change: Callable[[], None], place: Path) -> None:
        try:
            with report_store_errors(self._search.path, self._search.place):
                change()
        except LockedIndexError:
            self._waits = True
        except MissingIndexError as error:
            self._waits = True
            if str(error) != self._missing:
                self._missing = str(error)
                logger.warning("%s The search goes on with the checkpoint and the index of before until then.", error)
        except InputError as error:
            logger.warning("%s The search goes on with what was read before.", error)
        except Exception:  # a defect of ours must not end the thread
            logger.exception("%s: the search goes on with what was read before.", place)

    def _switch(self) -> None:
        """Let another pipeline that has the checkpoint of now take the place of this one, unless it changes again."""
        new, documents = self._setup.load()
        own_names = _names_in_memory(self._search)
        new_names = _names_in_memory(new)
        if None in own_names or own_names & new_names:
            expected = "expected documents in memory, which each of two pipelines has for itself"
            raise InputError(
                f"{new.path}: {expected}, found {new.place}. Restart the server to use its new checkpoint."
            )
        if self._encode:
            self._setup.warm_up(new, documents)
        else:
            self._setup.warm_up(new, ())
            for part in components_of(new.pipeline):
                if hasattr(part, "close"):
                    part.close()
        if self._setup.look(self._search) == new.version:
            self._search.become(new)
            self.documents = _watched_documents(new, self._setup)
            leave_what_lives()  # and nothing of the pipeline before
            logger.info("The checkpoint has changed, and ranks from now on.")
            self._setup.log_choice()

    def _update(self, watched: _WatchedDocuments) -> None:
        """Let the stores hold the documents as they are now."""
        files_before, overlay_before = watched.documents.version
        unchanged_before = watched.documents.unchanged
        entries_before = watched.documents.entries
        documents = _documents_by_id(watched.documents.read(), watched.match)
        retrievers = [part for part in components_of(self._search.pipeline) if isinstance(part, HybridRetriever)]
        if watched.indexed:
            if watched.documents.version.files != files_before:
                self._tell_unwritten(watched, unchanged_before)
            if self._write:
                self._write_changes(watched, entries_before, unchanged_before, overlay_before)
        added = removed = 0
        for store in watched.stores:
            stored = store.document_ids()
            new = [document for document_id, document in documents.items() if document_id not in stored]
            gone = stored - documents.keys()
            if self._encode:
                for retriever in retrievers:
                    if retriever.document_store is store:
                        new = retriever.embedded(new)  # first: the ranker finds what it has encoded
                self._search.encode(new, self._setup.limits)
            store.exchange_documents(new, gone)
            added = len(new)
            removed = len(gone)
        is_embedding = any(retriever.embeds_now for retriever in retrievers)
        if self._encode and not is_embedding:  # else the thread that embeds does it itself
            self._search.pipeline.warm_up()  # encodes new wordings
            flush_encodings()
        if added or removed:
            place = watched.documents.path
            logger.info("%s has changed. New entries: %s; gone: %s.", place, f"{added:,}", f"{removed:,}")
            if removed:  # wordings in a file may have named one of these by its answer
                log_wordings_of_no_entry(self._setup.wordings, watched.documents.entries, watched.match)

    def _write_changes(
        self, watched: _WatchedDocuments, entries_before: Sequence[Entry], in_file: list[Entry], version: Hashable
    ) -> None:
        """Write what the owner has changed into the indexes; until that has succeeded, it is tried again.

        The entries of before are those of the overlay's `version` on what was `in_file`, as its file may have changed.
        """
        documents = watched.documents
        entries_read = entries_before
        if documents.version.overlay != version:
            entries_read = documents.laid(in_file)
            self._unwritten.add(entries_before, entries_read, watched.match)
        if not self._unwritten:
            return

        def read() -> tuple[list[Document], set[str]]:
            """What is unwritten now, while no other server writes."""
            nonlocal entries_read
            entries_now = documents.laid(in_file)
            self._unwritten.add(entries_read, entries_now, watched.match)
            entries_read = entries_now
            return list(self._unwritten.new.values()), self._unwritten.gone

        self._waits = True
        for retriever in watched.indexed:
            target = find_target(retriever.document_store, None, [retriever])
            assert target is not None
            write_changes(target, read)
        self._unwritten = _OwnersChanges({}, set())
        self._waits = False

    def unwritten(self) -> int:
        """How many changes of the file, since this server began, its index does not have yet; one request."""
        return self._in_file.count(self._search.index_retriever())

    def _tell_unwritten(self, watched: _WatchedDocuments, before: Sequence[Entry]) -> None:
        """Say that what has changed in the file is not searched yet: no server writes a file into an index."""
        had = _documents_by_id(before, watched.match).keys()
        has = _documents_by_id(watched.documents.unchanged, watched.match).keys()
        if had == has:
            return
        self._in_file.add(had, has)
        logger.warning(
            "%s has changed, and %s does not follow it. New entries: %s; gone: %s. Write them: ap-ranker index",
            watched.documents.path,
            self._search.place,
            f"{len(has - had):,}",
            f"{len(had - has):,}",
        )


def write_missed_changes(setup: SearchSetup) -> None:
    """Write what the owner has changed, and no server has written: the last one may have been killed between the two.

    InputError as of `write_changes`.
    """
    watched = setup.documents
    if watched is None or watched.entries == watched.unchanged:
        return
    in_file = _documents_by_id(watched.unchanged, setup.match)
    now = _documents_by_id(watched.entries, setup.match)
    missed = _FileChanges(now.keys() - in_file.keys(), in_file.keys() - now.keys())
    search = DeclaredPipeline.load(setup.pipeline, setup.current())
    with report_store_errors(search.path, search.place):
        retriever = search.index_retriever()
        if retriever is None or not missed.count(retriever):
            return
        target = find_target(retriever.document_store, None, [retriever])
        assert target is not None
        new = [now[document_id] for document_id in sorted(missed.new)]
        write_changes(target, lambda: (new, missed.gone))
    logger.info("What the owner had changed is in the index now, too.")


def _documents_by_id(entries: Sequence[Entry], match: Match) -> dict[str, Document]:
    """The documents of a FAQ's entries."""
    documents: dict[str, Document] = {}
    for entry in entries:
        document = to_document(entry, match)
        documents[document.id] = document
    return documents


def _names_in_memory(search: DeclaredPipeline) -> set[str | None]:
    """What tells the stores of two pipelines apart; `None` stands for a store that both may have.

    Stores in Elasticsearch are left out: there, each checkpoint has an index of its own.
    """
    names: set[str | None] = set()
    for store in find_stores(search.pipeline):
        if not isinstance(store, ElasticsearchFAQStore):
            names.add(getattr(store, "index", None))
    return names


def _watched_documents(search: DeclaredPipeline, setup: SearchSetup) -> list[_WatchedDocuments]:
    """The documents of a setup, or else those that the stores of its pipeline's file name."""
    in_memory: list[BM25SDocumentStore] = []
    for store in find_stores(search.pipeline):
        if isinstance(store, BM25SDocumentStore) and store.path is None:
            in_memory.append(store)
    parts = components_of(search.pipeline)
    indexed = [part for part in parts if isinstance(part, ElasticsearchFAQRetriever)]
    if setup.documents is not None:
        is_watched = bool(in_memory or indexed)
        if is_watched:
            return [_WatchedDocuments(setup.documents, setup.match, in_memory, indexed)]
        return []
    watched: list[_WatchedDocuments] = []
    for store in in_memory:
        if store.documents is not None:
            documents = WatchedFolder(Path(store.documents))
            documents.version = documents.look()  # the store has read them
            watched.append(_WatchedDocuments(documents, Match(store.match), [store]))
    return watched
