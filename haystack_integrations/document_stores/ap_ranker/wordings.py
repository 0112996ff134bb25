"""Which documents of a store each known wording asks for."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from haystack import Document

from ap_ranker.data.wordings import Wordings
from ap_ranker.ranking.wordings import WORDINGS
from ap_ranker.text.keys import normalized


def own_wordings(document: Document) -> Iterator[str]:
    """The wordings in a document's meta: its stored question and further ones; other things there are left out."""
    further = document.meta.get(WORDINGS)
    for text in (document.meta.get("question"), *(further if isinstance(further, list) else [])):
        if text and isinstance(text, str):
            yield text


def names_in_files(document: Document) -> tuple[str, str, str]:
    """What files of wordings may call a document: its id in the FAQ, its content, and its answer."""
    return str(document.meta.get("aid", "")), document.content or "", str(document.meta.get("answer", ""))


class WordingRows:
    """Finds the rows of the documents that wordings ask for, without reading the documents again.

    :param documents: The documents of a store by row.
    """

    def __init__(self, documents: Iterable[tuple[int, Document]]) -> None:
        self._own: list[tuple[int, str]] = []
        # Hashes of the names: the texts of a million documents in a dictionary would take gigabytes.
        hashes, rows = array("q"), array("q")
        for row, document in documents:
            self._own += ((row, text) for text in own_wordings(document))
            answer_id, *texts = names_in_files(document)
            for name in {("id", answer_id), *(("text", normalized(text)) for text in texts)}:
                hashes.append(hash(name))
                rows.append(row)
        self._hashes, self._rows = np.array(hashes, np.int64), np.array(rows, np.int64)

    def pairs(self, files: Wordings) -> Iterator[tuple[int, str]]:
        """Each document's row with each of its wordings: those of its meta and those of files.

        Wordings of answers that the store does not have are left out.
        """
        yield from self._own
        named: defaultdict[int, list[str]] = defaultdict(list)
        for kind, known in (("id", files.by_id), ("text", files.by_text)):
            for name, texts in known.items():
                named[hash((kind, name))] += texts
        found = np.isin(self._hashes, np.array(list(named), np.int64))
        for row, name in zip(self._rows[found].tolist(), self._hashes[found].tolist(), strict=True):
            yield from ((row, text) for text in named[name])
