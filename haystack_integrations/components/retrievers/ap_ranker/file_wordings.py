# SPDX-License-Identifier: Apache-2.0
"""Files of known wordings, for documents that are elsewhere: the answers whose wordings a question is like."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from ap_ranker.data.wordings import WordingFiles, Wordings
from ap_ranker.kept_results import Latest
from ap_ranker.ranking.bm25 import best_rows
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.wordings import WordingIndex
from ap_ranker.text.reading import question_keys
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import name_key

_NamedWordings = tuple[list[str], list[tuple[int, str]]]
"""The keys of all answers that files name, and each wording with the number of its answer's."""


class FileWordings:
    """The known wordings of files, which are followed, between what stands before and after a question."""

    def __init__(self, paths: list[str], prefix: str = "", suffix: str = "") -> None:
        self.paths = paths
        self.prefix = prefix
        self.suffix = suffix
        self._files = WordingFiles()
        self._named: Latest[_NamedWordings] = Latest()
        self._index: Latest[WordingIndex] = Latest()

    def add(self, path: str | Path) -> None:
        """Follow one more file; InputError if it cannot be read."""
        if str(path) not in self.paths:
            self._files.now([*self.paths, str(path)])
            self.paths.append(str(path))

    def warm_up(self, ranker: Ranker) -> None:
        """Read the files and encode their wordings."""
        if self.paths and ranker.has_vectors:
            self._vectors(self._files.now(self.paths), ranker)

    def close(self) -> None:
        """Forget what was read and encoded, until the next use."""
        self._files = WordingFiles()
        self._named.forget()
        self._index.forget()

    def nearest(self, question: str, vector: np.ndarray | None, ranker: Ranker, limit: int) -> list[str]:
        """The keys (`name_key`) of the answers whose wordings are most like a question, the same ones first."""
        if not self.paths:
            return []
        files = self._files.now(self.paths)
        names, pairs = self._pairs(files)
        asked = {*question_keys(question)}
        exact: list[str] = []
        for row, text in pairs:
            if not asked.isdisjoint(question_keys(text)):
                exact.append(names[row])
        similar: list[str] = []
        if vector is not None:
            index = self._vectors(files, ranker)
            best = best_rows(index.scores(vector), limit, above=-np.inf)
            similar = [names[row] for row in index.rows[best].tolist()]
        return list(dict.fromkeys([*exact, *similar]))[:limit]

    def _pairs(self, files: Wordings) -> _NamedWordings:
        return self._named.get(files, partial(_pairs_of, files))

    def _vectors(self, files: Wordings, ranker: Ranker) -> WordingIndex:
        def make() -> WordingIndex:
            _, pairs = self._pairs(files)
            texts = ((row, self.prefix + text + self.suffix) for row, text in pairs)
            return WordingIndex.of(texts, ranker.wording_vectors, ranker.embed_wordings)

        return self._index.get((files, ranker), make)


def _pairs_of(files: Wordings) -> _NamedWordings:
    named = dict(_named(files))
    pairs: list[tuple[int, str]] = []
    for row, texts in enumerate(named.values()):
        for text in texts:
            pairs.append((row, text))
    return list(named), pairs


def _named(files: Wordings) -> Iterator[tuple[str, tuple[str, ...]]]:
    for kind, texts_of_names in (("id", files.by_id), ("text", files.by_text)):
        for name, texts in texts_of_names.items():
            yield name_key(kind, name), tuple(texts)
