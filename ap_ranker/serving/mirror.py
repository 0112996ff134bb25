"""A FAQ file mirrored in a document store that lasts, as often as the file changes."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ap_ranker.data.faq import DEFAULT_MATCH, Match, read_faq
from ap_ranker.errors import InputError
from ap_ranker.serving.stores import find_pipeline, find_stores, load_pipeline, one_clear_message, place_of

if TYPE_CHECKING:
    from haystack import Document, Pipeline

MARK = "ap_ranker_key"
"""The field of the meta that marks what `mirror` wrote: a number below `KEYS` computed from the document's id."""
KEYS = 2**32
LISTED = 5_000
"""About how many documents are listed at once; Elasticsearch lists 10,000 at most."""
BATCH = 500
"""How many documents are written at once."""


@dataclass(frozen=True)
class IndexChanges:
    """What a run found to do, in entries.

    Attributes:
        added: entries that were not in the store.
        changed: entries that took the place of an older version.
        removed: entries that the file no longer has.
        unchanged: entries that the store had already.
    """

    added: int
    changed: int
    removed: int
    unchanged: int

    @property
    def total(self) -> int:
        """How many entries the store holds after the run."""
        return self.added + self.changed + self.unchanged


@dataclass(frozen=True)
class IndexReport:
    """What `index_faq` did.

    Attributes:
        place: where the store is, in words.
        changes: to its documents.
        duplicates: entries of the file that were left out as equal to another one.
    """

    place: str
    changes: IndexChanges
    duplicates: int


def index_faq(
    faq: str | Path,
    pipeline: str | Path,
    match: Match = DEFAULT_MATCH,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> IndexReport:
    """Make the document store of a pipeline hold a FAQ: entries are added, changed and removed as the file says.

    Documents that others wrote into the store are left alone. An interrupted run goes on when it is started again.

    Args:
        faq: a file with columns question and answer.
        pipeline: the YAML file of a Haystack pipeline with one document store.
        match: which text of an entry is compared with the question.
        on_progress: called with how many of the entries are in the store, and how many are wanted.

    Raises:
        InputError: a file cannot be read, the pipeline has no store that lasts, or its store or server fails.
    """
    from haystack_integrations.document_stores.ap_ranker.entries import to_document

    documents = [to_document(entry, match) for entry in read_faq(Path(faq))]
    store = _only_store(Path(pipeline))
    with one_clear_message(Path(pipeline), place_of(store)):
        changes = mirror(store, documents, on_progress=on_progress)
    return IndexReport(place_of(store), changes, len(documents) - changes.total)


def mirror(
    store: Any,
    documents: Iterable[Document],
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    listed: int = LISTED,
    batch: int = BATCH,
) -> IndexChanges:
    """Make the documents that an earlier call wrote into a store equal to these, and leave all others alone.

    A document's id is computed from its content and meta, so a stored id that is wanted needs no look at its text, and
    a changed entry is a new document in the place of an old one. New ones are written before old ones are deleted:
    whenever a run ends, every entry that the file still has is in the store, and the next run completes it.

    Args:
        store: has Haystack's protocol: `count_documents`, `filter_documents`, `write_documents`, `delete_documents`.
        documents: with ids that Haystack computed; of equal ones, one is written.
        on_progress: called with how many of the wanted documents are in the store, and how many are wanted.
        listed: about how many documents are listed at once.
        batch: how many are written or deleted at once.

    Raises:
        InputError: the store does not find or does not delete what it should; says why.
    """
    unique = {document.id: _marked(document) for document in documents}
    wanted = sorted(unique.values(), key=_key)
    missing: list[Document] = []
    stale: list[Document] = []
    pieces = 1 + max(len(wanted), store.count_documents()) // listed
    done = 0
    for low, high in pairwise(KEYS * piece // pieces for piece in range(pieces + 1)):
        here = wanted[bisect_left(wanted, low, key=_key) : bisect_left(wanted, high, key=_key)]
        stored = _stored(store, low, high)
        new = [document for document in here if document.id not in stored]
        missing += new
        stale += [document for name, document in stored.items() if name not in unique]
        done += len(here) - len(new)
        on_progress(done, len(wanted))

    for start in range(0, len(missing), batch):
        _write(store, missing[start : start + batch])
        if start == 0:
            _check_found(store, missing[0])
        on_progress(done + min(start + batch, len(missing)), len(wanted))
    for start in range(0, len(stale), batch):
        _delete(store, [document.id for document in stale[start : start + batch]])

    changed = (Counter(map(_entry, missing)) & Counter(map(_entry, stale))).total()
    return IndexChanges(len(missing) - changed, changed, len(stale) - changed, done)


def _marked(document: Document) -> Document:
    """With the same id, so that `ap-ranker ask --documents` takes a stored entry as its own."""
    return replace(document, meta={**document.meta, MARK: zlib.crc32(document.id.encode())})


def _key(document: Document) -> int:
    return int(document.meta[MARK])


def _entry(document: Document) -> str:
    """What stays the same when an entry changes: its `aid` if the file has that column, or else its question."""
    meta = document.meta
    return str(meta.get("aid") or meta.get("question") or meta.get("answer"))


def _stored(store: Any, low: int, high: int) -> dict[str, Document]:
    """The marked documents with keys from `low` to below `high`, by id."""
    filters = {
        "operator": "AND",
        "conditions": [
            {"field": f"meta.{MARK}", "operator": ">=", "value": low},
            {"field": f"meta.{MARK}", "operator": "<", "value": high},
        ],
    }
    for _ in range(5):
        documents = store.filter_documents(filters)
        by_id = {document.id: document for document in documents}
        # Elasticsearch lists in pages, in no set order: one document twice may be another one not at all.
        if len(by_id) == len(documents):
            return by_id
    raise InputError(
        "Expected a list of the stored documents, found some of them twice in five attempts. Let other writers finish "
        "and run the same command again."
    )


def _write(store: Any, documents: list[Document]) -> None:
    from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy

    try:
        store.write_documents(documents, policy=DuplicatePolicy.FAIL)
    except DuplicateDocumentError:  # some are there without the mark, as `ap-ranker ask --documents` writes them
        try:
            store.write_documents(documents, policy=DuplicatePolicy.OVERWRITE)
        except KeyError as error:  # elasticsearch-haystack looks for the reason where it stands for other policies
            raise DocumentStoreError("The server did not say which, nor why.") from error


def _check_found(store: Any, document: Document) -> None:
    if document.id not in _stored(store, _key(document), _key(document) + 1):
        raise InputError(
            f"Expected to find what was written by its field {MARK!r}, found nothing: the index was made with a "
            f"mapping that leaves the field out. Add it ({MARK}: {{type: long}}), or choose another index."
        )


def _delete(store: Any, ids: list[str]) -> None:
    store.delete_documents(ids)
    left = store.filter_documents({"field": "id", "operator": "in", "value": ids})
    if left:  # elasticsearch-haystack keeps quiet about a document that was not deleted
        raise InputError(
            f"Expected {len(ids):,} old entries to be deleted, found {len(left):,} of them still there. Check that the "
            "index is not read-only, and run the same command again."
        )


def _only_store(path: Path) -> Any:
    """The store of the pipeline in a file."""
    path = find_pipeline(path)
    pipeline, _ = load_pipeline(path)
    stores = find_stores(pipeline)
    if not stores or any(store.to_dict() != stores[0].to_dict() for store in stores):
        raise InputError(f"{path}: expected a pipeline with one document store, found {len(stores)}.")
    _check_writers(pipeline, path)
    if _in_memory(stores[0]):
        raise InputError(
            f"{path}: expected a document store that lasts, found {place_of(stores[0])} in memory, which ends with "
            "this command. Give it a path, or use `ap-ranker ask --documents`."
        )
    return stores[0]


def _check_writers(pipeline: Pipeline, path: Path) -> None:
    from haystack.components.writers import DocumentWriter

    for name in pipeline.graph.nodes:
        senders = sorted(pipeline.graph.predecessors(name))
        if isinstance(pipeline.get_component(name), DocumentWriter) and senders:
            raise InputError(
                f"{path}: expected a writer that takes the entries as they are, found {name!r} behind "
                f"{', '.join(senders)}. Run such a pipeline with Haystack."
            )


def _in_memory(store: Any) -> bool:
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

    return isinstance(store, InMemoryDocumentStore) or (isinstance(store, BM25SDocumentStore) and store.path is None)
