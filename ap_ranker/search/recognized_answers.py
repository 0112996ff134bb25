"""Which answers of a data set the documents of a search are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence

import numpy as np
from haystack import Document
from numpy.typing import NDArray

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.text.reading import normalized


class RecognizedAnswers:
    """Recognizes documents among the answers of a data set by their texts; `found_any` says whether any was."""

    def __init__(self, dataset: Dataset) -> None:
        self._rows_of: defaultdict[str, list[int]] = defaultdict(list)  # text -> the answers with it
        for row, answer in enumerate(dataset.answers):
            self._rows_of[normalized(answer.text)].append(row)
        self.found_any = False

    def right(self, documents: Sequence[Document], question: Question) -> NDArray[np.bool_]:
        """(N,) for each document, whether it is a right answer to a question; a copy of an earlier one is not."""
        right = set(question.positives)
        taken: set[int] = set()
        is_right = np.zeros(len(documents), dtype=bool)
        for rank, document in enumerate(documents):
            row = self._recognize(document, right, taken)
            if row is not None:
                self.found_any = True
                taken.add(row)
                is_right[rank] = row in right
        return is_right

    def _recognize(self, document: Document, right: Container[int], taken: Container[int]) -> int | None:
        """The answer that a document is: of equal answers first a right one, and none that is taken."""
        left = [row for row in self._equal_answers(document) if row not in taken]
        for row in left:
            if row in right:
                return row
        return left[0] if left else None

    def _equal_answers(self, document: Document) -> Sequence[int]:
        """The answers with the text of a document; none if it is no answer."""
        for form in _forms(document):
            if form in self._rows_of:  # asked first: a `defaultdict` would keep it
                return self._rows_of[form]
        return ()


def _forms(document: Document) -> Iterator[str]:
    """The texts, normalized, that an answer of the data may have if the document is that answer."""
    question = str(document.meta.get("question") or "")
    answer = str(document.meta.get("answer") or "")
    for text in (document.content or "", f"{question} {answer}", answer):
        form = normalized(text)
        if form:
            yield form
