"""Makes the index of a FAQ for a checkpoint in Elasticsearch, beside those that are searched, and puts it in place."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from haystack import Document

from ap_ranker.errors import InputError
from ap_ranker.ranking.faq_sketch import FAQSketch
from ap_ranker.ranking.wordings import EMBEDDED_BY
from ap_ranker.search.elasticsearch.index_changes import IndexChanges, IndexComparison
from ap_ranker.search.elasticsearch.index_cluster import Cluster, Stored, make_index
from ap_ranker.search.elasticsearch.index_layout import Layout
from ap_ranker.search.elasticsearch.index_lock import BRIEF, IndexLock, Range, locked_index
from ap_ranker.search.index_source import Embed, entry_key, marked, sources_of
from haystack_integrations.common.ap_ranker.entries import MARK
from haystack_integrations.document_stores.ap_ranker.elasticsearch_documents import read_document
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import (
    FIELDS_VERSION,
    MADE_BY,
    OF_INDEX,
    ElasticsearchFAQStore,
)

KEYS = 2**32
"""The numbers that mark documents of ours are below it."""

BATCH = 256
"""Number of documents embedded before they are written; an interrupted run loses as many."""

WRITERS = 2
"""Number of batches written at once, while the next one is embedded."""

SAMPLE = 16
"""Number of documents whose vectors are read back."""

NEAREST = 0.999
"""The cosine from which on a vector is the one that was written. Where the index searches with 8-bit numbers, the exact
ones are kept, too, and compared here."""


@dataclass(frozen=True)
class IndexTarget:
    """
    What an index is made for.

    `maker` is the name of what makes it (`index_maker`), `embed` copies documents with what the checkpoint makes of
    them: vectors, of `dimensions` numbers, and states. `embed_wordings` makes the vectors of known wordings. Without a
    model that has any, `dimensions` and `embed_wordings` are `None`; without a checkpoint, `embed` is so, too.
    """

    store: ElasticsearchFAQStore
    maker: str
    language: str | None
    origin: str = ""
    dimensions: int | None = None
    embed: Callable[[list[Document]], list[Document]] | None = None
    embed_wordings: Embed | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def index(self) -> str:
        """The name of the index."""
        return self.store.index_of(self.maker)

    @property
    def made_by(self) -> str:
        """What says of a document that it has all that this release writes for the index."""
        return f"{self.maker}-{FIELDS_VERSION}"


UNUSED_SECONDS = 24 * 3600.0
"""How long nobody has searched an index that is deleted: a server may not have the newest checkpoints yet."""

OFF = "-1"
"""The refresh interval of an index that is being made."""

CompareIndex = Callable[[str, str | None, Mapping[str, Any]], IndexComparison]
"""Asks an index questions, given its name, that of the index before, if any, and the notes of that one."""


def build_index(
    target: IndexTarget,
    documents: Iterable[Document],
    *,
    part: tuple[int, int] = (1, 1),
    test: CompareIndex | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> IndexChanges:
    """
    Let the index of a target hold these documents and no other ones of ours, and let the FAQ's name mean that index.

    The index is made beside those that are searched. `part` (p, n): this run writes the p-th of n ranges of keys, on a
    machine of its own; the name moves when all have run. With a `test`, it stays where it is if the search in the index
    before is better; a run without one moves it. An interrupted run is continued by running it again.
    InputError if another run writes, the index has another layout, the cluster refuses a document, or holds other
    documents in the end than it should.
    """
    builder = _Builder(target, part, on_progress)
    return builder.run(documents, test)


ReadChanges = Callable[[], tuple[Sequence[Document], Collection[str]]]
"""Reads what has changed: new documents, and the ids of those that are gone."""


def write_changes(target: IndexTarget, read: ReadChanges) -> None:
    """
    Write new documents into every index of a FAQ that is kept, and delete those that are gone, and nothing else.

    Of several servers, one at a time reads and writes, and only what no other one has written. In the index of the
    target they have vectors; in the others they are found by words and known wordings until `build_index` runs with
    those checkpoints. What the FAQ's name means stays. InputError as of `build_index`.
    """
    builder = _Builder(target, (1, 1), lambda done, total: None)
    builder.change(read)


def go_back(store: ElasticsearchFAQStore) -> str:
    """Let a FAQ's name mean the index that it meant before; its name. InputError if there is none."""
    cluster = Cluster(store.client, store.index)
    with locked_index(cluster.client, f"{store.index}-lock", (0, KEYS)):
        current = cluster.current()
        kept = cluster.notes_of_indexes()
        before = kept.get(current or "", {}).get("previous")
        if current is None or before not in kept:
            raise InputError(
                f"Expected an index of {store.index!r} before the one that is searched, found none. "
                "`ap-ranker index` keeps one when it makes one for another checkpoint."
            )
        _note(cluster, before, kept[before] | {"previous": current})
        cluster.move_alias(before)
    return str(before)


def _note(cluster: Cluster, index: str, notes: Mapping[str, Any]) -> None:
    """Write the notes of an index beside whatever else its mapping's `_meta` says."""
    description = cluster.description(index)
    meta: dict[str, Any] = {}
    if description is not None:
        _, mapping = description
        meta |= mapping.get("_meta", {})
    meta[OF_INDEX] = dict(notes)
    cluster.client.indices.put_mapping(index=index, meta=meta)


class _Builder:
    """One run of `build_index`."""

    def __init__(self, target: IndexTarget, part: tuple[int, int], on_progress: Callable[[int, int], None]) -> None:
        self.target = target
        self.index = target.index
        self.cluster = Cluster(target.store.client, target.store.index)
        self.part = part
        number, parts = part
        self.keys: Range = (KEYS * (number - 1) // parts, KEYS * number // parts)
        self.on_progress = on_progress
        self.embedded: list[Document] = []  # a sample
        self.refresh_interval: object = OFF  # of the index as it was found

    def run(self, documents: Iterable[Document], test: CompareIndex | None) -> IndexChanges:
        name = self.target.store.index
        entries = {document.id: marked(document) for document in documents}
        own_entries = self._of_this_part(entries)
        with locked_index(self.cluster.client, f"{name}-lock", self.keys) as lock:
            before = self.cluster.current()
            layout = Layout.read(
                self.target.store.settings,
                language=self.target.language,
                dimensions=self.target.dimensions,
                fields=self.target.store.fields,
            )
            rewrite = self._open(layout)
            stored = self.cluster.list_ours(self.index, self.keys)
            done = {} if rewrite else stored
            changes = self._synchronize(lock, own_entries, done, stored)
            self._read_others(lock, before, entries)
            self.cluster.client.indices.refresh(index=self.index)
            self._check(own_entries, changes)
            self._update_kept(lock, own_entries)
            if not self._all_parts_have_run(entries):
                return changes
            if test is not None:
                notes = {} if before is None else self.cluster.notes_of_indexes().get(before, {})
                changes = replace(changes, comparison=test(self.index, before, notes))
                lock.check()
            if changes.comparison is None or not changes.comparison.is_worse:
                self._finish(layout, before, entries)
        return changes

    def _of_this_part(self, entries: Mapping[str, Document]) -> dict[str, Document]:
        """The entries that this run writes: those with keys of its range."""
        first, end = self.keys
        own_entries: dict[str, Document] = {}
        for document_id, document in entries.items():
            if first <= document.meta[MARK] < end:
                own_entries[document_id] = document
        return own_entries

    def change(self, read: ReadChanges) -> None:
        """As `write_changes`."""
        with locked_index(self.cluster.client, f"{self.target.store.index}-lock", self.keys, alive=BRIEF) as lock:
            new, gone = read()
            documents = list(map(marked, new))
            notes_of_indexes = self._complete_indexes()
            if self.index not in notes_of_indexes:
                raise self.target.store.missing(self.index)
            lock.check()
            self._change_own(documents, gone)
            for index, notes in notes_of_indexes.items():
                if index != self.index:
                    lock.check()
                    self._change_other(index, notes, documents, gone)
            lock.sign()  # whoever has taken over has read the changes later, and this is tried again

    def _change_own(self, documents: Sequence[Document], gone: Collection[str]) -> None:
        """Write into the index of the target, with vectors, what it lacks of documents, and delete what is gone."""
        stored = self._stored(self.index, documents, gone)
        missing: list[Document] = []
        for document in documents:
            in_index = stored.get(document.id)
            if in_index is None or in_index.made_by != self.target.made_by:
                missing.append(document)
        actions = list(self._actions(missing)) if missing else []
        actions += [_deletion(document_id) for document_id in gone if document_id in stored]
        if actions:
            self.cluster.write(self.index, actions, refresh=True)

    def _change_other(
        self, index: str, notes: Mapping[str, Any], documents: Sequence[Document], gone: Collection[str]
    ) -> None:
        """As `_change_own`, in the index of another checkpoint, without vectors."""
        stored = self._stored(index, documents, gone)
        missing = [document for document in documents if document.id not in stored]
        stale = [document_id for document_id in gone if document_id in stored]
        if missing or stale:
            self._change(index, notes, missing, stale)

    def _stored(self, index: str, documents: Sequence[Document], gone: Collection[str]) -> Mapping[str, Stored]:
        """What an index has of these documents, and of those that are gone."""
        ids = [document.id for document in documents]
        return self.cluster.list_those_of(index, [*ids, *gone])

    def _complete_indexes(self) -> dict[str, dict[str, Any]]:
        """The notes of the FAQ's indexes that a run has finished, by their names."""
        complete: dict[str, dict[str, Any]] = {}
        for index, notes in self.cluster.notes_of_indexes().items():
            if notes.get("complete"):
                complete[index] = notes
        return complete

    def _open(self, layout: Layout) -> bool:
        """Make the index, or check its layout; whether all must be written again for fields that are new."""
        client = self.cluster.client
        description = self.cluster.description(self.index)
        if description is None:
            settings = {**layout.settings, "refresh_interval": OFF}
            if make_index(client, self.index, settings=settings, mappings=layout.with_notes(self._notes(False))):
                return False
            description = self.cluster.description(self.index)
            assert description is not None, "it is there"
        index_settings, mapping = description
        self.refresh_interval = index_settings.get("refresh_interval")
        differences = layout.differences(index_settings, mapping)
        if differences:
            raise InputError(
                f"Expected the index {self.index!r} as this command makes it, found another layout: "
                f"{'; '.join(differences)}. Delete that index, and the command makes it anew, or change the settings."
            )
        missing = layout.missing_fields(mapping)
        if missing:
            client.indices.put_mapping(index=self.index, properties=missing)
        if any(str(index_settings.get(name)) != str(value) for name, value in layout.changeable.items()):
            client.indices.put_settings(index=self.index, settings=layout.changeable)
        return bool(missing)

    def _notes(self, complete: bool) -> dict[str, Any]:
        target = self.target
        notes: dict[str, Any] = {
            "faq": target.store.index,
            "made_by": target.maker,
            "origin": target.origin,
            "language": target.language,
        }
        notes |= target.notes
        notes["complete"] = complete
        return notes

    def _synchronize(
        self,
        lock: IndexLock,
        entries: Mapping[str, Document],
        done: Mapping[str, Stored],
        stored: Mapping[str, Stored],
    ) -> IndexChanges:
        """Write what is missing, and then delete what is no entry any more."""
        missing: list[Document] = []
        for document_id, document in entries.items():
            in_index = done.get(document_id)
            if in_index is None or in_index.made_by != self.target.made_by:
                missing.append(document)
        stale = [document_id for document_id in stored if document_id not in entries]
        n_finished = len(entries) - len(missing)

        def report_written(n_written: int) -> None:
            self.on_progress(n_finished + n_written, len(entries))

        report_written(0)
        self._write(lock, missing, report_written)
        lock.check()
        self.cluster.write(self.index, [_deletion(document_id) for document_id in stale])
        new = [document for document in missing if document.id not in stored]
        return IndexChanges.count(
            new=list(map(entry_key, new)),
            written_again=len(missing) - len(new),
            deleted=[stored[document_id].entry or "" for document_id in stale],
            unchanged=n_finished,
        )

    def _write(
        self, lock: IndexLock, documents: Sequence[Document], on_written: Callable[[int], None] = lambda written: None
    ) -> None:
        """Embed documents, a batch at a time, while those before are being written."""
        waiting: list[Future[None]] = []
        with ThreadPoolExecutor(WRITERS, "index") as writers:
            for start in range(0, len(documents), BATCH):
                lock.check()
                actions = list(self._actions(list(documents[start : start + BATCH])))
                waiting.append(writers.submit(self.cluster.write, self.index, actions))
                if len(waiting) > WRITERS:
                    waiting.pop(0).result()
                on_written(min(start + BATCH, len(documents)))
            for writing in waiting:
                writing.result()

    def _actions(self, documents: list[Document]) -> Iterator[dict[str, Any]]:
        target = self.target
        if target.embed is not None:
            documents = target.embed(documents)
            self.embedded += documents[:1]
        sources = sources_of(documents, target.made_by, target.language, target.embed_wordings)
        for document, source in zip(documents, sources, strict=True):
            yield _insertion(document, source)

    def _read_others(self, lock: IndexLock, before: str | None, entries: Mapping[str, Document]) -> None:
        """Documents of other writers stay: those of the index before come along, those of this one can be searched."""
        for index in dict.fromkeys([self.index, before or self.index]):
            foreign: list[Document] = []
            for hit in self.cluster.list_others(index, self.target.made_by):
                if hit["_id"] in entries or MARK in hit["_source"]:
                    continue
                document = read_document(hit["_id"], hit["_source"])
                if document is not None:
                    foreign.append(_without_vector(document))
            self._write(lock, foreign)

    def _check(self, entries: Mapping[str, Document], changes: IndexChanges) -> None:
        """Read back what is there: the number of entries, and some vectors."""
        bounds = {"range": {MARK: {"gte": self.keys[0], "lt": self.keys[1]}}}
        made = {"term": {MADE_BY: self.target.made_by}}
        n_ours, n_made = self.cluster.counts(self.index, bounds, made)
        if not n_ours == n_made == len(entries) == changes.total:
            raise InputError(
                f"Expected {len(entries):,} entries in the index {self.index!r}, found {n_ours:,}, of which {n_made:,} "
                "were made by this checkpoint. Somebody else may be writing; run the command again."
            )
        if self.target.embed is None or self.target.dimensions is None:
            return
        sample = self.embedded[-SAMPLE:] or self.target.embed(list(entries.values())[:SAMPLE])
        for document in sample:
            self._check_vector(document)

    def _check_vector(self, document: Document) -> None:
        vector = document.embedding
        script = {
            "source": "doc['embedding'].size() == 0 ? 0 : cosineSimilarity(params.vector, 'embedding') + 1",
            "params": {"vector": vector},
        }
        search = {"script_score": {"query": {"ids": {"values": [document.id]}}, "script": script}}
        answer = self.cluster.client.search(
            index=self.index, size=1, query=search, source=False, allow_partial_search_results=False
        )
        hits = answer["hits"]["hits"]
        # Elasticsearch allows no negative score, so that the script has added 1.
        cosine = hits[0]["_score"] - 1 if hits else -1.0
        if cosine < NEAREST:
            raise InputError(
                f"Expected the vector of the entry {document.id!r} in the index {self.index!r} as it was written, "
                f"found one with a cosine of {cosine:.3f} to it. Delete that index, and run the command again."
            )

    def _update_kept(self, lock: IndexLock, entries: Mapping[str, Document]) -> None:
        """
        What the FAQ no longer has is in no index that is kept, and what is new is in each of them.

        There it is found by words and known wordings, until the command runs with that index's checkpoint.
        """
        for index, notes in self._complete_indexes().items():
            if index == self.index:
                continue
            lock.check()
            stored = self.cluster.list_ours(index, self.keys)
            new = [document for document_id, document in entries.items() if document_id not in stored]
            stale = [document_id for document_id in stored if document_id not in entries]
            if new or stale:
                self._change(index, notes, new, stale)

    def _change(self, index: str, notes: Mapping[str, Any], new: Sequence[Document], gone: Collection[str]) -> None:
        """Write documents without vectors into an index, and delete others."""
        sources = sources_of(new, "", notes.get("language"), None)
        actions = [_insertion(document, source) for document, source in zip(new, sources, strict=True)]
        actions += [_deletion(document_id) for document_id in gone]
        self.cluster.write(index, actions, refresh=True)

    def _finish(self, layout: Layout, before: str | None, entries: Mapping[str, Document]) -> None:
        """Let the FAQ's name mean the index; remove those that are not searched any more, but for the one before."""
        client = self.cluster.client
        index = self.index
        kept = self.cluster.notes_of_indexes()
        texts = [document.content or "" for document in entries.values()]
        notes = kept[index] | self._notes(True)
        notes["sketch"] = asdict(FAQSketch.of(texts))
        notes["at"] = time.time()
        if before not in (None, index, self.target.store.index):
            notes["previous"] = before
        refresh_interval = layout.settings.get("refresh_interval")  # off while the index was being made
        if self.refresh_interval != refresh_interval:
            client.indices.put_settings(index=index, settings={"refresh_interval": refresh_interval})
        _note(self.cluster, index, notes)
        if before != index:
            self.cluster.move_alias(index)
        for other, theirs in kept.items():
            is_older = other not in (index, notes.get("previous")) and theirs.get("complete")
            if is_older and self._is_unused(other, theirs):
                client.indices.delete(index=other)

    def _is_unused(self, index: str, notes: Mapping[str, Any]) -> bool:
        """Whether nobody has searched an index since an earlier run, a day ago or more; else that is noted anew."""
        searches = self.cluster.searches_by_others(index)
        counted = notes.get("searches", {})
        if counted.get("number") == searches:
            return bool(time.time() - counted["since"] >= UNUSED_SECONDS)
        _note(self.cluster, index, {**notes, "searches": {"number": searches, "since": time.time()}})
        return False

    def _all_parts_have_run(self, entries: Mapping[str, Document]) -> bool:
        """Whether each part has written its entries of this very FAQ; the last one to see so finishes."""
        number, parts = self.part
        if parts == 1:
            return True
        index = f"{self.target.store.index}-lock"
        client = self.cluster.client
        all_ids = "".join(sorted(entries))
        digest = blake2b(all_ids.encode(), digest_size=8).hexdigest()
        names = [f"done-{self.target.made_by}-{digest}-{part}-of-{parts}" for part in range(1, parts + 1)]
        client.index(index=index, id=names[number - 1], document={"done": True}, refresh=True)
        answer = client.mget(index=index, ids=names, realtime=True)
        return all(document["found"] for document in answer["docs"])


def _insertion(document: Document, source: Mapping[str, Any]) -> dict[str, Any]:
    """The action of a bulk request that writes a document."""
    return {"_op_type": "index", "_id": document.id, "_source": source}


def _deletion(document_id: str) -> dict[str, Any]:
    """The action of a bulk request that deletes a document."""
    return {"_op_type": "delete", "_id": document_id}


def _without_vector(document: Document) -> Document:
    """A document of another writer, to be embedded by this checkpoint."""
    meta = dict(document.meta)
    meta.pop(EMBEDDED_BY, None)
    return Document(id=document.id, content=document.content, meta=meta)


def vectors_of(embed: Callable[[Sequence[str]], Any]) -> Embed:
    """A ranker's vectors of known wordings as numbers."""

    def embed_wordings(texts: Sequence[str]) -> np.ndarray:
        return np.asarray(embed(texts))

    return embed_wordings
