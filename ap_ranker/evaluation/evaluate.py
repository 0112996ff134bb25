"""A model and BM25 on the same questions and the same candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.errors import InputError
from ap_ranker.evaluation.fusion import fit_weight, fuse
from ap_ranker.evaluation.metrics import means, measure_each
from ap_ranker.evaluation.scoring import CandidateScores, score_candidates
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.ranker import Ranker

CANDIDATES = 100
"""Number of answers BM25 retrieves where the data names no candidates and has more answers than `RANK_ALL`."""

RANK_ALL = 1000
"""Up to this many answers, all are candidates: no first stage is needed, so none should cost recall."""

DIVERGED = (
    "The model has diverged: expected scores that are finite numbers, found others. "
    "Train it again with a lower learning_rate, or with another objective."
)


@dataclass(frozen=True)
class EvaluationReport:
    """The result of an evaluation.

    Attributes:
        n_questions: Q, number of questions that the means are over.
        unanswerable: number of questions left out because the data has no right answer for them.
        candidates: what was ranked, in words.
        model: measure -> mean.
        bm25: the same for BM25.
        fusion: the same for both scores added, with the checkpoint's weight of BM25; `None` where that is 0.
        model_each: measure -> (Q,) values, one per question.
        bm25_each: the same for BM25.
        encode_seconds: time to encode all answers once.
        seconds_per_question: time to encode a question and match it with its encoded candidates.
        fusion_each: as `model_each`, for the fusion.
        scores: the model's scores of each question's candidates.
        bytes_per_answer: of the states kept of an answer; mean over the answers.
    """

    n_questions: int
    unanswerable: int
    candidates: str
    model: dict[str, float]
    bm25: dict[str, float]
    fusion: dict[str, float] | None
    model_each: dict[str, np.ndarray]
    bm25_each: dict[str, np.ndarray]
    encode_seconds: float
    seconds_per_question: float
    fusion_each: dict[str, np.ndarray] | None = None
    scores: Sequence[np.ndarray] = ()
    bytes_per_answer: float = 0.0

    @property
    def fused(self) -> dict[str, float]:
        """What the checkpoint's user gets: `fusion`, or the model's own measures where BM25 has no weight."""
        return self.fusion or self.model


def evaluate(ranker: Ranker, dataset: Dataset) -> EvaluationReport:
    """Rank each answerable question's candidates with the model and with BM25.

    Raises:
        InputError: no question has a right answer, or the model's scores are not finite numbers.
    """
    return EvaluationSet(dataset).report(ranker)


class EvaluationSet:
    """Questions with fixed candidates, to be ranked repeatedly: after each epoch of a model, or by many models.

    Args:
        dataset: questions and answers.
        unanswerable: include the questions without a right answer; they can be ranked, but no measure counts them.

    Attributes:
        questions: the answerable ones; with `unanswerable`, all.
        pools: the candidates of each.
        candidates: how they were chosen, in words.

    Raises:
        InputError: no question has a right answer.
    """

    def __init__(self, dataset: Dataset, *, unanswerable: bool = False) -> None:
        self.dataset = dataset
        self.questions = answerable(dataset)
        if unanswerable:
            self.questions = list(dataset.questions)
        self._bm25 = _bm25(dataset)
        self.pools, self.candidates = _candidates(dataset, self.questions, self._bm25)

    @cached_property
    def bm25_scores(self) -> list[np.ndarray]:
        """BM25's scores of each question's candidates."""
        pairs = zip(self.questions, self.pools, strict=True)
        return [self._bm25(question.text)[list(rows)].astype(np.float64) for question, rows in pairs]

    @cached_property
    def bm25_each(self) -> dict[str, np.ndarray]:
        """BM25's measures on the same candidates, question by question."""
        return self.measures_each(self.bm25_scores)

    @property
    def bm25(self) -> dict[str, float]:
        """BM25's measures on the same candidates."""
        return means(self.bm25_each)

    def random(self, orders: int = 20) -> dict[str, float]:
        """The mean measures of random orders of the candidates: the baseline of knowing nothing."""
        rng = np.random.default_rng(1)
        each = [self.measures([rng.random(len(rows)) for rows in self.pools]) for _ in range(orders)]
        return {name: float(np.mean([measures[name] for measures in each])) for name in each[0]}

    def scores(self, ranker: Ranker) -> list[np.ndarray]:
        """The model's scores of each question's candidates.

        Raises:
            InputError: they are not finite numbers.
        """
        return self.timed_scores(ranker).by_question

    def timed_scores(
        self, ranker: Ranker, on_progress: Callable[[int, int], None] = lambda done, total: None
    ) -> CandidateScores:
        """As `scores`, with the time taken; `on_progress` receives the number of answers done and their total."""
        scores = score_candidates(ranker, self.dataset, self.questions, self.pools, on_progress)
        _check_finite(scores.by_question)
        return scores

    def bm25_weight(self, scores: Sequence[np.ndarray]) -> float:
        """The weight of BM25's scores that best complements a model's; 0 if they do not help."""
        right = [np.isin(rows, question.positives) for rows, question in zip(self.pools, self.questions, strict=True)]
        # Where BM25 retrieved the candidates, a right one may be missing: such a question says nothing.
        informative = [i for i, relevant in enumerate(right) if relevant.any()]
        model, bm25 = ([each[i] for i in informative] for each in (scores, self.bm25_scores))
        return fit_weight(model, bm25, [right[i] for i in informative])

    def fused_each(self, scores: Sequence[np.ndarray], weight: float) -> dict[str, np.ndarray] | None:
        """The measures of a model's scores with BM25's added, question by question; `None` without a weight."""
        return self.measures_each(fuse(scores, self.bm25_scores, weight)) if weight else None

    def measures(self, scores: Sequence[Sequence[float] | np.ndarray]) -> dict[str, float]:
        """The mean measures of each question's scores.

        Raises:
            InputError: they are not finite numbers.
        """
        return means(self.measures_each(scores))

    def first(self, question: int, scores: Sequence[float] | np.ndarray) -> Answer:
        """The candidate of a question, by position, that these scores put first; ties break as in the measures."""
        answers = [self.dataset.answers[row] for row in self.pools[question]]
        return max(zip(scores, answers, strict=True), key=lambda pair: (pair[0], pair[1].id))[1]

    def report(self, ranker: Ranker) -> EvaluationReport:
        """The model, BM25 and their fusion side by side.

        Raises:
            InputError: the model's scores are not finite numbers.
        """
        scores = score_candidates(ranker, self.dataset, self.questions, self.pools)
        return self.report_of(scores, ranker.config.bm25_weight if ranker.config else 0.0)

    def report_of(self, scores: CandidateScores, weight: float) -> EvaluationReport:
        """As `report`, from known scores.

        Args:
            scores: of this set's candidates.
            weight: of BM25 in the fusion.

        Raises:
            InputError: they are not finite numbers.
        """
        each = self.measures_each(scores.by_question)
        fused = self.fused_each(scores.by_question, weight)
        return EvaluationReport(
            n_questions=len(self.questions),
            unanswerable=len(self.dataset.questions) - len(self.questions),
            candidates=self.candidates,
            model=means(each),
            bm25=self.bm25,
            fusion=means(fused) if fused else None,
            model_each=each,
            bm25_each=self.bm25_each,
            encode_seconds=scores.encode_seconds,
            seconds_per_question=scores.question_seconds / len(self.questions),
            bytes_per_answer=scores.bytes_per_answer,
            fusion_each=fused,
            scores=scores.by_question,
        )

    def measures_each(self, scores: Sequence[Sequence[float] | np.ndarray]) -> dict[str, np.ndarray]:
        """As `measures`, question by question: measure -> (Q,) values."""
        _check_finite(scores)
        ids = [answer.id for answer in self.dataset.answers]
        relevant = {question.id: {ids[row]: 1 for row in question.positives} for question in self.questions}
        run = {
            question.id: {ids[row]: float(score) for row, score in zip(rows, values, strict=True)}
            for question, rows, values in zip(self.questions, self.pools, scores, strict=True)
        }
        return measure_each(relevant, run)


def _check_finite(scores: Sequence[Sequence[float] | np.ndarray]) -> None:
    if not all(np.isfinite(values).all() for values in scores):  # they would leave the answers in any order
        raise InputError(DIVERGED)


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
    index: list[BM25] = []  # built on first use: small data with given candidates never needs it in training

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
    recall = sum(bool(set(rows) & set(q.positives)) for rows, q in zip(pools, questions, strict=True)) / len(questions)
    return pools, f"BM25's {CANDIDATES} best of {total} answers, with a right one for {recall:.1%} of the questions"


def score_together(evaluation_sets: Sequence[EvaluationSet], ranker: Ranker) -> list[CandidateScores]:
    """Score each set's candidates; answers that several sets share are encoded only once.

    Args:
        evaluation_sets: sets over the same answers; questions and candidates may differ.
        ranker: the model.

    Returns:
        CandidateScores whose times are those of all sets together.
    """
    first = evaluation_sets[0]
    assert all(each.dataset.answers == first.dataset.answers for each in evaluation_sets)
    questions = [question for each in evaluation_sets for question in each.questions]
    scores = score_candidates(
        ranker, first.dataset, questions, [rows for each in evaluation_sets for rows in each.pools]
    )
    rest = iter(scores.by_question)
    return [replace(scores, by_question=list(islice(rest, len(each.questions)))) for each in evaluation_sets]
