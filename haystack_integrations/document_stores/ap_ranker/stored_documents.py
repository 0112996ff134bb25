# SPDX-License-Identifier: Apache-2.0
"""What a store does with its documents, whatever finds them: Haystack's protocol of document stores, and embedding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import wraps
from inspect import signature
from typing import Any

from haystack import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy

from ap_ranker.errors import InputError, one_line
from ap_ranker.ranking.wordings import EMBEDDED_BY
from ap_ranker.threads import in_thread
from haystack_integrations.common.ap_ranker.query_data import QUERY_DATA, changed, check_meta, own_meta
from haystack_integrations.document_stores.ap_ranker.documents import Documents, to_array, with_meta_prefix

_BATCH = 512  # documents embedded before they are written: an interrupted run loses as many


def _as_haystack(name: str) -> Any:
    """A method that tells of the documents' meta what Haystack's store in memory tells."""
    method: Any = getattr(InMemoryDocumentStore, name)

    @wraps(method)
    def tell(self: StoredDocuments, *args: Any, **kwargs: Any) -> Any:
        store = InMemoryDocumentStore(shared=False)
        store.write_documents(self.filter_documents())
        arguments = signature(method).bind(store, *args, **kwargs).arguments
        arguments |= {"filters": with_meta_prefix(arguments["filters"] or {})} if "filters" in arguments else {}
        return method(**arguments)

    return tell


class StoredDocuments(ABC):
    """Reads, writes and embeds `Documents`. The prefix `meta.` of a field is optional."""

    @abstractmethod
    def _transaction(self, *, write: bool = False) -> AbstractContextManager[Documents]:
        """The documents, without writes by others meanwhile."""

    def count_documents(self) -> int:
        """The number of documents."""
        with self._transaction() as documents:
            return len(documents)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """The documents that match Haystack's filters, or all documents, in the order of writing."""
        with self._transaction() as documents:
            matching = documents.matching(filters) if filters else documents.read()
            return [changed(document, own_meta(document), document.score, document.embedding) for document in matching]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """
        Write copies of documents, all of them or, after an error, none, and return their number.

        What belongs to one query, `meta["ap_ranker"]`, is not kept.

        :param documents: The documents to write.
        :param policy: What to do with a document whose id exists already, or occurs twice: `OVERWRITE` keeps the later
            one, `SKIP` the earlier one; `FAIL` and `NONE` raise a `DuplicateDocumentError`.
        :raises ValueError: `documents` is not a list of documents, one of them cannot be stored, or there is no such
            policy.
        """
        if not isinstance(documents, Iterable):
            raise ValueError(f"Please provide a list of Documents, not {type(documents).__name__}.")
        documents = list(map(checked, documents))
        policy = DuplicatePolicy(policy)
        with self._transaction(write=True) as stored:
            if policy != DuplicatePolicy.OVERWRITE:
                new: dict[str, Document] = {}
                for document in documents:
                    if document.id not in new and document.id not in stored:
                        new[document.id] = document
                    elif policy != DuplicatePolicy.SKIP:
                        raise DuplicateDocumentError(f"ID '{document.id}' already exists.")
                documents = list(new.values())
            for document in documents:
                stored.put(document)
        return len(documents)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete the documents with these ids; unknown ids are ignored. InputError, before any is, for another type."""
        ids = list(document_ids) if isinstance(document_ids, Iterable) and not isinstance(document_ids, str) else [None]
        if any(not isinstance(named_id, str) for named_id in ids):
            raise InputError(f"Expected document_ids as a list of texts, found {one_line(repr(document_ids), 80)}.")
        with self._transaction(write=True) as documents:
            for document_id in ids:
                documents.remove(document_id)

    def delete_all_documents(self) -> None:
        """Delete every document."""
        with self._transaction(write=True) as documents:
            documents.clear()

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that match, and return their number."""
        with self._transaction(write=True) as documents:
            matching = documents.matching(filters)
            for document in matching:
                documents.remove(document.id)
        return len(matching)

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set meta fields of the documents that match, and return their number. They move to the end of the order."""
        check_meta([Document("those that match", meta=meta)])
        with self._transaction(write=True) as documents:
            matching = documents.matching(filters)
            for document in matching:
                documents.put(checked(replace(document, meta=document.meta | meta)))
        return len(matching)

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """The number of documents that match."""
        return len(self.filter_documents(filters))

    count_unique_metadata_by_filter = _as_haystack("count_unique_metadata_by_filter")
    get_metadata_fields_info = _as_haystack("get_metadata_fields_info")
    get_metadata_field_min_max = _as_haystack("get_metadata_field_min_max")
    get_metadata_field_unique_values = _as_haystack("get_metadata_field_unique_values")

    def embed_documents(
        self,
        origin: str,
        embed: Callable[[list[Document]], Sequence[Sequence[float]]],
        replace_others: bool = True,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> str | None:
        """
        Embed the documents that have no embedding of this origin, in batches, which an interrupted call keeps.

        Others may read and write meanwhile: a document that they have changed is left out.

        :param origin: What the embeddings come from; it is written into `meta["embedded_by"]`.
        :param embed: A function that returns the embeddings of documents.
        :param replace_others: Whether embeddings of another origin are replaced, or else an `InputError`.
        :param on_progress: Called with the number of embedded documents and their total.
        :returns: The revision of which every document has such an embedding; `None` if one was changed meanwhile.
        """
        with self._transaction() as documents:
            rows = documents.not_embedded_by(origin)
            existing = documents.fetch(() if replace_others else rows).values()
            origins = [document.meta.get(EMBEDDED_BY) for document in existing]
            others = [str(other) for other in origins if other is not None]
        if others:
            raise InputError(
                f"{documents.place}: expected the embeddings of one checkpoint ({origin[:12]}), found those of another "
                f"({one_line(min(others), 12)}). Restart this program with that, or give each checkpoint its own store."
            )
        for start in range(0, len(rows), _BATCH):
            on_progress(start, len(rows))
            with self._transaction() as documents:
                revision = documents.revision()
                before = documents.fetch(rows[start : start + _BATCH])
            embeddings = embed(list(before.values()))
            with self._transaction(write=True) as documents:
                now = before if documents.revision() == revision else documents.fetch(before)
                for (row, document), embedding in zip(before.items(), embeddings, strict=True):
                    if now.get(row) is document or now.get(row) == document:  # in memory it is the same object
                        meta = {**document.meta, EMBEDDED_BY: origin}
                        documents.update(row, replace(document, meta=meta, embedding=list(embedding)))
        if rows:
            on_progress(len(rows), len(rows))
        with self._transaction() as documents:
            if documents.not_embedded_by(origin):
                return None
            return documents.revision()

    def document_ids(self) -> set[str]:
        """The ids of all documents."""
        with self._transaction() as documents:
            return {document.id for _, document in documents.by_row()}

    count_documents_async = in_thread(count_documents)
    filter_documents_async = in_thread(filter_documents)
    write_documents_async = in_thread(write_documents)
    delete_documents_async = in_thread(delete_documents)
    delete_all_documents_async = in_thread(delete_all_documents)
    delete_by_filter_async = in_thread(delete_by_filter)
    update_by_filter_async = in_thread(update_by_filter)
    embed_documents_async = in_thread(embed_documents)
    count_documents_by_filter_async = in_thread(count_documents_by_filter)
    count_unique_metadata_by_filter_async = in_thread(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = in_thread(get_metadata_fields_info)
    get_metadata_field_min_max_async = in_thread(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = in_thread(get_metadata_field_unique_values)


def checked(document: object) -> Document:
    """A copy of a document to be stored: of one that cannot be, every query would fail."""
    if not isinstance(document, Document):
        raise ValueError(f"Please provide a list of Documents, not of {type(document).__name__}.")
    if not isinstance(document.id, str):
        raise InputError(f"Document {document.id!r}: expected an id as text, found {type(document.id).__name__}.")
    check_meta([document])
    try:
        f"{document.id}{document.content}".encode()
        to_array([] if document.embedding is None else document.embedding)
    except ValueError as error:
        expected = "expected text that UTF-8 can hold and an embedding of numbers"
        raise InputError(f"Document {document.id!r}: {expected}, found {error}.") from error
    meta = own_meta(document)
    if isinstance(meta.get(QUERY_DATA), dict):
        del meta[QUERY_DATA]
    return changed(document, meta, document.score, document.embedding)
