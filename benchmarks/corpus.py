"""What is ranked: documents, pairs of questions, and the candidates of each pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from haystack import Document

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import BM25


@dataclass(frozen=True)
class Corpus:
    """A data set as the benchmark sees it.

    Attributes:
        name: where it was read from.
        documents: one per different answer text.
        questions: Q pairs of different questions. Both rank the candidates of the first: it finds nothing cached, the
            second finds the candidates cached, and neither was ever asked before.
    """

    name: str
    documents: list[Document]
    questions: list[tuple[str, str]]

    @classmethod
    def of(cls, data: Dataset, questions: int) -> Corpus:
        """The data's answers and its first questions; with fewer than 2Q questions, there are fewer pairs.

        Raises:
            InputError: fewer than two different questions.
        """
        asked = list(dict.fromkeys(question.text for question in data.questions))
        size = min(questions, len(asked) // 2)
        if not size:
            raise InputError(
                f"{data.name}: expected at least two different questions (one finds the answers cached that another "
                f"has ranked), found {len(asked)}."
            )
        texts = dict.fromkeys(answer.text for answer in data.answers)
        documents = [Document(id=str(row), content=text) for row, text in enumerate(texts)]
        return cls(data.name, documents, list(zip(asked[:size], asked[size : 2 * size], strict=True)))

    @property
    def texts(self) -> list[str]:
        """The documents' contents."""
        return [document.content or "" for document in self.documents]

    def candidates(self, n: int) -> list[list[Document]]:
        """The n best documents of BM25 for the first question of each pair; all of them if there are no more."""
        bm25 = BM25(self.texts)
        best = (np.argsort(-bm25.scores(question), kind="stable")[:n].tolist() for question, _ in self.questions)
        return [[self.documents[row] for row in rows] for rows in best]
