"""Questions with fixed candidates, which models and BM25 rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ap_ranker.data.dataset import Dataset, Question, answerable
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.metrics import means, measure_each
from ap_ranker.evaluation.scoring import CandidateScores, ignored, score_candidates, score_wordings
from ap_ranker.ranking.bm25 import BM25, best_rows
from ap_ranker.ranking.checkpoint import TRAINED_QUESTIONS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Calibration, Ranking, Signals, Weights, rank
from ap_ranker.text.question_keys import keys_of_questions, question_keys

CANDIDATES = 100
"""Number of answers that BM25 retrieves if the data names no candidates and has more answers than `RANK_ALL`."""

RANK_ALL = 1000
"""Maximum number of answers that are all candidates: so few need no first stage, which would cost recall."""

ALONE = Weights()  # the model's score alone


class EvaluationSet:
    """Questions with fixed candidates, to be ranked repeatedly: after each epoch of a model, or by many models.

    `unanswerable` includes questions without a right answer, which no measure counts; `as_new`, no question meets its
    own text among the known wordings, with which an answer comes first, as in a search. BM25 fetches the candidates of
    many answers; beside it the `retriever`, by its vectors, as `HybridRetriever` does. `pools` are the candidates of
    each question; `candidates` tells how they were chosen, in words. InputError if no question has a right answer, or,
    by all methods that compute scores, if one is not finite.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        unanswerable: bool = False,
        as_new: bool = True,
        language: str | None = None,
        retriever: Ranker | None = None,
    ) -> None:
        self.dataset = dataset
        self.language = language
        self.as_new = as_new
        self.questions = list(dataset.questions) if unanswerable else answerable(dataset)
        self.pools, self.candidates = self._choose_candidates(retriever)

    @cached_property
    def _index(self) -> BM25:  # lazy: small data with given candidates does not need it in training
        return BM25(self.dataset.answer_texts, language=self.language)

    def with_language(self, language: str | None) -> EvaluationSet:
        """The same candidates beside BM25 of another language, for the fusion of a checkpoint trained with that."""
        if language == self.language:
            return self
        questions: list[Question] = []
        for question, rows in zip(self.questions, self.pools, strict=True):
            questions.append(replace(question, candidates=rows))
        return EvaluationSet(replace(self.dataset, questions=questions), as_new=self.as_new, language=language)

    @property
    def question_texts(self) -> list[str]:
        """The texts of the questions."""
        return [question.text for question in self.questions]

    @cached_property
    def bm25_scores(self) -> list[np.ndarray]:
        """BM25's scores of each question's candidates."""
        scores: list[np.ndarray] = []
        for question, rows in zip(self.questions, self.pools, strict=True):
            of_all = self._index.scores(question.text)
            scores.append(of_all[list(rows)].astype(np.float64))
        return scores

    @cached_property
    def exact(self) -> list[np.ndarray]:
        """Whether each question is a known wording of each of its candidates, word for word."""
        keys_of_answers = [keys_of_questions(answer.wordings) for answer in self.dataset.answers]
        exact: list[np.ndarray] = []
        for question, rows in zip(self.questions, self.pools, strict=True):
            asked = question_keys(question.text)
            exact.append(np.array([not keys_of_answers[row].isdisjoint(asked) for row in rows], dtype=bool))
        return exact

    @cached_property
    def right(self) -> list[np.ndarray]:
        """Which candidates of each question are right answers."""
        right: list[np.ndarray] = []
        for question, rows in zip(self.questions, self.pools, strict=True):
            right.append(np.isin(rows, question.positives))
        return right

    @cached_property
    def bm25_each(self) -> dict[str, np.ndarray]:
        """BM25's measures on the same candidates, question by question."""
        return self.measures_each(self.bm25_scores)

    @property
    def bm25(self) -> dict[str, float]:
        """BM25's measures on the same candidates."""
        return means(self.bm25_each)

    def timed_scores(self, ranker: Ranker, on_progress: Callable[[int, int], None] = ignored) -> CandidateScores:
        """The model's scores of each question's candidates, with the time taken."""
        scores = score_candidates(ranker, self.dataset, self.questions, self.pools, on_progress)
        if not all(np.isfinite(values).all() for values in scores.by_question):  # they have no order
            advice = "Train it again with a lower learning_rate, or with another objective."
            raise InputError(f"The model has diverged: expected scores that are finite numbers, found others. {advice}")
        return scores

    def scores(self, ranker: Ranker, on_progress: Callable[[int, int], None] = ignored) -> CandidateScores:
        """As `timed_scores`, with the known wordings if the checkpoint uses them."""
        scores = self.timed_scores(ranker, on_progress)
        if ranker.decider().weights.wording:
            return self.with_wordings(ranker, scores)
        return scores

    def with_wordings(self, ranker: Ranker, scores: CandidateScores) -> CandidateScores:
        """Add the scores of the best known wordings, if there are any (`score_wordings`)."""
        return score_wordings(ranker, self.dataset, self.questions, self.pools, scores, as_new=self.as_new)

    def signals(self, scores: CandidateScores) -> list[Signals]:
        """What the rule of ranking needs of each question."""
        exact: Sequence[np.ndarray | None] = [None] * len(self.pools) if self.as_new else self.exact
        complete: list[Signals] = []
        for signals, bm25, is_exact, rows in zip(scores.signals, self.bm25_scores, exact, self.pools, strict=True):
            parts = [self.dataset.answers[row].parts for row in rows]
            complete.append(replace(signals, bm25=bm25, exact=is_exact, answers=parts))
        return complete

    def rankings(
        self, scores: CandidateScores, weights: Weights | Sequence[Weights], calibration: Calibration | None = None
    ) -> list[Ranking]:
        """Rank each question's candidates, as a search does; by the same weights, or by each question's own."""
        if isinstance(weights, Weights):
            weights = [weights] * len(self.questions)
        rankings: list[Ranking] = []
        for signals, own_weights in zip(self.signals(scores), weights, strict=True):
            rankings.append(rank(signals, own_weights, calibration))
        return rankings

    def informative(
        self, scores: CandidateScores, rows: NDArray[np.int64] | None = None
    ) -> tuple[list[Signals], list[NDArray[np.bool_]]]:
        """What ranks the candidates, and which are right, of the questions that have a right one among them.

        Of all questions, or of some `rows` alone.
        """
        signals = self.signals(scores)
        rows = np.arange(len(signals)) if rows is None else rows
        with_right: tuple[list[Signals], list[NDArray[np.bool_]]] = ([], [])
        for row in rows.tolist():
            if self.right[row].any():  # if BM25 retrieved the candidates, it may miss
                with_right[0].append(signals[row])
                with_right[1].append(self.right[row])
        return with_right

    def measures(self, scores: Sequence[Sequence[float] | np.ndarray]) -> dict[str, float]:
        """The mean measures of each question's scores."""
        return means(self.measures_each(scores))

    def measures_each(self, scores: Sequence[Sequence[float] | np.ndarray]) -> dict[str, np.ndarray]:
        """The measures question by question: measure -> (Q,) values, of equal scores the expected one."""
        n_right = [len(question.positives) for question in self.questions]
        return measure_each(zip(scores, self.right, n_right, strict=True))

    def measured(self, rankings: Sequence[Ranking]) -> dict[str, np.ndarray]:
        """Those of rankings, of equal candidates the expected one."""
        return self.measures_each([-ranking.levels for ranking in rankings])

    def report(self, ranker: Ranker, on_progress: Callable[[int, int], None] = ignored) -> EvaluationReport:
        """The model, BM25 and their fusion side by side, with the checkpoint's weights and calibration."""
        scores = self.scores(ranker, on_progress)
        decision = ranker.decider()
        report = self.report_of(scores, decision.weights, decision.served)
        if ranker.config:
            return replace(report, model_name=ranker.config.model)
        return report

    def report_of_bm25(self) -> EvaluationReport:
        """BM25 as if it were the model."""
        left_out = len(self.dataset.questions) - len(self.questions)
        return EvaluationReport(
            self.dataset, left_out, candidates=self.candidates, model_each=self.bm25_each, bm25_each=self.bm25_each
        )

    def report_of(
        self,
        scores: CandidateScores,
        weights: Weights = ALONE,
        calibration: Calibration | None = None,
        *,
        of_each: Sequence[Weights] | None = None,
    ) -> EvaluationReport:
        """As `report`, from known scores of this set's candidates; `of_each` question by weights of its own."""
        if of_each is None:
            of_each = [weights] * len(self.questions)
        rankings = self.rankings(scores, [replace(own_weights, bm25=0.0) for own_weights in of_each])
        served = self.rankings(scores, of_each, calibration)
        alone = None
        if weights.wording and scores.wordings:
            rankings_alone = [rank(signals, ALONE) for signals in scores.signals]
            alone = means(self.measured(rankings_alone))
        return EvaluationReport(
            dataset=self.dataset,
            unanswerable=len(self.dataset.questions) - len(self.questions),
            candidates=self.candidates,
            model_each=self.measured(rankings),
            bm25_each=self.bm25_each,
            encode_seconds=scores.encode_seconds,
            seconds_per_question=scores.question_seconds / len(self.questions),
            bytes_per_answer=scores.bytes_per_answer,
            fusion_each=self.measured(served) if weights.bm25 else None,
            rankings=rankings,
            served=served,
            without_wordings=alone,
            bm25_language=self.language,
        )

    def _choose_candidates(self, retriever: Ranker | None) -> tuple[list[tuple[int, ...]], str]:
        """The candidates of each question, as rows of the answers, and how they were chosen, in words."""
        pools = [question.candidates for question in self.questions if question.candidates is not None]
        if len(pools) == len(self.questions):
            return pools, f"given with the data, {sum(map(len, pools)) / len(pools):.0f} per question"
        total = len(self.dataset.answers)
        if total <= RANK_ALL:
            return [tuple(range(total))] * len(self.questions), f"all {total} answers"
        pools = [_best(self._index.scores(question.text)) for question in self.questions]
        chosen = f"BM25's {CANDIDATES} best"
        if retriever is not None:
            vectors = retriever.embed_answers(self.dataset.answer_texts).numpy()
            asked = retriever.embed_questions(self.question_texts).numpy()
            for place, vector in enumerate(asked):
                pools[place] = tuple(dict.fromkeys((*pools[place], *_best(vectors @ vector))))
            chosen += f" and the {CANDIDATES} best by the model's vectors"
        has_right: list[bool] = []
        for question, rows in zip(self.questions, pools, strict=True):
            has_right.append(not set(question.positives).isdisjoint(rows))
        recall = np.mean(has_right)
        return pools, f"{chosen} of {total} answers, with a right one for {recall:.1%} of the questions"


def _best(scores: np.ndarray) -> tuple[int, ...]:
    return tuple(best_rows(scores, CANDIDATES, above=-np.inf).tolist())


def easy_warnings(dataset: Dataset, seen: Sequence[bool] | None) -> list[str]:
    """What makes measures flatter: fewer candidates than in a search, and questions that were `seen_in_training`."""
    total = 0
    for question in dataset.questions:
        total += len(dataset.answers if question.candidates is None else question.candidates)
    mean = total / max(1, len(dataset.questions))
    warnings: list[str] = []
    if dataset.own_answers:
        warnings.append(
            f"the candidates were only the {len(dataset.answers):,} answers of {dataset.name}. If the FAQ has others, "
            "a search is harder than this: name the FAQ with --answers FAQ.csv."
        )
    elif mean < 20:
        warnings.append(
            f"only {mean:.0f} candidates per question: a search has more to choose from and is harder than this."
        )
    if seen is None:
        warnings.append(
            f"it is unknown whether questions were seen in training: the checkpoint has no {TRAINED_QUESTIONS}."
        )
    elif any(seen):
        warnings.append(f"{sum(seen):,} of the {len(seen):,} questions were seen in training, which makes them easy.")
    return warnings
