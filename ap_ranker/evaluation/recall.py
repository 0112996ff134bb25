"""Measures what BM25 finds among all answers: no ranker can put an answer on top that was not fetched."""

from __future__ import annotations

import numpy as np

from ap_ranker.data.dataset import Dataset, answerable
from ap_ranker.evaluation.metrics import Levels
from ap_ranker.ranking.bm25 import BM25

DEPTHS = (10, 100)
"""Numbers of candidates: few, and what a pipeline usually fetches."""


def bm25_recall(dataset: Dataset, language: str | None = None) -> dict[int, float]:
    """The share of the answerable questions with a right answer among BM25's best; candidate pools are ignored.

    Where the last of the best are tied with others, a question counts by the chance that right ones are among them.

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
    found = []
    for question in questions:
        scores = index.scores(question.text)
        fetched = scores > 0
        right = np.isin(np.arange(len(scores)), question.positives)
        found.append(Levels.of(scores[fetched], right[fetched]))
    return {depth: float(np.mean([levels.success(depth) for levels in found])) for depth in DEPTHS}
