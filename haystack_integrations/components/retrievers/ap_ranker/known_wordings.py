"""Retrieval by known wordings: which documents have a wording that a question is like, or that it is word for word?"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ap_ranker.data.wordings import WordingFiles, Wordings
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.wordings import WordingIndex
from ap_ranker.text.keys import question_key
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore
from haystack_integrations.document_stores.ap_ranker.legs import Leg


class KnownWordings:
    """The known wordings of a store's documents: those in their meta and those of files, which are followed.

    Threads may share it. A copy reads the files itself, when it is used first.

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
        self._index: tuple[Sequence[object], WordingIndex] | None = None
        self._rows: tuple[Sequence[object], dict[str, list[int]]] | None = None  # by question_key
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("paths", "prefix", "suffix")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def add(self, path: str | Path) -> None:
        """Follow one more file.

        :raises InputError: It cannot be read.
        """
        with self._lock:
            if self._files is not None:  # otherwise it is read with the others
                self._files.add(Path(path))
            if str(path) not in self.paths:
                self.paths.append(str(path))

    def leg(self, store: BM25SDocumentStore, ranker: Ranker, question: NDArray[np.float32]) -> Leg:
        """The cosine of each document's best wording with a question; new wordings are encoded first.

        :param store: The documents.
        :param ranker: The model, which has vectors of whole texts.
        :param question: (C,) the vector of the question.
        :raises InputError: A file cannot be read, or the store's folder is damaged.
        """
        return Leg.wordings(self.index(store, ranker), question)

    def index(self, store: BM25SDocumentStore, ranker: Ranker) -> WordingIndex:
        """The index of all wordings; made anew after a change of a document or of a file.

        :raises InputError: As `leg`.
        """
        with self._lock:
            rows, files, vectors = sources = store.wording_rows(), self._current(), ranker.wording_vectors
            if self._index is None or _differ(sources, self._index[0]):
                known = ((row, self.prefix + text + self.suffix) for row, text in rows.pairs(files))
                self._index = sources, WordingIndex.of(known, vectors, ranker.embed_wordings)
            return self._index[1]

    def verbatim(self, store: BM25SDocumentStore, question: str) -> Leg | None:
        """The documents of which a question is a known wording, word for word; this needs no model.

        :param store: The documents.
        :param question: The question, without prefix and suffix.
        :returns: The documents, with a score of 1 each; `None` if there is none.
        :raises InputError: As `leg`.
        """
        with self._lock:
            known, files = sources = store.wording_rows(), self._current()
            if self._rows is None or _differ(sources, self._rows[0]):
                by_key: defaultdict[str, list[int]] = defaultdict(list)
                for row, text in known.pairs(files):
                    by_key[question_key(text)].append(row)
                self._rows = sources, dict(by_key)
            rows = np.unique(np.array(self._rows[1].get(question_key(question), ()), np.int64))
        return Leg(rows, np.ones(len(rows), np.float32)) if len(rows) else None

    def _current(self) -> Sequence[Wordings]:
        """What the files hold now."""
        if self._files is None:
            self._files = WordingFiles(self.paths)
        self._files.refresh()
        return self._files.current

    def close(self) -> None:
        """Forget what was read and encoded, until the next use."""
        with self._lock:
            self._files = self._index = self._rows = None


def _differ(sources: Sequence[object], earlier: Sequence[object]) -> bool:
    return any(now is not then for now, then in zip(sources, earlier, strict=True))
