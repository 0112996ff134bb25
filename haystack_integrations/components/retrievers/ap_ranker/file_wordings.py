# SPDX-License-Identifier: Apache-2.0
"""Files of known wordings, for documents that are elsewhere: the answers whose wordings a question is like."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ap_ranker.data.wordings import WordingFiles, Wordings
from ap_ranker.ranking.bm25 import best_rows
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.wordings import WordingIndex
from ap_ranker.text.reading import question_keys
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import name_key


class FileWordings:
    """The known wordings of files, which are followed, between what stands before and after a question."""

    def __init__(self, paths: list[str], prefix: str = "", suffix: str = "") -> None:
        self.paths = paths
        self.prefix = prefix
        self.suffix = suffix
        self._files = WordingFiles()
        self._read: tuple[Wordings, list[str], list[tuple[int, str]]] | None = None
        self._index: tuple[object, Ranker, WordingIndex] | None = None
        self._lock = threading.Lock()

    def add(self, path: str | Path) -> None:
        """Follow one more file; InputError if it cannot be read."""
        if str(path) not in self.paths:
            self._files.now([*self.paths, str(path)])
            self.paths.append(str(path))

    def warm_up(self, ranker: Ranker) -> None:
        """Read the files and encode their wordings."""
        if self.paths and ranker.has_vectors:
            with self._lock:
                self._vectors(ranker)

    def close(self) -> None:
        """Forget what was read and encoded, until the next use."""
        with self._lock:
            self._files = WordingFiles()
            self._read = None
            self._index = None

    def nearest(self, question: str, vector: np.ndarray | None, ranker: Ranker, limit: int) -> list[str]:
        """The keys (`name_key`) of the answers whose wordings are most like a question, the same ones first."""
        if not self.paths:
            return []
        with self._lock:
            names, pairs = self._pairs()
            asked = {*question_keys(question)}
            exact: list[str] = []
            for row, text in pairs:
                if not asked.isdisjoint(question_keys(text)):
                    exact.append(names[row])
            index = None if vector is None else self._vectors(ranker)
        similar: list[str] = []
        if index is not None and vector is not None:
            best = best_rows(index.scores(vector), limit, above=-np.inf)
            similar = [names[row] for row in index.rows[best].tolist()]
        return list(dict.fromkeys([*exact, *similar]))[:limit]

    def _pairs(self) -> tuple[list[str], list[tuple[int, str]]]:
        """The keys of all answers that the files name, and each wording with the number of its answer's."""
        files = self._files.now(self.paths)
        if self._read is None or self._read[0] is not files:
            named = dict(_named(files))
            pairs: list[tuple[int, str]] = []
            for row, texts in enumerate(named.values()):
                for text in texts:
                    pairs.append((row, text))
            self._read = files, list(named), pairs
        return self._read[1], self._read[2]

    def _vectors(self, ranker: Ranker) -> WordingIndex:
        _, pairs = self._pairs()
        if self._index is None or self._index[0] is not pairs or self._index[1] is not ranker:
            texts = ((row, self.prefix + text + self.suffix) for row, text in pairs)
            self._index = pairs, ranker, WordingIndex.of(texts, ranker.wording_vectors, ranker.embed_wordings)
        return self._index[2]


def _named(files: Wordings) -> Iterator[tuple[str, tuple[str, ...]]]:
    for kind, texts_of_names in (("id", files.by_id), ("text", files.by_text)):
        for name, texts in texts_of_names.items():
            yield name_key(kind, name), tuple(texts)
