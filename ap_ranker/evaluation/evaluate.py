"""A model and BM25 on the same questions and the same candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.errors import InputError
from ap_ranker.evaluation.bm25 import BM25
from ap_ranker.evaluation.metrics import measure
from ap_ranker.evaluation.scoring import score_candidates
from ap_ranker.ranking.ranker import Ranker

CANDIDATES = 100
"""How many answers BM25 fetches where the data names no candidates and has more answers than `RANK_ALL`."""

RANK_ALL = 1000
"""Up to this many answers, all of them are candidates: no first stage is needed, so none should cost recall."""


@dataclass(frozen=True)
class Report:
    """The result of an evaluation.

    Attributes:
        n_questions: how many questions the means are over.
        unanswerable: questions set aside because the data has no right answer for them.
        candidates: what was ranked, in words.
        model: measure -> value.
        bm25: the same for BM25.
        encode_seconds: to encode all answers once.
        seconds_per_question: to encode a question and match it with its encoded candidates.
    """

    n_questions: int
    unanswerable: int
    candidates: str
    model: dict[str, float]
    bm25: dict[str, float]
    encode_seconds: float
    seconds_per_question: float


def evaluate(ranker: Ranker, dataset: Dataset) -> Report:
    """Rank each answerable question's candidates with the model and with BM25.

    Raises:
        InputError: no question has a right answer.
    """
    judged = DevSet(dataset)
    questions, pools = judged.questions, judged.pools
    scores = score_candidates(ranker, dataset, questions, pools)
    return Report(
        n_questions=len(questions),
        unanswerable=len(dataset.questions) - len(questions),
        candidates=judged.candidates,
        model=_measure(dataset, questions, pools, scores.by_question),
        bm25=judged.measure_bm25(),
        encode_seconds=scores.encode_seconds,
        seconds_per_question=scores.question_seconds / len(questions),
    )


class DevSet:
    """Questions whose candidates are chosen once, to be ranked again and again while a model learns."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.questions = answerable(dataset)
        self._bm25 = _bm25(dataset)
        self.pools, self.candidates = _candidates(dataset, self.questions, self._bm25)

    def measure(self, ranker: Ranker) -> dict[str, float]:
        """The measures of the model as it is now."""
        scores = score_candidates(ranker, self.dataset, self.questions, self.pools)
        return _measure(self.dataset, self.questions, self.pools, scores.by_question)

    def measure_bm25(self) -> dict[str, float]:
        """BM25's measures on the same candidates."""
        pairs = zip(self.questions, self.pools, strict=True)
        scores = [self._bm25(question.text)[list(rows)].tolist() for question, rows in pairs]
        return _measure(self.dataset, self.questions, self.pools, scores)


def answerable(dataset: Dataset) -> list[Question]:
    """The questions to rank for.

    Raises:
        InputError: there are none.
    """
    questions = dataset.answerable
    if not questions:
        raise InputError(
            f"{dataset.name}: expected questions with a right answer, found none among {len(dataset.questions)}."
        )
    return questions


def _bm25(dataset: Dataset) -> Callable[[str], np.ndarray]:
    index: list[BM25] = []  # built when first asked: small data with given candidates never needs it while training

    def scores(text: str) -> np.ndarray:
        if not index:
            index.append(BM25([answer.text for answer in dataset.answers]))
        return index[0].scores(text)

    return scores


def _candidates(
    dataset: Dataset, questions: Sequence[Question], bm25: Callable[[str], np.ndarray]
) -> tuple[list[tuple[int, ...]], str]:
    """The answers to rank for each question, and how they were chosen."""
    given = [question.candidates for question in questions]
    if all(rows is not None for rows in given):
        pools = [rows for rows in given if rows is not None]
        return pools, f"given with the data, {sum(map(len, pools)) / len(pools):.0f} per question"
    total = len(dataset.answers)
    if total <= RANK_ALL:
        return [tuple(range(total))] * len(questions), f"all {total} answers"
    pools = [tuple(np.argsort(-bm25(question.text), kind="stable")[:CANDIDATES].tolist()) for question in questions]
    found = sum(bool(set(rows) & set(q.positives)) for rows, q in zip(pools, questions, strict=True)) / len(questions)
    return pools, f"BM25's {CANDIDATES} best of {total} answers, with a right one for {found:.1%} of the questions"


def _measure(
    dataset: Dataset, questions: Sequence[Question], pools: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]
) -> dict[str, float]:
    ids = [answer.id for answer in dataset.answers]
    relevant = {question.id: {ids[row]: 1 for row in question.positives} for question in questions}
    run = {
        question.id: {ids[row]: score for row, score in zip(rows, values, strict=True)}
        for question, rows, values in zip(questions, pools, scores, strict=True)
    }
    return measure(relevant, run)
