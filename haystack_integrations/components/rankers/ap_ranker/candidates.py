# SPDX-License-Identifier: Apache-2.0
"""Documents as a ranker's candidates: their texts, their known wordings, and BM25's scores of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import is_not
from typing import NamedTuple, cast

from haystack import Document

from ap_ranker.data.wordings import MOST_ANSWERS, NO_WORDINGS, WordingFiles, Wordings
from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import BM25_LANGUAGE, BM25_SCORE
from ap_ranker.ranking.ranker import Ranker
from haystack_integrations.common.ap_ranker.component import DocumentTexts, WarnOnce
from haystack_integrations.common.ap_ranker.entries import has_stored_question, names_in_files, own_wordings
from haystack_integrations.common.ap_ranker.query_data import QUERY_DATA, STORED_QUESTION, Found, query_data


class Candidate(NamedTuple):
    """A document as questions are compared with it: its text, its content and its answer, its known wordings."""

    text: str
    parts: tuple[str, str]
    wordings: tuple[str, ...]


class CandidateReader:
    """
    Reads documents as candidates, with the known wordings of files, which are followed, and those in their meta.

    Those in the meta are known if `paths`, the files, are not `None`, or else as `has_stored_question` says.
    """

    def __init__(self, texts: DocumentTexts, as_question: Callable[[str], str]) -> None:
        self._texts, self._as_question = texts, as_question
        self._files = WordingFiles()
        self._known: tuple[tuple[object, ...], dict[int, Candidate]] = ((), {})
        self.warn_once = WarnOnce()

    def wordings(self, paths: Sequence[str] | None) -> Wordings:
        """The known wordings of files as they are now; InputError if one cannot be read."""
        return self._files.now(paths) if paths else NO_WORDINGS

    def read(
        self, documents: Sequence[Document], copies: Sequence[Document], key: str | None, paths: Sequence[str] | None
    ) -> list[Candidate]:
        """The candidates for the query of a key; all copies of a document are asked what a retriever has told."""
        stored = {one.id for one in copies if paths is not None or has_stored_question(one, key)}
        candidates, files = [], self.wordings(paths)
        for document, text in zip(documents, self._texts.texts(documents), strict=True):
            names, own = names_in_files(document), own_wordings(document) if document.id in stored else ()
            wordings = map(self._as_question, (*own, *files.of(*names)))
            candidates.append(Candidate(text, names[1:], tuple(wordings)))
        return candidates

    def read_once(self, found: Found, paths: Sequence[str] | None) -> list[Candidate]:
        """As `read`; a document is read again once a document of the store, or a file of wordings, has changed."""
        is_told = paths is not None or STORED_QUESTION in found.meta
        sources, (known, candidates) = (found.revision, self.wordings(paths), is_told), self._known
        if not known or any(map(is_not, known, sources)) or len(candidates) > MOST_ANSWERS:
            candidates = {}
            self._known = sources, candidates
        new = {row: one for row, one in zip(found.rows, found.documents, strict=True) if row not in candidates}
        if new:
            documents = [*new.values()]
            candidates |= zip(
                new, self.read(documents, documents, None, (paths or []) if is_told else None), strict=True
            )
        return [candidates[row] for row in found.rows]

    def bm25_of(
        self, ranker: Ranker, documents: Sequence[Document], copies: Sequence[Document], key: str
    ) -> list[float] | None:
        """
        BM25's score of each document for a query, as far as retrievers tell; otherwise as `complete`.

        All copies of a document are searched for its score: a joiner may keep the copy of another retriever.
        """
        scores, languages = _told(copies, key)
        return self.complete(ranker, [scores.get(document.id) for document in documents], languages)

    def complete(
        self, ranker: Ranker, scores: list[float | None], languages: Sequence[str | None]
    ) -> list[float] | None:
        """The scores of BM25, by the stemmers of these languages; `None`, and one warning, if any is missing."""
        expected = ranker.bm25_language
        for language in (one for one in languages if one != expected):
            self.warn_once(
                "fuse_scores is on, but BM25's scores are those of language: %s, and %s was trained with language: "
                "%s. Set the document store's language to that.",
                *(language or "null", ranker.source, expected or "null"),
            )
        if missing := scores.count(None):
            self.warn_once(
                "fuse_scores is on, but %d of %d documents have no meta[%r][%r] of this query: BM25's score is not "
                "added, and probabilities and thresholds are those of the model alone. Retrieve with BM25SRetriever, "
                "put LuceneScores behind Elasticsearch, or set fuse_scores to false.",
                *(missing, len(scores), QUERY_DATA, BM25_SCORE),
            )
            return None
        return cast(list[float], scores)


def different(documents: Sequence[Document]) -> list[Document]:
    """The documents by id: of several with the same one, that with the highest score, the first of equal ones."""
    best = {document.id: document for document in documents}
    if len(best) < len(documents):
        falling = sorted(documents, key=lambda one: math.inf if one.score is None else -one.score)
        best |= {document.id: document for document in reversed(falling)}
    return list(best.values())


def _told(copies: Iterable[Document], key: str) -> tuple[dict[str, float], list[str | None]]:
    """BM25's scores for a query by id, and the languages of their stemmers; InputError if one is no number."""
    scores: dict[str, float] = {}
    languages: dict[str | None, None] = {}
    for copy in copies:
        data = query_data(copy, key)
        if (score := data.get(BM25_SCORE)) is None:
            continue
        if not (isinstance(score, (int, float)) and math.isfinite(score)):
            place = f"meta[{QUERY_DATA!r}][{BM25_SCORE!r}]"
            raise InputError(
                f"Document {copy.id!r}: expected a retriever's number in {place}, found {score!r}. "
                "Remove that field of the documents, or set fuse_scores to false."
            )
        scores[copy.id] = float(score)
        if BM25_LANGUAGE in data:
            languages[data[BM25_LANGUAGE]] = None
    return scores, list(languages)
