"""Retrieval by known wordings: which documents have a wording that a question is like, or that it is word for word?"""

from __future__ import annotations

import threading
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from operator import is_not
from pathlib import Path
from typing import Any

import numpy as np

from ap_ranker.data.wordings import WordingFiles, Wordings
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.wordings import WordingIndex
from ap_ranker.text.keys import normalized, question_key
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore
from haystack_integrations.document_stores.ap_ranker.documents import Documents, Leg
from haystack_integrations.document_stores.ap_ranker.entries import names_in_files, own_wordings

Pairs = Iterable[tuple[int, str]]


class KnownWordings:
    """The known wordings of a store's documents: those in their meta and those of files (`paths`), which are followed.

    A model reads them, as it does a question, between `prefix` and `suffix`. Threads may share them; a copy reads the
    files itself, when it is used first.
    """

    def __init__(self, paths: list[str], prefix: str = "", suffix: str = "") -> None:
        self.paths, self.prefix, self.suffix = paths, prefix, suffix
        self._files: WordingFiles | None = None
        self._made: dict[str, tuple[list[object], Any]] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownWordings, (self.paths, self.prefix, self.suffix)

    def add(self, path: str | Path) -> None:
        """Follow one more file."""
        with self._lock:
            if self._files is not None:  # otherwise it is read with the others
                self._files.add(Path(path))
            if str(path) not in self.paths:
                self.paths.append(str(path))

    def leg(self, store: BM25SDocumentStore, ranker: Ranker, question: np.ndarray) -> Leg:
        """The cosine of each document's best wording with a question (C,); new wordings are encoded first."""
        index = self.index(store, ranker)
        return Leg(index.rows, index.scores(question))

    def index(self, store: BM25SDocumentStore, ranker: Ranker) -> WordingIndex:
        """The index of all wordings, by the vectors of a model."""

        def make(pairs: Pairs) -> WordingIndex:
            known = ((row, self.prefix + text + self.suffix) for row, text in pairs)
            return WordingIndex.of(known, ranker.wording_vectors, ranker.embed_wordings)

        return self._latest("index", store, make, ranker.wording_vectors)

    def verbatim(self, store: BM25SDocumentStore, question: str) -> Leg | None:
        """The documents of which a question, without prefix and suffix, is a known wording, word for word."""
        rows = self._latest("rows", store, _by_key).get(question_key(question))
        return None if rows is None else Leg(np.array(sorted(rows), np.int64), np.ones(len(rows), np.float32))

    def _latest(self, name: str, store: BM25SDocumentStore, make: Callable[[Pairs], Any], *more: object) -> Any:
        """What was made of the rows of documents with their wordings; made anew if any of its sources is another."""
        with self._lock:
            if self._files is None:
                self._files = WordingFiles(self.paths)
            rows, files = store.computed(WordingRows), self._files.now()
            sources = [rows, files, *more]
            known, made = self._made.get(name, ([], None))
            if not known or any(map(is_not, known, sources)):
                made = make(rows.pairs(files))
                self._made[name] = sources, made
            return made

    def close(self) -> None:
        """Forget what was read and encoded, until the next use."""
        with self._lock:
            self._files, self._made = None, {}


def _by_key(pairs: Pairs) -> dict[str, set[int]]:
    rows: defaultdict[str, set[int]] = defaultdict(set)
    for row, text in pairs:
        rows[question_key(text)].add(row)
    return dict(rows)


class WordingRows:
    """Finds the rows of the documents that wordings ask for, without reading the documents again."""

    def __init__(self, documents: Documents) -> None:
        self._own: list[tuple[int, str]] = []
        # Hashes of the names: the texts of a million documents in a dictionary would take gigabytes.
        hashes, rows = array("q"), array("q")
        for row, document in documents.by_row():
            self._own += ((row, text) for text in own_wordings(document))
            answer_id, *texts = names_in_files(document)
            for name in {("id", answer_id), *(("text", normalized(text)) for text in texts)}:
                hashes.append(hash(name))
                rows.append(row)
        self._hashes, self._rows = np.array(hashes, np.int64), np.array(rows, np.int64)

    def pairs(self, files: Wordings) -> Iterator[tuple[int, str]]:
        """Each document's row with each of its wordings: those of its meta and those that files have for it."""
        yield from self._own
        named: defaultdict[int, list[str]] = defaultdict(list)
        for kind, known in (("id", files.by_id), ("text", files.by_text)):
            for name, texts in known.items():
                named[hash((kind, name))] += texts
        found = np.isin(self._hashes, np.array(list(named), np.int64))
        for row, name in zip(self._rows[found].tolist(), self._hashes[found].tolist(), strict=True):
            yield from ((row, text) for text in named[name])
