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
        self._answers = dataset.answers
        self._ids_of: defaultdict[str, list[str]] = defaultdict(list)
        for answer in dataset.answers:
            self._ids_of[normalized(answer.text)].append(answer.id)
        self._known = {answer.id for answer in dataset.answers}
        self.found_any = False

    def right(self, documents: Sequence[Document], question: Question) -> NDArray[np.bool_]:
        """Whether each document that is no copy of one before is a right answer to a question."""
        right = {self._answers[row].id for row in question.positives}
        ids = self._ids(documents, right)
        self.found_any |= not self._known.isdisjoint(ids)
        return np.array([name in right for name in ids], dtype=bool)

    def _ids(self, documents: Sequence[Document], right: Container[str]) -> list[str]:
        """The ids of the answers that documents are, in order: of equal answers first the right ones, none twice."""
        ids: dict[str, None] = {}
        for rank, document in enumerate(documents):
            of_text = next((self._ids_of[form] for form in _forms(document) if form in self._ids_of), ())
            left = sorted((name for name in of_text if name not in ids), key=lambda name: name not in right)
            ids[left[0] if left else f"document {rank}"] = None
        return list(ids)


def _forms(document: Document) -> Iterator[str]:
    question = str(document.meta.get("question") or "")
    answer = str(document.meta.get("answer") or "")
    yield from filter(None, map(normalized, (document.content or "", f"{question} {answer}", answer)))
