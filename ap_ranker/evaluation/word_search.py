"""What a search by words finds among all answers, with synonyms: no ranker finds more than that."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.evaluation.metrics import Levels
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.text.synonyms import Synonyms


@dataclass(frozen=True)
class SynonymPreview:
    """The effect of synonyms on BM25: how many questions have one, and the MRR before and after.

    `moved` are those whose first right answer moves, the farthest first, each with its ranks before and after; infinite
    where no word finds it.
    """

    n_questions: int
    concerned: int
    mrr: tuple[float, float]
    moved: list[tuple[str, float, float]]


def preview(data: Dataset, synonyms: Synonyms, on_progress: Progress = untold) -> SynonymPreview:
    """Search the questions of a data set without and with synonyms, among all of its answers."""
    index = BM25(data.answer_texts, language=synonyms.language)
    moved: list[tuple[float, tuple[str, float, float]]] = []  # how far it moves, and what is told of it
    reciprocal: list[list[float]] = []
    concerned = 0
    questions = data.answerable
    for n_searched, question in enumerate(questions):
        on_progress("searching", n_searched, len(questions))
        forms = synonyms.searched(question.text)
        concerned += len(forms) > 1
        levels_before = levels_of(index.best_scores(forms[:1]), question)
        levels_after = levels_of(index.best_scores(forms), question)
        reciprocal.append([levels_before.reciprocal_rank(), levels_after.reciprocal_rank()])
        before = levels_before.first_rank() or inf
        after = levels_after.first_rank() or inf
        if before != after:
            distance = abs(reciprocal[-1][1] - reciprocal[-1][0])
            moved.append((distance, (question.text, before, after)))
    on_progress("searching", len(questions), len(questions))
    pairs = np.array(reciprocal).reshape(-1, 2)
    mrr, new_mrr = pairs.mean(axis=0).tolist()
    moved.sort(key=lambda pair: -pair[0])
    return SynonymPreview(len(reciprocal), concerned, (mrr, new_mrr), [change for _, change in moved])


def levels_of(scores: np.ndarray, question: Question) -> Levels:
    """The ranking of the texts that share a word with a question."""
    rows = np.flatnonzero(scores > 0)
    return Levels.of(scores[rows], np.isin(rows, question.positives))
