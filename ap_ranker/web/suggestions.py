"""Suggestions while a question is being typed: stored questions and known wordings with words like its."""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain

from haystack import Document

from ap_ranker.data.wordings import NO_WORDINGS, Wordings
from ap_ranker.errors import InputError
from ap_ranker.kept_results import Latest
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.elasticsearch.offering_index import OfferingIndex
from ap_ranker.search.load_pipeline import find_stores, report_store_errors
from ap_ranker.search.offered_questions import needed_beginnings, suggested_line, suggestion_key
from ap_ranker.web.browse import Catalogue, IndexCatalogue
from ap_ranker.web.dispensable import BRIEF_SECONDS, Dispensable
from ap_ranker.web.work import WorkThreads
from haystack_integrations.common.ap_ranker.entries import wordings_in_meta
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

logger = logging.getLogger(__name__)

COUNT = 6
"""Number of suggestions: more would hide the page on a phone."""

MAX_TEXTS = 50_000
"""Maximum number of texts to suggest: they are kept in memory, and a large one would slow the start."""

MAX_ROWS = 2000
"""Maximum number of texts that are compared with what was typed, so that no reply takes longer than a few
milliseconds."""

MAX_DOCUMENTS = 50
"""Maximum number of an index's documents whose texts are compared with what was typed."""

INDEX_THREADS = 4
"""Number of searches of an index for suggestions at once."""

LOOK_SECONDS = 2.0
"""Seconds between two looks whether the texts have changed."""


class Suggestions:
    """Finds texts by the beginnings of their words, whatever their case and accents; of equals the first one first."""

    def __init__(self, texts: Iterable[str]) -> None:
        by_key: dict[str, str] = {}
        for text in texts:
            line = suggested_line(text)
            if line:
                by_key.setdefault(suggestion_key(line), line)
            if len(by_key) >= MAX_TEXTS:
                break
        self._keys = list(by_key)
        self._texts = list(by_key.values())
        self._longest = max(map(len, self._keys), default=0)
        self._words_of = [sorted(set(key.split())) for key in self._keys]
        self._words: list[tuple[str, int]] = []  # each word with the row of a text that has it
        for row, words in enumerate(self._words_of):
            self._words += [(word, row) for word in words]
        self._words.sort()

    def find(self, typed: str, count: int = COUNT) -> list[str]:
        """The texts that begin with what was typed, then those with words that begin with its words."""
        words = suggestion_key(typed).split()
        if not words:
            return []
        beginnings = needed_beginnings(words)
        if sum(map(len, beginnings)) > self._longest:  # each must begin another word
            return []
        line = " ".join(words)
        begin_like_line: list[int] = []
        have_words: list[int] = []
        for row in sorted(self._candidates(beginnings)):
            if not all(_has_beginning(self._words_of[row], beginning) for beginning in beginnings):
                continue
            rows = begin_like_line if self._keys[row].startswith(line) else have_words
            rows.append(row)
        best = [*begin_like_line, *have_words][:count]
        return [self._texts[row] for row in best]

    def _candidates(self, beginnings: Iterable[str]) -> set[int]:
        """The rows of texts, at most `MAX_ROWS`, with a word that begins as the rarest of the beginnings does."""
        spans = [self._span(beginning) for beginning in beginnings]
        rarest = min(spans, key=len)
        return {self._words[position][1] for position in rarest[:MAX_ROWS]}

    def _span(self, beginning: str) -> range:
        """The positions of the sorted words that begin so."""
        first = bisect_left(self._words, (beginning,))
        end = bisect_left(self._words, (beginning + chr(0x10FFFF),))
        return range(first, end)


def _has_beginning(words: Sequence[str], beginning: str) -> bool:
    """Whether one of sorted words begins so: it would be the first that is not before it."""
    first = bisect_left(words, beginning)
    return first < len(words) and words[first].startswith(beginning)


class LiveSuggestions:
    """Suggestions and catalogue of a search, which follow its stores and files of wordings.

    Those of a `BM25SDocumentStore` are kept in memory. An index of an `ElasticsearchFAQRetriever` is asked each time.
    InputError if it has no such `category`.
    """

    def __init__(self, search: DeclaredPipeline, category: str = "") -> None:
        self.current: Suggestions | None = None  # until the texts have been read once
        self.catalogue = Catalogue(())
        self._category = category
        self._search = search
        self._made: Latest[tuple[Catalogue, Suggestions]] = Latest()
        self._of_files: Latest[Suggestions] = Latest()
        self._offering: Latest[OfferingIndex] = Latest()
        self._next_look = 0.0
        self._is_indexed = search.index_retriever() is not None
        self._brief = Dispensable("There are no suggestions.", "The index")
        # Suggestions wait neither for searches nor for what is being read.
        self._reading = ThreadPoolExecutor(1, "reading suggestions")
        self._finding = WorkThreads(INDEX_THREADS if self._is_indexed else 1, "suggestions")
        self._read: Future[None] | None = None
        if not self._is_indexed and not self._stores():
            logger.warning(
                "%s: the page has no suggestions and no topics, which only stores of ap-ranker offer, found %s.",
                search.path,
                search.place,
            )
        if category and self._is_indexed:
            with report_store_errors(search.path, search.place):
                self._index().check()

    async def find(self, typed: str) -> list[str]:
        """As `Suggestions.find`, in the texts of some seconds ago, or of an index; none if they cannot be read."""
        if self._is_indexed:
            return await self._finding.run(self._find_in_index, typed)
        await self.look()
        if self.current is None:
            return []
        return await self._finding.run(self.current.find, typed)

    def beginning(self, preferred: Sequence[str]) -> list[str]:
        """As `Catalogue.beginning`; InputError if an index does not answer."""
        with report_store_errors(self._search.path, self._search.place):
            return self.catalogue.beginning(preferred)

    def questions_of(self, topic: str) -> list[str]:
        """As `Catalogue.questions_of`; InputError if an index does not answer."""
        with report_store_errors(self._search.path, self._search.place, topic):
            return self.catalogue.questions_of(topic)

    async def look(self) -> None:
        """Let what has changed be read; only the first reading is waited for, and that of an index, for a moment."""
        is_reading = self._read is not None and not self._read.done()
        is_due = self.current is None or time.monotonic() >= self._next_look
        if not is_reading and is_due:
            self._next_look = time.monotonic() + LOOK_SECONDS
            self._read = self._reading.submit(self._try_to_refresh)
        if self._read is None or self._read.done():
            return
        if self.current is None:
            await asyncio.shield(asyncio.wrap_future(self._read))
        elif self._is_indexed:
            await asyncio.wait([asyncio.wrap_future(self._read)], timeout=BRIEF_SECONDS)

    def refresh(self) -> None:
        """Read the texts again if they have changed; one thread at a time."""
        file_wordings = self._file_wordings()
        if self._is_indexed:
            with report_store_errors(self._search.path, self._search.place):
                self.catalogue = IndexCatalogue(self._index())
            self.current = Suggestions(file_wordings.texts())
            return
        stores = self._stores()
        revisions = [store.revision() for store in stores]
        make = partial(self._make, stores, file_wordings)
        self.catalogue, self.current = self._made.get((revisions, file_wordings), make)

    def _stores(self) -> list[BM25SDocumentStore]:
        return [store for store in find_stores(self._search.pipeline) if isinstance(store, BM25SDocumentStore)]

    def _file_wordings(self) -> Wordings:
        ranker = self._search.ranker()
        return NO_WORDINGS if ranker is None else ranker.file_wordings

    def _index(self) -> OfferingIndex:
        """The index of now: another checkpoint has another one."""
        retriever = self._search.index_retriever()
        assert retriever is not None, "no change of the checkpoint makes another pipeline"
        return self._offering.get((retriever,), lambda: OfferingIndex(retriever, self._category))

    def _find_in_index(self, typed: str) -> list[str]:
        words = suggestion_key(typed).split()
        if not words:
            return []
        file_wordings = self._file_wordings()
        of_files = self._of_files.get(file_wordings, lambda: Suggestions(file_wordings.texts()))
        documents = self._brief.ask(self._documents_in_index, typed, words) or []
        texts = chain(*_texts_of(documents), of_files.find(typed))
        return Suggestions(texts).find(typed)

    def _documents_in_index(self, typed: str, words: Sequence[str]) -> list[Document]:
        with report_store_errors(self._search.path, self._search.place, typed):
            return self._index().beginning_like(needed_beginnings(words), " ".join(words), most=MAX_DOCUMENTS)

    def _make(self, stores: Sequence[BM25SDocumentStore], file_wordings: Wordings) -> tuple[Catalogue, Suggestions]:
        small_stores = [store for store in stores if store.count_documents() <= MAX_TEXTS]
        if len(small_stores) < len(stores):
            logger.info("No suggestions from a store of more than %s documents.", MAX_TEXTS)
        documents: list[Document] = []
        for store in small_stores:
            documents += store.filter_documents()
        suggestions = Suggestions(chain(*_texts_of(documents), file_wordings.texts()))
        return Catalogue(documents, self._category), suggestions

    def _try_to_refresh(self) -> None:
        try:
            self.refresh()
        except InputError as error:
            logger.warning("%s The page opens with the topics of before.", error)
        except Exception:  # a search without suggestions works as well
            logger.exception("Suggestions cannot be read.")


def _texts_of(documents: Iterable[Document]) -> tuple[list[str], list[str]]:
    """The stored questions of documents, and their further known wordings."""
    stored_questions: list[str] = []
    further_wordings: list[str] = []
    for document in documents:
        document_wordings = wordings_in_meta(document)
        stored_questions += document_wordings[:1]
        further_wordings += document_wordings[1:]
    return stored_questions, further_wordings
