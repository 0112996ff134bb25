"""Keeps a document store that lasts equal to a FAQ or documents, with the embeddings of its pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from haystack import Document
from haystack.components.writers import DocumentWriter
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy

from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.documents import read_entries
from ap_ranker.documents.watched_folder import Overlay
from ap_ranker.errors import InputError
from ap_ranker.ranking.wordings import EMBEDDED_BY
from ap_ranker.search.default_pipelines import find_pipeline
from ap_ranker.search.elasticsearch.build_index import build_index, go_back
from ap_ranker.search.elasticsearch.index_changes import IndexChanges
from ap_ranker.search.elasticsearch.index_target import elasticsearch_of, find_target
from ap_ranker.search.index_source import entry_of, marked
from ap_ranker.search.lasting_stores import is_lasting
from ap_ranker.search.load_pipeline import (
    components_of,
    describe_store,
    find_stores,
    load_pipeline,
    report_store_errors,
)
from haystack_integrations.common.ap_ranker.entries import MARK, to_document
from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder
from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever, HybridRetriever

KEYS = 2**32
"""The numbers that mark synchronised documents are below it."""

LISTED = 5_000
"""Number of documents to list at once, about; Elasticsearch allows 10,000."""

BATCH = 500
"""Number of documents to write or delete at once."""


def index_faq(
    faq: str | Path,
    pipeline: str | Path,
    match: Match = DEFAULT_MATCH,
    *,
    columns: tuple[str, str] | None = None,
    language: str | None = None,
    part: tuple[int, int] = (1, 1),
    overlay: Overlay | None = None,
    test: str | Path | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_embedded: Callable[[int, int], None] = lambda done, total: None,
    on_tested: Callable[[int, int], None] = lambda done, total: None,
) -> IndexChanges:
    """Synchronize the document store of a pipeline's file with a FAQ or documents: add, change and remove entries.

    Documents from other sources are not touched. To continue an interrupted run, run it again. In Elasticsearch, each
    checkpoint has an index of its own (`build_index`, which also says what a `part` is); `language` is that of the
    analyzers where no checkpoint says it. `test` are questions, a file or a folder with `test.*`, that a new index is
    asked before it is searched; if the search before answers them better, that stays, and the changes say so. The
    `overlay`, such as the owner's changes, is laid over the entries. In
    other stores, an `APDocumentEmbedder` before the pipeline's writer, or a `HybridRetriever`, embeds what it has not
    embedded yet. `on_progress` is called with the number of entries in the store and their total, and `on_embedded`,
    by a `HybridRetriever`, with that of embedded ones; `on_tested` with that of questions. `match` and `columns` are as
    for `set_up`.
    InputError if a file cannot be read, the pipeline has no persistent store, or its store or server fails.
    """
    entries = read_entries(Path(faq), columns)
    laid = entries if overlay is None else overlay.lay(entries)
    documents = [to_document(entry, match) for entry in laid]
    store, embedder, retrievers = _parts(Path(pipeline))
    place = describe_store(store)
    index_test = None
    if test is not None:
        from ap_ranker.data.reader import read_dataset
        from ap_ranker.search.elasticsearch.index_comparison import IndexTest

        data = read_dataset(test, "test", answers=Path(faq), match=match, columns=columns)
        index_test = IndexTest(Path(pipeline), data, on_tested).compare
    with report_store_errors(Path(pipeline), place):
        target = find_target(store, embedder, retrievers, language)
        if target is not None:
            changes = build_index(target, documents, part=part, test=index_test, on_progress=on_progress)
        elif part != (1, 1) or language is not None:
            raise InputError(
                f"{pipeline}: expected an index of Elasticsearch for --part and --language, found {place}. Leave the "
                "option out."
            )
        else:
            changes = sync_documents(store, documents, embedder, on_progress=on_progress)
            for retriever in retrievers:
                retriever.embed_documents(on_embedded)
    return replace(changes, duplicates=len(documents) - _unique(documents), place=place)


def _unique(documents: Iterable[Document]) -> int:
    return len({document.id for document in documents})


def index_back(pipeline: str | Path) -> str:
    """Let the FAQ's name in Elasticsearch mean the index that it meant before; its name."""
    store, _, _ = _parts(Path(pipeline))
    with report_store_errors(Path(pipeline), describe_store(store)):
        return go_back(elasticsearch_of(store))


def sync_documents(
    store: Any,
    documents: Iterable[Document],
    embedder: APDocumentEmbedder | None = None,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> IndexChanges:
    """Replace the documents that an earlier call wrote into a store of Haystack's protocol by these; leave all others.

    A document's id is a hash of its content and meta, so documents with a known id need not be compared, and a changed
    entry is a new document that replaces an old one. New documents are written before old ones are deleted: wherever a
    run is interrupted, every entry of the file that was in the store still is, and the next run completes the rest.

    Documents that the embedder has not embedded are written again, duplicates once. `on_progress` is called with the
    number of these documents in the store and their total.
    """
    # The mark is added but the id kept, so that `ap-ranker ask --documents` recognises a stored entry.
    target = {document.id: marked(document) for document in documents}
    stored = _stored_entries(store, max(len(target), store.count_documents()))
    origin = None if embedder is None else embedder.embedded_by
    missing = _missing(target, stored, origin)
    stale = [document_id for document_id in stored if document_id not in target]
    done = len(target) - len(missing)
    on_progress(done, len(target))

    for start in range(0, len(missing), BATCH):
        batch = missing[start : start + BATCH]
        if embedder is not None:
            batch = embedder.run(documents=batch)["documents"]
        _write(store, batch)
        if start == 0 and missing[0].id not in _stored(store, _key(missing[0]), _key(missing[0]) + 1):
            raise InputError(
                f"Expected the field {MARK!r} in the mapping of the index, found no document by it. Add it "
                f"({MARK}: {{type: long}}), or choose another index."
            )
        on_progress(done + min(start + BATCH, len(missing)), len(target))
    for start in range(0, len(stale), BATCH):
        ids = stale[start : start + BATCH]
        store.delete_documents(ids)
        left = store.filter_documents({"field": "id", "operator": "in", "value": ids})
        if left:
            raise InputError(  # elasticsearch-haystack does not report it
                f"Expected {len(ids):,} old entries to be deleted, found {len(left):,} still stored. Run the command "
                "again when the index is not read-only."
            )

    # A document that is deleted while another one of the same entry is written was replaced.
    new_entries = Counter(map(entry_of, missing))
    old_entries = Counter(stored[document_id].entry for document_id in stale)
    replaced = (new_entries & old_entries).total()
    not_embedded = sum(document.id in stored for document in missing)
    return IndexChanges(
        added=len(missing) - not_embedded - replaced,
        changed=replaced + not_embedded,
        removed=len(stale) - replaced,
        unchanged=done,
    )


class _StoredEntry(NamedTuple):
    """What a stored document says of itself: the checkpoint that has embedded it, and the identity of its entry."""

    embedded_by: str | None
    entry: str


def _stored_entries(store: Any, n_documents: int) -> dict[str, _StoredEntry]:
    """The marked documents of a store by their ids, listed in ranges of keys of about `LISTED` documents each."""
    stored: dict[str, _StoredEntry] = {}
    n_ranges = 1 + n_documents // LISTED
    for number in range(n_ranges):
        low = KEYS * number // n_ranges
        high = KEYS * (number + 1) // n_ranges
        for document_id, document in _stored(store, low, high).items():
            stored[document_id] = _StoredEntry(document.meta.get(EMBEDDED_BY), entry_of(document))
    return stored


def _missing(target: Mapping[str, Document], stored: Mapping[str, _StoredEntry], origin: str | None) -> list[Document]:
    """The documents, in order of keys, that are not stored, or not embedded by `origin`, if anything embeds."""
    missing = []
    for document_id, document in target.items():
        entry = stored.get(document_id)
        if entry is None or origin not in (None, entry.embedded_by):
            missing.append(document)
    return sorted(missing, key=_key)


def _key(document: Document) -> int:
    """The number that marks a document."""
    return int(document.meta[MARK])


def _stored(store: Any, low: int, high: int) -> dict[str, Document]:
    """The marked documents with keys from `low` to below `high`, by id."""
    field = f"meta.{MARK}"
    bounds = [
        {"field": field, "operator": ">=", "value": low},
        {"field": field, "operator": "<", "value": high},
    ]
    for _ in range(5):
        documents = store.filter_documents({"operator": "AND", "conditions": bounds})
        by_id = {document.id: document for document in documents}
        # Elasticsearch lists pages in no fixed order: a repeated document may hide a missing one.
        if len(by_id) == len(documents):
            return by_id
    raise InputError(
        "Expected each stored document once, found some twice in each of five attempts. Run the command again when "
        "other writers have finished."
    )


def _write(store: Any, documents: list[Document]) -> None:
    try:
        store.write_documents(documents, policy=DuplicatePolicy.FAIL)
    except DuplicateDocumentError:  # written without the mark by `ap-ranker ask --documents`
        try:
            store.write_documents(documents, policy=DuplicatePolicy.OVERWRITE)
        except KeyError as error:  # elasticsearch-haystack looks for the reason in the wrong field
            raise DocumentStoreError("The server did not say which, nor why.") from error


def _parts(path: Path) -> tuple[Any, APDocumentEmbedder | None, list[Any]]:
    """The document store of a pipeline's file, the embedder before its writer, and the retrievers that embed."""
    pipeline, _ = load_pipeline(find_pipeline(path))
    parts = list(components_of(pipeline))
    stores = find_stores(pipeline)
    are_lasting = all(map(is_lasting, stores))
    if not stores or not are_lasting or any(store.to_dict() != stores[0].to_dict() for store in stores):
        raise InputError(
            f"{path}: expected one persistent store, found {', '.join(map(describe_store, stores)) or 'none'}. "
            "Give it a path in place of documents, or use `ap-ranker ask --documents`."
        )
    before = [part for part in parts if not isinstance(part, DocumentWriter)]
    has_writer = len(before) < len(parts)
    embedders = [part for part in parts if isinstance(part, APDocumentEmbedder)]
    if has_writer and len(embedders) < len(before):
        raise InputError(
            f"{path}: expected a writer and before it at most an APDocumentEmbedder, found "
            f"{', '.join(type(part).__name__ for part in before)}. Run such a pipeline with Haystack."
        )
    embedder = embedders[0] if embedders else None
    if embedder is not None:
        embedder.progress_bar = False  # `on_progress` tells
    retrievers = [part for part in parts if isinstance(part, HybridRetriever | ElasticsearchFAQRetriever)]
    return stores[0], embedder, retrievers
