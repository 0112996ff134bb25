# SPDX-License-Identifier: Apache-2.0
"""
A store's documents in memory, what those in a folder have in common with them, and what a query finds in them.

A query has legs, by words, by meaning and by known wordings; it finds the union of what each finds.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from haystack import Document
from haystack.document_stores.errors import DocumentStoreError
from haystack.errors import FilterError
from haystack.utils.filters import document_matches_filter

from ap_ranker.errors import InputError, library_errors, one_line
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.wordings import EMBEDDED_BY, Leg, Vectors
from ap_ranker.text.reading import READING_VERSION
from haystack_integrations.common.ap_ranker.query_data import Found, falling_order


class EmbeddingSizeError(InputError, DocumentStoreError):
    """Embeddings that cannot be compared; also the error that Haystack's in-memory store raises."""


_BATCH = 256  # documents fetched at once

_DOCUMENT = frozenset(field.name for field in fields(Document))

Kind = TypeVar("Kind", BM25, Vectors)


@dataclass(frozen=True)
class Index(Generic[Kind]):
    """Something that scores N documents, and their (N,) rows, ascending, by which to `fetch` them."""

    scorer: Kind
    rows: np.ndarray


class Documents:
    """
    Documents by id and by row, in the order of writing, in memory. Every call but `close` needs a `transaction`.

    The number of a document's row stays while the document does; a new document has a higher one than all before.
    Embeddings are kept beside the documents, because few who read these need them. The caller must not change them.
    """

    place = "The store in memory"

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._documents: dict[int, Document] = {}
        self._embeddings: dict[int, np.ndarray] = {}  # lists of floats would be ten times larger
        self._next = 0
        self._changes = 0

    def copy(self) -> Documents:
        """The same documents in the same rows; what is written into one does not change the other."""
        other = Documents()
        vars(other).update({name: copy(value) for name, value in vars(self).items()})
        return other

    def transaction(self, *, write: bool = False) -> AbstractContextManager[None]:
        """A context without writes by others; its own writes are kept if it ends without an error."""
        return nullcontext()  # the store checks everything before its first change, and no change here can fail

    def revision(self) -> str:
        """A text that differs after every change."""
        return str(self._changes)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._rows

    def by_row(self) -> Iterator[tuple[int, Document]]:
        """The rows, ascending, and their documents."""
        return iter(self._documents.items())

    def contents(self) -> Iterator[tuple[int, str]]:
        """The rows, ascending, of the documents that have content, and this."""
        return ((row, document.content) for row, document in self.by_row() if document.content is not None)

    def embeddings(self, rows: Iterable[int] | None = None) -> Iterator[tuple[int, str, np.ndarray]]:
        """The rows, of these or of all, ascending, whose documents have an embedding, their ids, and this."""
        for row in sorted(self._embeddings if rows is None else self._embeddings.keys() & rows):
            yield row, self._documents[row].id, self._embeddings[row]

    def fetch(self, rows: Iterable[int]) -> dict[int, Document]:
        """The documents of those of these rows that there still are."""
        return {row: self._documents[row] for row in rows if row in self._documents}

    def rows_of(self, ids: Iterable[str]) -> list[int]:
        """The rows of the documents with these ids, as far as there are any."""
        return [self._rows[document_id] for document_id in ids if document_id in self._rows]

    def put(self, document: Document) -> None:
        """Write a document at the end, in place of an older one with the same id."""
        self.remove(document.id)
        self.update(self._next, document)
        self._next += 1

    def update(self, row: int, document: Document) -> None:
        """Write another version of a document into its row."""
        self._rows[document.id] = row
        self._documents[row] = replace(document, embedding=None)
        self._embeddings.pop(row, None)
        if document.embedding is not None:
            self._embeddings[row] = to_array(document.embedding)
        self._changes += 1

    def remove(self, document_id: str) -> None:
        """Delete the document with this id, if it exists."""
        row = self._rows.pop(document_id, None)
        if row is not None:
            del self._documents[row]
            self._embeddings.pop(row, None)
            self._changes += 1

    def clear(self) -> None:
        """Delete all documents."""
        self._rows = {}
        self._documents = {}
        self._embeddings = {}
        self._changes += 1

    def not_embedded_by(self, origin: str) -> list[int]:
        """The rows of the documents without an embedding of this origin."""
        rows: list[int] = []
        for row, document in self._documents.items():
            if row not in self._embeddings or document.meta.get(EMBEDDED_BY) != origin:
                rows.append(row)
        return rows

    def close(self) -> None:
        """Close files until the next use."""

    def read(self) -> list[Document]:
        """All documents, with their embeddings."""
        documents = dict(self.by_row())
        return list(self.with_embeddings(documents).values())

    @library_errors("Expected filters that fit the documents", (TypeError,))
    def matching(self, filters: dict[str, Any]) -> list[Document]:
        """The documents that match Haystack's filters, with their embeddings."""
        filters = with_meta_prefix(filters)
        if asks_for_embeddings(filters):
            return [document for document in self.read() if document_matches_filter(filters, document)]
        ids = ids_asked_for(filters)
        candidates: Iterable[tuple[int, Document]] = self.by_row()
        if ids is not None:
            with_ids = self.fetch(self.rows_of(ids))
            candidates = sorted(with_ids.items())
        matching: dict[int, Document] = {}
        for row, document in candidates:
            if document_matches_filter(filters, document):
                matching[row] = document
        return list(self.with_embeddings(matching).values())

    def with_embeddings(self, documents: dict[int, Document]) -> dict[int, Document]:
        """The same documents by row, with their embeddings."""
        embedded = {}
        for row, _, vector in self.embeddings(documents):
            embedded[row] = replace(documents[row], embedding=vector.tolist())
        return documents | embedded

    def index(self, k1: float, b: float, language: str | None) -> Index[BM25]:
        """The BM25 index of the current revision, of the documents that have content."""
        name = "-".join([f"words{READING_VERSION}", str(float(k1)), str(float(b)), *filter(None, [language])])
        build = partial(BM25, k1=k1, b=b, language=language)
        return self._kept(name, partial(BM25.load, language=language), lambda: _index(build, self.contents()))

    def vectors(self) -> Index[Vectors]:
        """
        The embeddings of the current revision, of the documents that have one; an empty one counts as none.

        :raises EmbeddingSizeError: They differ in size.
        """
        return self._kept("vectors", Vectors.load, lambda: _index(Vectors.of, self._embeddings_of_one_size()))

    def _embeddings_of_one_size(self) -> Iterator[tuple[int, np.ndarray]]:
        first = ""
        size = 0
        for row, document_id, embedding in self.embeddings():
            if not size:
                first = document_id
                size = len(embedding)
            if len(embedding) not in {0, size}:
                raise EmbeddingSizeError(
                    f"{self.place}: expected embeddings of one size, found {size} numbers in document {first!r} and "
                    f"{len(embedding)} in {document_id!r}. Embed all documents with the same model."
                )
            if len(embedding):
                yield row, embedding

    def _kept(self, name: str, load: Callable[[Path], Kind], build: Callable[[], Index[Kind]]) -> Index[Kind]:
        """What `build` gives, or what a folder has kept of it."""
        return build()


def _index(build: Callable[[Iterator[Any]], Kind], numbered: Iterable[tuple[int, Any]]) -> Index[Kind]:
    """What is built of rows and what each has, which is read once and not kept."""
    rows = array("q")

    def values() -> Iterator[Any]:
        for row, value in numbered:
            rows.append(row)
            yield value

    scorer = build(values())
    return Index(scorer, np.array(rows, np.int64))


def asks_for_embeddings(filters: object) -> bool:
    """Whether filters may ask for embeddings, which are read only then; what they are is checked when they are used."""
    return "'embedding'" in repr(filters)


def ids_asked_for(filters: dict[str, Any]) -> list[str] | None:
    """
    The ids that documents must have by these filters; `None` if they do not just list ids.

    An id that is a date is equal to other ids, too, and SQLite does not find all that cannot be printed.
    """
    match filters:
        case {"field": "id", "operator": "in", "value": list(ids)}:
            if all(map(_is_plain_id, ids)):
                return ids
    return None


def _is_plain_id(document_id: object) -> bool:
    """Whether an id is equal to no other, and printable."""
    return isinstance(document_id, str) and document_id.isprintable() and document_id[4:5] != "-"


def check_dictionary(filters: object) -> None:
    """
    FilterError if filters are no dictionary.
    """
    if not isinstance(filters, dict):
        raise FilterError(f"Expected filters as a dictionary, found {one_line(repr(filters), 80)}.")


def with_meta_prefix(filters: dict[str, Any]) -> dict[str, Any]:
    """
    Haystack's filters with the prefix `meta.` before each field of the meta, which users forget.

    Haystack finds `category` without it, but of `product.name` nothing, and does not say so. What is malformed stays as
    it is: Haystack refuses it.

    :raises FilterError: They are no dictionary.
    """
    check_dictionary(filters)
    match filters:
        case {"field": str(field)} if field.partition(".")[0] not in _DOCUMENT:
            return {**filters, "field": f"meta.{field}"}
        case {"conditions": list(conditions)}:
            nested: list[Any] = []
            for condition in conditions:
                nested.append(with_meta_prefix(condition) if isinstance(condition, dict) else condition)
            return {**filters, "conditions": nested}
    return filters


def to_array(embedding: Sequence[float] | np.ndarray) -> np.ndarray:
    """
    (C,) numbers, in float32 if it holds all of them exactly, as it does a model's, and otherwise in float64.

    :raises ValueError: They are not finite numbers.
    """
    numbers = np.asarray(embedding)
    if numbers.size and (numbers.dtype.kind not in "fiu" or numbers.ndim != 1):
        raise ValueError(f"a list of {numbers.dtype} in {numbers.ndim} dimensions")
    numbers = numbers.astype(np.float64).reshape(-1)
    if not np.isfinite(numbers).all():
        raise ValueError("numbers that are not finite")
    with np.errstate(over="ignore"):
        short = numbers.astype(np.float32)
    return short if (short == numbers).all() else numbers


def find(
    stored: Documents,
    meta: Mapping[str, Any],
    legs: Sequence[Leg],
    filters: dict[str, Any] | None,
    top_k: int,
    rank_all: int = 0,
    key: str | None = None,
    *,
    wordings: Leg | None = None,
    scale: Callable[[float], float] = float,
    embedding: bool = False,
) -> Found:
    """
    The documents that any of the legs finds, at most `top_k` each; if `rank_all` or fewer, all documents.

    The first leg gives documents their score, after `scale`, which is `None` for those that it does not know; these
    come last. `wordings` are a further leg, older than this query: only documents that the others know count. `meta`
    and `key` are as of `Found`.
    """
    revision = legs[-1].rows  # of an index, which is built anew after every change
    if wordings is not None:
        is_candidate = np.isin(wordings.rows, np.concatenate([leg.rows for leg in legs]))
        legs = [*legs, replace(wordings, rows=wordings.rows[is_candidate], scores=wordings.scores[is_candidate])]
    filters = filters and with_meta_prefix(filters)
    read = partial(_read, stored, embeddings=embedding or asks_for_embeddings(filters))
    document_of: dict[int, Document] = {}
    limit = None if filters else top_k  # which of them match is not known yet
    best = [leg.best(limit) for leg in legs]
    if filters:
        best = [_first(rows, top_k, filters, read, document_of) for rows in best]
    by_any = set().union(*best)
    rows = np.array(sorted(by_any), np.int64)
    is_whole = False
    if max(len(leg.rows) for leg in legs) <= rank_all:
        everything = np.unique(np.concatenate([leg.rows for leg in legs]))
        is_whole = len(everything) <= rank_all
        if is_whole:
            matching = _first(everything.tolist(), rank_all, filters, read, document_of) if filters else everything
            rows = np.array(matching, np.int64)
    columns: dict[str, list[Any]] = {}
    numbers = rows.tolist()
    for leg, ranked in zip(legs, best, strict=True):
        ranks = {row: rank for rank, row in enumerate(ranked, start=1)}
        columns[leg.rank_field] = list(map(ranks.get, numbers))
        if leg.score_field:
            columns[leg.score_field] = leg.scores_of(rows)
        meta = {**meta, **leg.meta}
    scores = legs[0].scores_of(rows)
    scaled: list[float | None] = []
    for score in scores:
        scaled.append(None if score is None else scale(score))
    document_of |= read([row for row in numbers if row not in document_of])
    documents = [document_of[row] for row in numbers]
    return Found(
        revision,
        numbers,
        documents=documents,
        order=falling_order(scores),
        scores=scaled,
        columns=columns,
        meta=meta,
        key=key,
        is_whole=is_whole,
        has_embeddings=embedding,
    )


def _read(stored: Documents, rows: Sequence[int], embeddings: bool) -> dict[int, Document]:
    """The documents of these rows, all of which there must be."""
    new = stored.fetch(rows)
    if len(new) < len(rows):
        missing = min(set(rows) - set(new))
        raise InputError(f"{stored.place}: damaged: there is no document of row {missing} of the index.")
    if embeddings:
        return stored.with_embeddings(new)
    return new


@library_errors("Expected filters that fit the documents", (TypeError,))
def _first(
    rows: Sequence[int],
    limit: int,
    filters: dict[str, Any],
    read: Callable[[Sequence[int]], dict[int, Document]],
    document_of: dict[int, Document],
) -> list[int]:
    """The first of the rows whose documents match; a batch at a time, these are read into `document_of`."""
    first: list[int] = []
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        document_of |= read([row for row in batch if row not in document_of])
        first += [row for row in batch if document_matches_filter(filters, document_of[row])]
        if len(first) >= limit:
            break
    return first[:limit]
