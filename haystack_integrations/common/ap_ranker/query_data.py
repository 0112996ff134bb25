# SPDX-License-Identifier: Apache-2.0
"""
What a query finds in a store, what a ranker reads of it, and what a document has for that query alone.

Query data stand under one key of the meta, `ap_ranker`, so that no other query takes them for its own: a dictionary of
`query`, the query's hash, and what retrievers and rankers have found: `bm25_score`, `bm25_rank`, `bm25_language`,
`embedding_score`, `embedding_rank`, `wording_rank`, `matched_wording`, `stored_question`, `wordings_count`,
`other_faq`, `decision`, `explanation`. A `BM25SDocumentStore` does not keep them; from another store they come back,
and belong to no new query.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import blake2b
from operator import is_not
from typing import Any, cast

from haystack import Document
from pydantic import TypeAdapter, ValidationError

from ap_ranker.data.wordings import MOST_ANSWERS, NO_WORDINGS
from ap_ranker.errors import InputError, one_line
from ap_ranker.ranking.bm25 import BM25_LANGUAGE, BM25_SCORE
from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.state_bytes import STATES
from ap_ranker.ranking.wordings import EMBEDDED_BY, WORDING_RANK, KnownWordings
from haystack_integrations.common.ap_ranker.component import DocumentTexts, WarnOnce
from haystack_integrations.common.ap_ranker.entries import MARK, content_and_answer, identity_of, wordings_in_meta

QUERY_DATA = "ap_ranker"
"""The key of the meta."""

STORED_QUESTION = "stored_question"
"""True if `meta["question"]` and `meta["wordings"]` of a document are known to ask for it."""

WORDINGS_COUNT = "wordings_count"
"""True if entries were compared by their known wordings, also those that have none: some entry of the search has."""

OTHER_FAQ = "other_faq"
"""True if the ranker's checkpoint was made for another FAQ, so that its calibration does not hold."""

DECISION = "decision"
"""What a ranker has decided on the query: all fields of its `Decision`."""

EXPLANATION = "explanation"
"""The weight of each word of the question and of the answer."""

_QUERY = "query"
_IMMUTABLE = frozenset({str, int, float, bool, type(None)})  # of what meta holds, most


def check_query(query: object) -> None:
    """Raise InputError unless it is a text."""
    if not isinstance(query, str):
        raise InputError(f"Expected query as a text, found {one_line(repr(query), 80)}.")


def check_documents(documents: Any) -> None:
    """Raise InputError unless they are a list of Haystack's documents."""
    wrong: list[Any] = [documents]
    if isinstance(documents, list):
        wrong = [document for document in documents if not isinstance(document, Document)]
    if wrong:
        raise InputError(f"Expected documents as a list of Documents, found {one_line(repr(wrong[0]), 80)}.")
    check_meta(documents)


def check_meta(documents: Iterable[Document]) -> None:
    """Raise InputError if the meta of a document is no dictionary, which Haystack does not check."""
    wrong = [document for document in documents if not isinstance(document.meta, dict)]
    if wrong:
        content = one_line(repr(wrong[0].meta), 80)
        raise InputError(f"Document {wrong[0].id!r}: expected meta as a dictionary, found {content}.")


def query_key(query: str) -> str:
    """The hash of a query, whatever its white space."""
    text = " ".join(query.split())
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def query_data(document: Document, key: str | None) -> Mapping[str, Any]:
    """
    What a document has for a query.

    :param document: The document.
    :param key: The `query_key` of the query, or `None` if that is not known.
    :returns: The data; empty if they are those of another query. Data that name no query are those of any.
    """
    data = document.meta.get(QUERY_DATA)
    if isinstance(data, dict) and data.get(_QUERY) in (None, key):
        return data
    return {}


def decision_of(documents: Sequence[Document], key: str) -> Decision | None:
    """
    The decision that a ranker has left in the documents that it returned for the query of a key.

    :param documents: The documents; data that name no query, or another one, are not read.
    :param key: The `query_key` of the query.
    :returns: The decision; `None` if there is none.
    :raises InputError: There is something else in its place.
    """
    for document in documents:
        data = document.meta.get(QUERY_DATA)
        if not isinstance(data, dict) or data.get(_QUERY) != key or DECISION not in data:
            continue
        place = f"Document {document.id!r}, meta[{QUERY_DATA!r}][{DECISION!r}]"
        return read_decision(data[DECISION], place)
    return None


def decision_data(decision: Decision) -> dict[str, Any]:
    """A decision as basic types, as `read_decision` reads it."""
    return decision.as_json() | {"is_fused": decision.is_fused}


def read_decision(data: object, place: str) -> Decision:
    """The decision that is written as basic types; InputError, which names the place, if it is none."""
    try:
        return _DECISION.validate_python(data)
    except ValidationError as error:
        expected = f"{place}: expected a ranker's decision (outcome, probability, basis)"
        raise InputError(f"{expected}, found {one_line(repr(data), 80)}.") from error


_DECISION = TypeAdapter(Decision)


def with_query_data(document: Document, key: str | None, data: Mapping[str, Any], score: float | None) -> Document:
    """A copy of a document with this score that has further data for a query, and none for another one."""
    meta = document.meta.copy()
    if QUERY_DATA in meta:  # few documents of other retrievers have some
        data = {**query_data(document, key), **data}
        del meta[QUERY_DATA]
    if data:
        meta[QUERY_DATA] = {**data, _QUERY: key}
    return changed(document, meta, score, document.embedding)


@dataclass(frozen=True)
class Found:
    """
    N documents that a query finds, in the order of writing, as the store has them: nobody may change them.

    `order` are the places of those to return, the best first; `columns` and `meta` are the query data that a copy gets,
    with a value for each document or one for all, for the query of `key`. As long as `revision` is the same object, a
    row has the same document. `is_whole`: they are all that the store has, or all that match the filters.
    """

    revision: object
    rows: Sequence[int]
    documents: Sequence[Document]
    order: Sequence[int]
    scores: Sequence[float | None]
    columns: Mapping[str, Sequence[Any]]
    meta: Mapping[str, Any]
    key: str | None
    is_whole: bool
    has_embeddings: bool

    def first(self, limit: int) -> Found:
        """At most `limit` of them: all that known wordings find, as far as there is room, and the best others."""
        if len(self.order) <= limit:
            return self
        ranks = self.columns.get(WORDING_RANK, [None] * len(self.rows))
        wordings_first = sorted(self.order, key=lambda place: ranks[place] is None)  # each part keeps its order
        chosen = set(wordings_first[:limit])
        return replace(self, order=[place for place in self.order if place in chosen])

    def copy(self, place: int, score: float | None, more: Mapping[str, Any]) -> Document:
        """A copy of a document with a score, with all that is known of it, and more, as query data in its meta."""
        document = self.documents[place]
        data = {name: values[place] for name, values in self.columns.items()}
        embedding = None
        if self.has_embeddings:
            embedding = document.embedding
        meta = own_meta(document) | {QUERY_DATA: {_QUERY: self.key, **self.meta, **data, **more}}
        return changed(document, meta, score, embedding)

    def copies(self) -> list[Document]:
        """A copy of each document, the best first."""
        return [self.copy(place, self.scores[place], {}) for place in self.order]


def own_meta(document: Document) -> dict[str, Any]:
    """A copy of a document's meta: changes of one do not reach the other."""
    meta = document.meta.copy()
    for name, value in meta.items():
        if type(value) not in _IMMUTABLE:  # `deepcopy` of all would take longer than BM25 for a hundred documents
            meta[name] = deepcopy(value)
    return meta


def changed(
    document: Document, meta: dict[str, Any], score: float | None, embedding: Sequence[float] | None
) -> Document:
    """
    A copy of a document with this meta, score and embedding.

    `dataclasses.replace`, which checks all fields again, takes six times as long.
    """
    copy = object.__new__(type(document))
    values = copy.__dict__
    values.update(document.__dict__)
    values["meta"] = meta
    values["score"] = score
    values["embedding"] = embedding
    return copy


def with_embeddings(documents: Sequence[Document], embeddings: Sequence[list[float]], origin: str) -> list[Document]:
    """Copies of documents with these embeddings, and with what these come from in the meta."""
    embedded: list[Document] = []
    for document, embedding in zip(documents, embeddings, strict=True):
        embedded.append(changed(document, document.meta | {EMBEDDED_BY: origin}, document.score, embedding))
    return embedded


def with_states(documents: Sequence[Document], states: Sequence[str | None]) -> list[Document]:
    """Copies of documents that carry these sealed states; without any where there are none."""
    carriers: list[Document] = []
    for document, sealed in zip(documents, states, strict=True):
        meta = document.meta | {STATES: sealed}
        if sealed is None:
            del meta[STATES]
        carriers.append(changed(document, meta, document.score, document.embedding))
    return carriers


def falling_order(scores: Sequence[float | None]) -> list[int]:
    """The places of scores, the highest first, equal ones as they are; those of unknown scores come last."""
    known_scores = [-math.inf if score is None else score for score in scores]
    return sorted(range(len(known_scores)), key=known_scores.__getitem__, reverse=True)


def is_told(documents: Sequence[Document], key: str | None, name: str) -> bool:
    """Whether query data of any of the documents say so."""
    return any(query_data(document, key).get(name) for document in documents)


class Parts(Sequence[tuple[str, str]]):
    """The content and the answer of documents, each read when it is asked for: the rule asks for the best ones'."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents

    def __len__(self) -> int:
        return len(self._documents)

    def __getitem__(self, place: Any) -> Any:
        return content_and_answer(self._documents[place])


Candidates = tuple[Sequence[str], Sequence[tuple[str, str]], Sequence[tuple[str, ...]]]
"""N documents as questions are compared with them: N texts; N contents and answers; N times their known wordings."""


class CandidateReader:
    """
    Reads documents as candidates, with their known wordings: those of files, and those in their meta.

    Those in the meta are known if the files are not `None`, or else if a retriever or an index says so.
    """

    def __init__(self, texts: DocumentTexts, known: KnownWordings) -> None:
        self._texts = texts
        self._known = known
        self._candidates: tuple[tuple[object, ...], dict[int, Any]] = ((), {})
        self.warn_once = WarnOnce()

    def read(self, documents: Sequence[Document], copies: Sequence[Document], key: str | None) -> Candidates:
        """The candidates for the query of a key; all copies of a document are asked what a retriever has told."""
        if self._known.paths is not None:
            return self._read(documents, [True] * len(documents))
        stored: set[str] = set()
        for candidate in copies:
            if MARK in candidate.meta or query_data(candidate, key).get(STORED_QUESTION):
                stored.add(candidate.id)
        return self._read(documents, [document.id in stored for document in documents])

    def _read(self, documents: Sequence[Document], are_known: Sequence[bool]) -> Candidates:
        """The candidates, and of each whether what is in its meta is known to ask for it."""
        files = self._known.of_files()
        prefix = self._known.prefix
        suffix = self._known.suffix
        wordings: list[tuple[str, ...]] = []
        for document, is_known in zip(documents, are_known, strict=True):
            if (
                not is_known and files is NO_WORDINGS
            ):  # the usual case of a pipeline, whose cost counts for each candidate
                wordings.append(())
                continue
            own = wordings_in_meta(document) if is_known else ()
            further = () if files is NO_WORDINGS else files.of(*identity_of(document))
            distinct = dict.fromkeys((*own, *further))  # as in an evaluation: a copy would count as one more
            wordings.append(tuple(prefix + text + suffix for text in distinct))
        return self._texts.texts(documents), Parts(documents), wordings

    def read_once(self, fetched: Found, places: Sequence[int]) -> Candidates:
        """As `read`; a document is read again once a document of the store, or a file of wordings, has changed."""
        reads_meta = self._known.paths is not None or STORED_QUESTION in fetched.meta
        sources = (fetched.revision, self._known.of_files(), reads_meta)
        (latest, candidates) = self._candidates
        if not latest or any(map(is_not, latest, sources)) or len(candidates) > MOST_ANSWERS:
            candidates = {}
            self._candidates = sources, candidates
        new = {}
        for row, document in zip(fetched.rows, fetched.documents, strict=True):
            if row not in candidates:
                new[row] = document
        if new:
            documents = [*new.values()]
            columns = self._read(documents, [reads_meta] * len(documents))
            candidates |= zip(new, zip(*columns, strict=True), strict=True)
        rows = [candidates[fetched.rows[place]] for place in places]
        return cast(Candidates, tuple(zip(*rows, strict=True)) or ((), (), ()))

    def take_states(self, ranker: Ranker, documents: Sequence[Document], texts: Sequence[str]) -> None:
        """Let a ranker have the states that documents carry, as far as these texts of theirs are not in its cache."""
        carriers = [place for place, document in enumerate(documents) if STATES in document.meta]
        if not carriers or ranker.cache is None:
            return
        texts_of_carriers = [texts[place] for place in carriers]
        lacking = ranker.cache.lacking(texts_of_carriers)
        sealed = [documents[carriers[place]].meta[STATES] for place in lacking]
        if ranker.take_states([texts_of_carriers[place] for place in lacking], sealed):
            self.warn_once(
                f"{{checkpoint}}: expected states of this checkpoint and dtype in meta[{STATES!r}] of documents, found "
                "others: these are encoded here. Embed the documents again, with states.",
                checkpoint=ranker.source,
            )

    def bm25_of(
        self, ranker: Ranker, documents: Sequence[Document], copies: Sequence[Document], key: str
    ) -> list[float] | None:
        """
        BM25's score of each document for a query, as far as retrievers tell; otherwise as `complete`.

        All copies of a document are searched for its score: a joiner may keep the copy of another retriever.
        """
        scores: dict[str, float] = {}
        languages: dict[str | None, None] = {}
        for copy in copies:
            data = query_data(copy, key)
            score = data.get(BM25_SCORE)
            if score is None:
                continue
            if not (isinstance(score, int | float) and math.isfinite(score)):
                place = f"meta[{QUERY_DATA!r}][{BM25_SCORE!r}]"
                raise InputError(
                    f"Document {copy.id!r}: expected a retriever's number in {place}, found {score!r}. "
                    "Remove that field of the documents, or set fuse_scores to false."
                )
            scores[copy.id] = float(score)
            if BM25_LANGUAGE in data:
                languages[data[BM25_LANGUAGE]] = None
        return self.complete(ranker, [scores.get(document.id) for document in documents], list(languages))

    def complete(
        self, ranker: Ranker, scores: list[float | None], languages: Sequence[str | None]
    ) -> list[float] | None:
        """The scores of BM25, by the stemmers of these languages; `None`, and one warning, if any is missing."""
        expected = ranker.bm25_language
        for language in languages:
            if language == expected:
                continue
            self.warn_once(
                "fuse_scores is on, but BM25's scores are those of language: {language}, and {checkpoint} was trained "
                "with language: {expected}. Set the document store's language to that.",
                language=language or "null",
                checkpoint=ranker.source,
                expected=expected or "null",
            )
        missing = scores.count(None)
        if missing:
            self.warn_once(
                "fuse_scores is on, but {missing} of {count} documents have no {field} of this query, so BM25's score "
                "is not added. Retrieve with BM25SRetriever, put BM25Scores behind Elasticsearch, or set "
                "fuse_scores to false.",
                missing=missing,
                count=len(scores),
                field=f"meta[{QUERY_DATA!r}][{BM25_SCORE!r}]",
            )
            return None
        return cast(list[float], scores)


def _falling_score(document: Document) -> float:
    """For sorting, the highest first; documents without a score, or with NaN, are the last ones."""
    if document.score is None:
        return math.inf
    return min(math.inf, -document.score)


def different(documents: Sequence[Document]) -> list[Document]:
    """The documents by id: of several with the same one, that with the highest score, the first of equal ones."""
    best = {document.id: document for document in documents}
    if len(best) < len(documents):
        # Those without a score come last; so do those with NaN, which is not below infinity.
        falling = sorted(documents, key=_falling_score)
        best |= {document.id: document for document in reversed(falling)}
    return list(best.values())
