"""Which documents of a store each known wording asks for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from haystack import Document

from ap_ranker.data.dataset import normalized
from ap_ranker.data.wordings import Wordings
from ap_ranker.ranking.wordings import WORDINGS


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
        self._by_id: defaultdict[str, list[int]] = defaultdict(list)
        # The hash, as the texts of many documents would take too much memory.
        self._by_text: defaultdict[int, list[int]] = defaultdict(list)
        for row, document in documents:
            self._own += ((row, text) for text in own_wordings(document))
            answer_id, *texts = names_in_files(document)
            if answer_id:
                self._by_id[answer_id].append(row)
            for text in {hash(normalized(text)) for text in texts if text}:
                self._by_text[text].append(row)

    def pairs(self, files: Iterable[Wordings]) -> Iterator[tuple[int, str]]:
        """Each document's row with each of its wordings: those of its meta and those of files.

        Wordings of answers that the store does not have are left out.
        """
        yield from self._own
        for file in files:
            for answer_id, texts in file.by_id.items():
                yield from ((row, text) for row in self._by_id.get(answer_id, ()) for text in texts)
            for answer, texts in file.by_text.items():
                yield from ((row, text) for row in self._by_text.get(hash(answer), ()) for text in texts)
