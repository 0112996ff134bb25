"""Measures what BM25 finds among all answers: no ranker can put an answer on top that was not fetched."""

from __future__ import annotations

import numpy as np

from ap_ranker.data.dataset import Dataset, answerable
from ap_ranker.ranking.bm25 import BM25, best_rows

DEPTHS = (10, 100)
"""Numbers of candidates: few, and what a pipeline usually fetches."""


def bm25_recall(dataset: Dataset, language: str | None = None) -> dict[int, float]:
    """The share of the answerable questions with a right answer among BM25's best; candidate pools are ignored.

    Args:
        dataset: questions, and the answers to search.
        language: of BM25's stemmer; `None` for no stemmer.

    Returns:
        Number of candidates -> share.

    Raises:
        InputError: no question has a right answer, or there is no stemmer for the language.
    """
    questions = answerable(dataset)
    index = BM25([answer.text for answer in dataset.answers], language=language)
    found = np.zeros((len(questions), max(DEPTHS)), dtype=bool)
    for right, question in zip(found, questions, strict=True):
        rows = best_rows(index.scores(question.text), max(DEPTHS))
        right[: len(rows)] = np.isin(rows, question.positives)
    return {depth: float(found[:, :depth].any(axis=1).mean()) for depth in DEPTHS}
