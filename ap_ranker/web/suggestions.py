"""Suggestions while a question is being typed: stored questions and known wordings that begin like it."""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, pairwise

from ap_ranker.data.wordings import WordingFiles, Wordings
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import find_stores
from ap_ranker.text.reading import bare, fold
from ap_ranker.web.browse import Catalogue
from ap_ranker.web.work import WorkThreads
from haystack_integrations.common.ap_ranker.entries import own_wordings
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

logger = logging.getLogger(__name__)

COUNT = 6
"""Number of suggestions: more would hide the page on a phone."""

MAX_TEXTS = 50_000
"""Maximum number of texts to suggest: they are kept in memory, and a large one would slow the start."""

MAX_LENGTH = 150
"""Maximum length of a suggestion in characters."""

MAX_ROWS = 2000
"""Maximum number of texts that are compared with what was typed, so that no reply takes longer than a few
milliseconds."""

LOOK_SECONDS = 2.0
"""Seconds between two looks whether the texts have changed."""


class Suggestions:
    """Finds texts by the beginnings of their words, whatever their case and accents; of equals the first one first."""

    def __init__(self, texts: Iterable[str]) -> None:
        by_key: dict[str, str] = {}
        for text in texts:
            line = " ".join(text.split())
            if line and len(line) <= MAX_LENGTH:
                by_key.setdefault(fold(bare(line)), line)
            if len(by_key) >= MAX_TEXTS:
                break
        self._keys, self._texts = list(by_key), list(by_key.values())
        self._words_of = [sorted(set(key.split())) for key in self._keys]
        self._longest = max(map(len, self._keys), default=0)
        self._words = sorted((word, row) for row, words in enumerate(self._words_of) for word in words)

    def find(self, typed: str, count: int = COUNT) -> list[str]:
        """The texts that begin with what was typed, then those with words that begin with its words."""
        words = fold(bare(typed)).split()
        if not words:
            return []
        # Repeated words, and beginnings of others, say nothing more: 500 of them would take seconds.
        needed = [one for one, following in pairwise([*sorted(set(words)), ""]) if not following.startswith(one)]
        if sum(map(len, needed)) > self._longest:  # each must begin another word
            return []
        spans = [(self._first(word), self._first(word + chr(0x10FFFF))) for word in needed]
        start, end = min(spans, key=lambda span: span[1] - span[0])
        candidates = {row for _, row in self._words[start : min(end, start + MAX_ROWS)]}
        begun = " ".join(words)
        found = [
            (not key.startswith(begun), row)
            for row in candidates
            for key in [self._keys[row]]
            if all(_has_beginning(self._words_of[row], word) for word in needed)
        ]
        return [self._texts[row] for _, row in sorted(found)[:count]]

    def _first(self, word: str) -> int:
        return bisect_left(self._words, (word,))


def _has_beginning(words: Sequence[str], beginning: str) -> bool:
    """Whether one of sorted words begins so: it would be the first that is not before it."""
    at = bisect_left(words, beginning)
    return at < len(words) and words[at].startswith(beginning)


class LiveSuggestions:
    """Suggestions and catalogue of a search, which follow its stores of `BM25SDocumentStore` and files of wordings."""

    def __init__(self, search: DeclaredPipeline, category: str = "") -> None:
        self.current: Suggestions | None = None  # until the texts have been read once
        self.catalogue, self._category = Catalogue(()), category
        self._search = search
        self._files = WordingFiles()
        self._version: object = None
        self._next_look = 0.0
        # Neither waits for searches, nor what is found for what is read.
        self._reading, self._finding = ThreadPoolExecutor(1, "reading suggestions"), WorkThreads(1, "suggestions")
        self._read: Future[None] | None = None

    async def find(self, typed: str) -> list[str]:
        """As `Suggestions.find`, in the texts of some seconds ago; none if they cannot be read."""
        await self.look()
        return await self._finding.run(self.current.find, typed) if self.current else []

    async def look(self) -> None:
        """Let what has changed be read; only the first reading is waited for."""
        is_reading = self._read is not None and not self._read.done()
        if not is_reading and (self.current is None or time.monotonic() >= self._next_look):
            self._next_look = time.monotonic() + LOOK_SECONDS
            self._read = self._reading.submit(self._try_to_refresh)
        if self.current is None and self._read is not None:
            await asyncio.shield(asyncio.wrap_future(self._read))

    def refresh(self) -> None:
        """Read the texts again if they have changed; one thread at a time."""
        stores = [store for store in find_stores(self._search.pipeline) if isinstance(store, BM25SDocumentStore)]
        ranker = self._search.ranker()
        wordings = self._files.now([*map(str, ranker.wordings or ())] if ranker else [])
        version = [store.revision() for store in stores], wordings
        if version != self._version:
            small = [store for store in stores if store.count_documents() <= MAX_TEXTS]
            if len(small) < len(stores):
                logger.info("No suggestions from a store of more than %s documents.", MAX_TEXTS)
            documents = [document for store in small for document in store.filter_documents()]
            known = [own_wordings(document) for document in documents]
            stored, further = [each[:1] for each in known], [each[1:] for each in known]
            self.catalogue = Catalogue(documents, self._category)
            self.current = Suggestions(chain(*stored, *further, texts_of(wordings)))
            self._version = version

    def _try_to_refresh(self) -> None:
        try:
            self.refresh()
        except Exception:  # a search without suggestions works as well
            logger.exception("Suggestions cannot be read.")


def texts_of(wordings: Wordings) -> Iterator[str]:
    """All known wordings of a file."""
    for texts in (*wordings.by_id.values(), *wordings.by_text.values()):
        yield from texts
