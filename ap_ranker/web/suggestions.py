"""Suggestions while a question is being typed: stored questions and known wordings that begin like it."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ap_ranker.data.wordings import Wordings, read_wordings
from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import find_stores
from ap_ranker.text.characters import fold
from ap_ranker.text.reading import bare
from ap_ranker.watched_file import Watched

if TYPE_CHECKING:
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
                by_key.setdefault(_folded(line), line)
            if len(by_key) >= MAX_TEXTS:
                break
        self._keys, self._texts = list(by_key), list(by_key.values())
        self._words = sorted({(word, row) for row, key in enumerate(self._keys) for word in key.split()})

    def find(self, typed: str, count: int = COUNT) -> list[str]:
        """The texts that begin with what was typed, then those with words that begin with its words."""
        words = _folded(typed).split()
        if not words:
            return []
        # Repeated words, and beginnings of others, say nothing more: 500 of them would take seconds.
        needed = [one for one, following in pairwise([*sorted(set(words)), ""]) if not following.startswith(one)]
        start, end = min((_range(self._words, word) for word in needed), key=lambda found: found[1] - found[0])
        candidates = {row for _, row in self._words[start : min(end, start + MAX_ROWS)]}
        begun = " ".join(words)
        found = [
            (not key.startswith(begun), row)
            for row in candidates
            for key in [self._keys[row]]
            if all(any(each.startswith(word) for each in key.split()) for word in needed)
        ]
        return [self._texts[row] for _, row in sorted(found)[:count]]


class LiveSuggestions:
    """The suggestions of a search, which follow its stores of `BM25SDocumentStore` and its files of wordings."""

    def __init__(self, search: DeclaredPipeline) -> None:
        self._search = search
        self._wordings: dict[str, Watched[Wordings]] = {}
        self._version: object = None
        self._current = Suggestions(())
        self._next_look = 0.0

    @property
    def stale(self) -> bool:
        """Whether it is time for `refresh`."""
        return time.monotonic() >= self._next_look

    @property
    def ready(self) -> bool:
        """Whether the texts have been read once."""
        return self._version is not None

    def find(self, typed: str) -> list[str]:
        """As `Suggestions.find`, in the texts that were last read."""
        return self._current.find(typed)

    def refresh(self) -> None:
        """Read the texts again if they have changed; one thread at a time."""
        from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

        stores = [store for store in find_stores(self._search.pipeline) if isinstance(store, BM25SDocumentStore)]
        ranker = self._search.ranker()
        for path in ranker.wordings if ranker else ():
            if str(path) not in self._wordings:
                self._wordings[str(path)] = Watched(path, _read_wordings)
        known = [file.now() for file in self._wordings.values()]
        version = [store.revision() for store in stores], [file.readings for file in self._wordings.values()]
        if version != self._version:
            self._current = Suggestions(chain(_of_stores(stores), *map(texts_of, known)))
            self._version = version
        self._next_look = time.monotonic() + LOOK_SECONDS


def texts_of(wordings: Wordings) -> Iterator[str]:
    """All known wordings of a file."""
    for texts in (*wordings.by_id.values(), *wordings.by_text.values()):
        yield from texts


def _read_wordings(path: Path) -> Wordings:
    try:
        return read_wordings(path)
    except InputError as error:
        logger.warning("%s: no suggestions from it: %s", path, error)
        return Wordings()


def _of_stores(stores: Iterable[BM25SDocumentStore]) -> Iterator[str]:
    """Stored questions first, then further wordings."""
    from haystack_integrations.document_stores.ap_ranker.entries import own_wordings

    further: list[str] = []
    for store in stores:
        if (documents := store.count_documents()) > MAX_TEXTS:
            logger.info("No suggestions from %s documents: expected at most %s.", documents, MAX_TEXTS)
            continue
        for document in store.filter_documents():
            first, *others = [*own_wordings(document)] or [""]
            yield first
            further += others
    yield from further


def _folded(text: str) -> str:
    """The text's words without case and accents."""
    return fold(bare(text))


def _range(pairs: list[tuple[str, int]], start: str) -> tuple[int, int]:
    """Where those that begin with `start` are in sorted pairs."""
    return bisect_left(pairs, (start,)), bisect_left(pairs, (start + chr(0x10FFFF),))
