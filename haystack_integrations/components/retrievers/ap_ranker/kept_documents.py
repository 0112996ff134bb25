# SPDX-License-Identifier: Apache-2.0
"""Documents of Elasticsearch that were fetched once, in memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from haystack import Document

from ap_ranker.ranking.bm25 import text_terms
from ap_ranker.ranking.bm25_statistics import CountedTerms

MOST_KEPT = 50_000
MOST_CHARACTERS = 2**25
"""Number of documents, and of characters of their texts, from which on those in memory begin anew. The words of a text
take ten times its memory."""


class KeptDocument(NamedTuple):
    """A document, its text as the model reads it, and its terms."""

    document: Document
    text: str
    counted: CountedTerms


@dataclass
class KeptDocuments:
    """Documents that were fetched, by id and last change; a row's document never changes."""

    rows: dict[tuple[str, int], int] = field(default_factory=dict)
    documents: list[KeptDocument] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    characters: int = 0  # of their texts

    @property
    def is_full(self) -> bool:
        """Whether it is time to begin anew."""
        return len(self.documents) > MOST_KEPT or self.characters > MOST_CHARACTERS

    def add(self, key: tuple[str, int], document: Document, text: str, language: str | None) -> None:
        """Keep a document with its text as the model reads it, unless another thread has done so."""
        counted = CountedTerms.of(text_terms(document.content or "", language))
        with self.lock:
            if key not in self.rows:
                self.documents.append(KeptDocument(document, text, counted))
                self.rows[key] = len(self.documents) - 1
                self.characters += len(document.content or "")
