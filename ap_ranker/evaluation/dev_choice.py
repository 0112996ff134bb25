"""What the dev questions choose, the epoch and the weights of known wordings and BM25, and what that is worth.

What is reported is cross-fitted: each part of the questions is ranked by the epoch and the weights that the other parts
choose, none of which is a near copy of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from ap_ranker.data.dataset import Dataset, leave_one_out
from ap_ranker.evaluation.cross_fitting import others, parts_of
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import ALONE, RANK_ALL, EvaluationSet
from ap_ranker.evaluation.metrics import means
from ap_ranker.evaluation.scoring import CandidateScores, chosen_of
from ap_ranker.evaluation.weight_fit import PRIORS, fit_weight
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Signals, Weights
from ap_ranker.ranking.wordings import DEFAULT_WEIGHT

Rows = NDArray[np.int64]
"""Places of some questions among all."""

Judged = tuple[list[Signals], list[NDArray[np.bool_]]]
"""What ranks the candidates of each question, and which of them are right."""

NOTHING: Judged = ([], [])


@dataclass(frozen=True)
class Epoch:
    """A model after an epoch of training, 0 before any, on the dev questions.

    `scores` have those of the known wordings, if there are any. `own` are the rankings of the data's own wordings,
    which are asked too if the model has not learnt from them.
    """

    number: int
    evaluation_set: EvaluationSet
    scores: CandidateScores
    own: Judged = NOTHING

    @classmethod
    def of(cls, number: int, evaluation_set: EvaluationSet, ranker: Ranker, scores: CandidateScores) -> Epoch:
        """Compare the questions with the known wordings, too, and before any training these with each other."""
        raised = evaluation_set.with_wordings(ranker, scores)
        left_out = NOTHING
        if number == 0 and raised.wordings is not None and len(evaluation_set.dataset.answers) <= RANK_ALL:
            asked = set(evaluation_set.question_texts)
            left_out = rank_for_left_out_wordings(ranker, evaluation_set.dataset, without=asked)
        return cls(number, evaluation_set, raised, left_out)

    @cached_property
    def measures_each(self) -> tuple[dict[str, NDArray[np.float64]], ...]:
        """Measure -> (Q,) values, with the wordings at their default weight, and without: no weight is fitted yet."""
        with_wordings = self.evaluation_set.rankings(self.scores, Weights(DEFAULT_WEIGHT))
        without_wordings = self.evaluation_set.rankings(self.scores, ALONE)
        return self.evaluation_set.measured(with_wordings), self.evaluation_set.measured(without_wordings)

    @property
    def measures(self) -> dict[str, float]:
        """The means of the better kind."""
        with_wordings = means(self.measures_each[0])
        without_wordings = means(self.measures_each[1])
        if without_wordings["MRR"] > with_wordings["MRR"]:
            return without_wordings
        return with_wordings

    def mrr(self, rows: Rows | None = None) -> float:
        """The MRR by which epochs are compared, of all questions or of some."""
        means_of_kinds: list[float] = []
        for measures in self.measures_each:
            reciprocal_ranks = measures["MRR"] if rows is None else measures["MRR"][rows]
            means_of_kinds.append(float(reciprocal_ranks.mean()))
        return max(means_of_kinds)

    def weights(self, rows: Rows | None = None) -> Weights:
        """The most probable weights, given all questions or some `rows` of them."""
        signals, right = self.evaluation_set.informative(self.scores, rows)
        weights = Weights()
        if self.scores.wordings is not None:
            weights = Weights(PRIORS["wording"].median)
            weights = fit_weight(signals + self.own[0], right + self.own[1], weights, "wording")
        elif self.scores.cosines is not None and not self.evaluation_set.dataset.judged:
            weights = Weights(DEFAULT_WEIGHT)  # for wordings that become known later
        return fit_weight(signals, right, weights, "bm25")


@dataclass(frozen=True)
class CrossFitted:
    """Each question by the epoch and the weights that other questions have chosen: its scores, its weights."""

    scores: CandidateScores
    weights: Sequence[Weights]
    epochs: Sequence[int]


@dataclass(frozen=True)
class DevChoice:
    """The epochs that can be chosen, in their order, and the one that is chosen by all questions."""

    epochs: Sequence[Epoch]
    best: Epoch

    @classmethod
    def of(cls, epochs: Sequence[Epoch]) -> DevChoice:
        """Choose the first epoch with the highest MRR."""
        return cls(epochs, _best(epochs))

    @cached_property
    def weights(self) -> Weights:
        """Those of the checkpoint, by all questions."""
        return self.best.weights()

    @cached_property
    def parts(self) -> list[Rows]:
        """The rows of each part of the questions."""
        return parts_of(self.best.evaluation_set.question_texts)

    @cached_property
    def cross_fitted(self) -> CrossFitted:
        """By the parts of the questions; where there is one alone, by what all have chosen."""
        kinds = [self.best]  # first, as its times and bytes are taken
        kinds += [epoch for epoch in self.epochs if epoch is not self.best]
        places = {epoch.number: place for place, epoch in enumerate(kinds)}
        total = len(self.best.evaluation_set.questions)
        chosen = [self.best.number] * total
        weights = [self.weights] * total
        for part in self.parts:
            fitted_to = others(part, total)
            epoch = _best(self.epochs, fitted_to)
            fitted = epoch.weights(fitted_to)
            for row in part.tolist():
                chosen[row] = epoch.number
                weights[row] = fitted
        places_of_chosen = [places[number] for number in chosen]
        scores = chosen_of([epoch.scores for epoch in kinds], places_of_chosen)
        return CrossFitted(scores, weights, chosen)

    def report(self) -> EvaluationReport:
        """The cross-fitted measures; what helps in the weights of all questions has a row."""
        crossed = self.cross_fitted
        return self.best.evaluation_set.report_of(crossed.scores, self.weights, of_each=crossed.weights)


def _best(epochs: Sequence[Epoch], rows: Rows | None = None) -> Epoch:
    return max(epochs, key=lambda epoch: epoch.mrr(rows))  # the first of equal ones


def rank_for_left_out_wordings(
    ranker: Ranker, data: Dataset, without: Collection[str] = (), on_progress: Progress = untold
) -> Judged:
    """What ranks all answers for each of the data's own wordings (`leave_one_out`), and which are right.

    Those of some texts, which are asked anyway, are left out.
    """
    asked = leave_one_out(data)
    questions = [question for question in asked.questions if question.text not in without]
    if not questions:
        return NOTHING
    own = EvaluationSet(replace(asked, questions=questions))
    return own.informative(
        own.with_wordings(ranker, own.timed_scores(ranker, partial(on_progress, "asking known wordings")))
    )
