"""Retrieval by known wordings: which documents have a wording that a question is like, or that it is word for word?"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ap_ranker.data.wordings import WordingFiles
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.wordings import WordingIndex
from ap_ranker.text.keys import question_key
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore
from haystack_integrations.document_stores.ap_ranker.legs import Leg


class KnownWordings:
    """The known wordings of a store's documents: those in their meta and those of files, which are followed.

    Threads may share it. A copy reads the files itself, when it is used first. Methods raise `InputError` if a file
    cannot be read, or the store's folder is damaged.

    Attributes:
        paths: the files.
        prefix: the text before a question, as the model reads it, and so before a wording.
        suffix: the text after it.
    """

    def __init__(self, paths: list[str], prefix: str = "", suffix: str = "") -> None:
        self.paths = paths
        self.prefix = prefix
        self.suffix = suffix
        self._files: WordingFiles | None = None
        self._made: dict[str, tuple[list[object], Any]] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("paths", "prefix", "suffix")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def add(self, path: str | Path) -> None:
        """Follow one more file."""
        with self._lock:
            if self._files is not None:  # otherwise it is read with the others
                self._files.add(Path(path))
            if str(path) not in self.paths:
                self.paths.append(str(path))

    def leg(self, store: BM25SDocumentStore, ranker: Ranker, question: NDArray[np.float32]) -> Leg:
        """The cosine of each document's best wording with a question (C,); new wordings are encoded first."""
        index = self.index(store, ranker)
        return Leg(index.rows, index.scores(question))

    def index(self, store: BM25SDocumentStore, ranker: Ranker) -> WordingIndex:
        """The index of all wordings, by the vectors of a model; made anew after a change of a document or of a file."""

        def make(pairs: Pairs) -> WordingIndex:
            known = ((row, self.prefix + text + self.suffix) for row, text in pairs)
            return WordingIndex.of(known, ranker.wording_vectors, ranker.embed_wordings)

        index: WordingIndex = self._latest("index", store, make, ranker.wording_vectors)
        return index

    def verbatim(self, store: BM25SDocumentStore, question: str) -> Leg | None:
        """The documents of which a question is a known wording, word for word, as a leg; this needs no model.

        :param store: The documents.
        :param question: The question, without prefix and suffix.
        """
        rows = np.array(sorted(self._latest("rows", store, _by_key).get(question_key(question), ())), np.int64)
        return Leg(rows, np.ones(len(rows), np.float32)) if len(rows) else None

    def _latest(self, name: str, store: BM25SDocumentStore, make: Callable[[Pairs], Any], *more: object) -> Any:
        """What was made of the rows of documents with their wordings; made anew if any of its sources is another."""
        with self._lock:
            if self._files is None:
                self._files = WordingFiles(self.paths)
            rows, files = store.wording_rows(), self._files.now()
            sources = [rows, files, *more]
            known, made = self._made.get(name, (None, None))
            if known is None or any(now is not then for now, then in zip(sources, known, strict=True)):
                made = make(rows.pairs(files))
                self._made[name] = sources, made
            return made

    def close(self) -> None:
        """Forget what was read and encoded, until the next use."""
        with self._lock:
            self._files, self._made = None, {}


Pairs = Iterable[tuple[int, str]]


def _by_key(pairs: Pairs) -> dict[str, set[int]]:
    rows: defaultdict[str, set[int]] = defaultdict(set)
    for row, text in pairs:
        rows[question_key(text)].add(row)
    return dict(rows)
