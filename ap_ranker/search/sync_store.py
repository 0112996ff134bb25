"""Keeps a document store that lasts equal to a FAQ or documents, with the embeddings of its pipeline."""

from __future__ import annotations

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
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.wordings import EMBEDDED_BY
from ap_ranker.search.default_pipelines import find_pipeline
from ap_ranker.search.elasticsearch.build_index import KEYS, build_index, go_back
from ap_ranker.search.elasticsearch.index_changes import IndexChanges
from ap_ranker.search.elasticsearch.index_target import elasticsearch_of, find_target, is_elasticsearch
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

LISTED = 5_000
"""About how many documents are listed at once; a server such as OpenSearch allows 10,000."""

LISTINGS = 5
"""How often the same documents are listed until none is in the list twice."""

BATCH = 500
"""Number of documents that are written or deleted at once."""


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
    on_read: Progress = untold,
) -> IndexChanges:
    """Synchronize the document store of a pipeline's file with a FAQ or documents: add, change and remove entries.

    Documents from other sources are not touched. To continue an interrupted run, run it again.

    In Elasticsearch, each checkpoint has an index of its own (`build_index`). In other stores, an `APDocumentEmbedder`
    before the pipeline's writer, or a `HybridRetriever`, embeds the documents that it has not embedded yet.

    :param faq: A FAQ, a document, or a folder of documents and tables.
    :param pipeline: The YAML file of a pipeline with one persistent store.
    :param match: The text of an entry that is matched with a question.
    :param columns: The names of the columns of questions and of answers; they are recognized by default.
    :param language: In Elasticsearch: the language of the analyzers, for a pipeline without a checkpoint.
    :param part: In Elasticsearch: (2, 4) writes the second of four ranges of entries, each on a machine of its own.
    :param overlay: What is laid over the entries, such as the owner's changes.
    :param test: In Elasticsearch: questions, a file or a folder with `test.*`, that a new index is asked before it is
        searched. If the search before answers them better, that stays, and the changes say so.
    :param on_progress: Called with the number of entries in the store and their total.
    :param on_embedded: Called by a `HybridRetriever` with the number of embedded entries and their total.
    :param on_tested: Called with the number of questions asked and their total.
    :param on_read: Called with what is read, the number of files that are, and their total.
    :returns: How many entries were added, changed, removed and left as they are.
    :raises InputError: A file cannot be read, the pipeline has no persistent store, its store does not have what an
        option is for, or the store or its server fails.
    """
    entries = read_entries(Path(faq), columns, on_read)
    if overlay is not None:
        entries = overlay.lay(entries)
    documents = [to_document(entry, match) for entry in entries]
    store, embedder, retrievers = _read_pipeline(Path(pipeline))
    place = describe_store(store)
    options_of_elasticsearch = {
        "--part": part != (1, 1),
        "--language": language is not None,
        "--test": test is not None,
    }
    for option, is_given in options_of_elasticsearch.items():
        if is_given:
            _require_elasticsearch(store, Path(pipeline), option)
    compare_index = None
    if test is not None:
        from ap_ranker.data.reader import read_dataset
        from ap_ranker.search.elasticsearch.index_comparison import IndexTest

        data = read_dataset(test, "test", answers=Path(faq), match=match, columns=columns)
        compare_index = IndexTest(Path(pipeline), data, on_tested).compare
    with report_store_errors(Path(pipeline), place):
        target = find_target(store, embedder, retrievers, language)
        if target is not None:
            changes = build_index(target, documents, part=part, test=compare_index, on_progress=on_progress)
        else:
            changes = sync_documents(store, documents, embedder, on_progress=on_progress)
            for retriever in retrievers:
                retriever.embed_documents(on_embedded)
    n_different = len({document.id for document in documents})
    return replace(changes, duplicates=len(documents) - n_different, place=place)


def index_back(pipeline: str | Path) -> str:
    """Search the index of Elasticsearch again that was searched before the present one; returns the name of that index.

    :raises InputError: The pipeline has no store in Elasticsearch, there is no index before, or the server fails.
    """
    store, _, _ = _read_pipeline(Path(pipeline))
    _require_elasticsearch(store, Path(pipeline), "--back")
    with report_store_errors(Path(pipeline), describe_store(store)):
        return go_back(elasticsearch_of(store))


def _require_elasticsearch(store: Any, pipeline: Path, option: str) -> None:
    if not is_elasticsearch(store):
        raise InputError(
            f"{pipeline}: expected an index of Elasticsearch for {option}, found a store of the class "
            f"{type(store).__name__}. Leave the option out."
        )


def sync_documents(
    store: Any,
    documents: Iterable[Document],
    embedder: APDocumentEmbedder | None = None,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> IndexChanges:
    """Replace the documents that an earlier call wrote into a store of Haystack's protocol by these.

    Documents that others wrote are left as they are.

    A document's id is a hash of its content and meta, so documents with a known id need not be compared, and a changed
    entry is a new document that replaces an old one. New documents are written before old ones are deleted: wherever a
    run is interrupted, every entry of the file that was in the store still is, and the next run completes the rest.

    Stored documents that the embedder has not embedded are embedded and written again. Of documents with the same id,
    one is written. `on_progress` is called with the number of these documents in the store and their total.
    """
    # The mark is added but the id kept, so that `ap-ranker ask --documents` recognizes a stored entry.
    target = {document.id: marked(document) for document in documents}
    stored = _list_all(store, max(len(target), store.count_documents()))
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
        # An index whose mapping lacks the mark would be listed as empty for ever, and nothing ever removed from it.
        if start == 0 and missing[0].id not in _list_range(store, _key(missing[0]), _key(missing[0]) + 1):
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
            raise InputError(  # a store need not report what its server has not deleted
                f"Expected {len(ids):,} old entries to be deleted, found {len(left):,} still stored. Run the command "
                "again when the index is not read-only."
            )

    new = [document for document in missing if document.id not in stored]
    return IndexChanges.count(
        new=list(map(entry_of, new)),
        written_again=len(missing) - len(new),
        deleted=[stored[document_id].entry for document_id in stale],
        unchanged=done,
    )


class _Stored(NamedTuple):
    """What a stored document says of itself: the checkpoint that has embedded it, and the identity of its entry."""

    embedded_by: str | None
    entry: str


def _list_all(store: Any, n_documents: int) -> dict[str, _Stored]:
    """The marked documents of a store by their ids, listed in ranges of keys of about `LISTED` documents each."""
    stored: dict[str, _Stored] = {}
    n_ranges = 1 + n_documents // LISTED
    for number in range(n_ranges):
        low = KEYS * number // n_ranges
        high = KEYS * (number + 1) // n_ranges
        for document_id, document in _list_range(store, low, high).items():
            stored[document_id] = _Stored(document.meta.get(EMBEDDED_BY), entry_of(document))
    return stored


def _missing(target: Mapping[str, Document], stored: Mapping[str, _Stored], origin: str | None) -> list[Document]:
    """The documents, in order of keys, that are not stored or, unless `origin` is `None`, not embedded by it."""
    missing = []
    for document_id, document in target.items():
        in_store = stored.get(document_id)
        if in_store is None or (origin is not None and in_store.embedded_by != origin):
            missing.append(document)
    return sorted(missing, key=_key)


def _key(document: Document) -> int:
    """The number that marks a document."""
    return int(document.meta[MARK])


def _list_range(store: Any, low: int, high: int) -> dict[str, Document]:
    """The marked documents with keys from `low` to below `high`, by id."""
    field = f"meta.{MARK}"
    bounds = [
        {"field": field, "operator": ">=", "value": low},
        {"field": field, "operator": "<", "value": high},
    ]
    for _ in range(LISTINGS):
        documents = store.filter_documents({"operator": "AND", "conditions": bounds})
        by_id = {document.id: document for document in documents}
        # A server may list pages in no fixed order: a document that is there twice may hide one that is missing.
        if len(by_id) == len(documents):
            return by_id
    raise InputError(
        f"Expected each stored document once, found some twice in each of {LISTINGS} listings. Run the command again "
        "when other writers have finished."
    )


def _write(store: Any, documents: list[Document]) -> None:
    try:
        store.write_documents(documents, policy=DuplicatePolicy.FAIL)
    except DuplicateDocumentError:  # embedded by another checkpoint, or written by somebody else, without the mark
        try:
            store.write_documents(documents, policy=DuplicatePolicy.OVERWRITE)
        except KeyError as error:  # elasticsearch-haystack looks for the server's reason in the wrong field
            raise DocumentStoreError("The server did not say which, nor why.") from error


def _read_pipeline(path: Path) -> tuple[Any, APDocumentEmbedder | None, list[Any]]:
    """The document store of a pipeline's file, the embedder before its writer, and the retrievers that embed."""
    pipeline, _ = load_pipeline(find_pipeline(path))
    stores = find_stores(pipeline)
    are_lasting = all(map(is_lasting, stores))
    if not stores or not are_lasting or any(store.to_dict() != stores[0].to_dict() for store in stores):
        raise InputError(
            f"{path}: expected one persistent store, found {', '.join(map(describe_store, stores)) or 'none'}. "
            "Give it a path in place of documents, or use `ap-ranker ask --documents`."
        )
    parts = list(components_of(pipeline))
    has_writer = any(isinstance(part, DocumentWriter) for part in parts)
    embedders = [part for part in parts if isinstance(part, APDocumentEmbedder)]
    other_parts = [part for part in parts if not isinstance(part, DocumentWriter | APDocumentEmbedder)]
    if len(embedders) > 1 or (has_writer and other_parts):
        raise InputError(
            f"{path}: expected a writer and before it at most one APDocumentEmbedder, found "
            f"{', '.join(type(part).__name__ for part in embedders + other_parts)}. Run such a pipeline with Haystack."
        )
    embedder = embedders[0] if embedders else None
    if embedder is not None:
        embedder.progress_bar = False  # `on_progress` reports
    retrievers = [part for part in parts if isinstance(part, HybridRetriever | ElasticsearchFAQRetriever)]
    return stores[0], embedder, retrievers
