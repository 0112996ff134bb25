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
        return np.array([answer_id in right for answer_id in ids], dtype=bool)

    def _ids(self, documents: Sequence[Document], right: Container[str]) -> list[str]:
        """The ids of the answers that documents are, in order: of equal answers first the right ones, none twice."""
        ids: dict[str, None] = {}
        for rank, document in enumerate(documents):
            left = [answer_id for answer_id in self._ids_of_equal(document) if answer_id not in ids]
            right_ones = [answer_id for answer_id in left if answer_id in right]
            candidates = [*right_ones, *left, f"document {rank}"]
            ids[candidates[0]] = None
        return list(ids)

    def _ids_of_equal(self, document: Document) -> Sequence[str]:
        """The ids of the answers with the text of a document; none if it is no answer."""
        for form in _forms(document):
            if form in self._ids_of:  # asked first: a `defaultdict` would keep it
                return self._ids_of[form]
        return ()


def _forms(document: Document) -> Iterator[str]:
    """The texts, normalized, that an answer of the data may have if the document is that answer."""
    question = str(document.meta.get("question") or "")
    answer = str(document.meta.get("answer") or "")
    for text in (document.content or "", f"{question} {answer}", answer):
        form = normalized(text)
        if form:
            yield form
