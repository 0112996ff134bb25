"""Fits the probability that the first answer is right on dev questions, some of which have no right answer.

The logistic model, the order and the margins are those of `ranking.rule`. Questions count as new ones: none meets its
own text among the known wordings. A ranking counts as right if its first answer is, so that of a question without a
right answer never does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.ranking import rule
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration, Signals, key, margins

HIDDEN_SHARE = 0.1
"""Share of unanswerable questions if the data has none and they are made by hiding right answers."""

MIN_QUESTIONS = 20
"""Minimum number of dev questions for a fit of three parameters, and of dev answers above a threshold."""

FITTED = 2
"""Number of top answers of each ranking that enter the fit. In five-fold cross-validation on the example FAQ's dev
questions, two gave the first answers a lower log loss than one, with each of three checkpoints, fused or not; three
hardly improved on two."""

CONFIDENCE = 0.95
"""Of the lower bound that `questions_needed` asks for."""

BINS = 10


@dataclass(frozen=True)
class Rankings:
    """Q questions with their candidates.

    Attributes:
        signals: of each question, what its candidates are ranked by as `model`, and what tells copies of an answer.
        right: one array per question: whether each candidate is right.
        answerable: (Q,) whether the data has a right answer, among the candidates or not.
        weights: (Q,) weight of each question.
    """

    signals: Sequence[Signals]
    right: Sequence[NDArray[np.bool_]]
    answerable: NDArray[np.bool_]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class TopAnswers:
    """The first answers of Q rankings: (Q,) the probability that each is right, whether it is; the rest as above."""

    probabilities: NDArray[np.float64]
    right: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """The effect of a threshold, the minimum probability of a first answer to be returned.

    Attributes:
        answered: share of the questions whose first answer is returned.
        precision: share of the returned answers that are right; `None` if none is returned.
        rejected: share of the unanswerable questions that get no answer; `None` if there are no such questions.
    """

    threshold: float
    answered: float
    precision: float | None
    rejected: float | None


@dataclass(frozen=True)
class Bin:
    """First answers of similar probability: their share of all, their mean probability, the share that is right."""

    share: float
    probability: float
    right: float


@dataclass(frozen=True)
class ScoreReport:
    """How well one kind of score is calibrated.

    `thresholds` maps target precisions to the effects of theirs, `None` if none reaches one; "-" is the threshold 0.
    """

    bins: Sequence[Bin]
    thresholds: Mapping[str, Outcome | None]

    @property
    def calibration_error(self) -> float:
        """Expected calibration error (ECE; Guo et al. 2017): mean |probability - share that is right| over the bins."""
        return sum(group.share * abs(group.probability - group.right) for group in self.bins)

    def as_json(self) -> dict[str, Any]:
        """The report as basic types, without targets that no threshold reaches."""
        return {
            "calibration_error": self.calibration_error,
            "reliability": [asdict(group) for group in self.bins],
            "thresholds": {name: asdict(effect) for name, effect in self.thresholds.items() if effect is not None},
        }


def rank(ranker: Ranker, dataset: Dataset) -> dict[str, Rankings]:
    """Kind of score -> all questions, unanswerable ones included, with the candidates that `evaluate` uses.

    The kinds are `model` and, if the checkpoint has a weight of BM25, `fused`.

    Raises:
        InputError: no question has a right answer, or the model's scores are not finite numbers.
    """
    evaluation_set = EvaluationSet(dataset, unanswerable=True, language=ranker.bm25_language)
    signals, weights = evaluation_set.signals(evaluation_set.scores(ranker)), ranker.decision().weights
    kinds = {MODEL: replace(weights, bm25=0.0)} | ({FUSED: weights} if weights.bm25 else {})
    answerable = np.array([bool(question.positives) for question in evaluation_set.questions])
    return {
        kind: Rankings(
            [Signals(rule.rank(each, used).scores, answers=each.answers) for each in signals],
            evaluation_set.right,
            answerable,
            np.ones(len(signals)),
        )
        for kind, used in kinds.items()
    }


def with_hidden(rankings: Rankings, share: float) -> Rankings:
    """Simulate unanswerable questions: add copies of rankings without right answers, with this share of all weight.

    Raises:
        InputError: all candidates are right answers.
    """
    hidden = []
    for signals, right in zip(rankings.signals, rankings.right, strict=True):
        wrong = np.flatnonzero(~right)
        if len(wrong):
            parts = signals.answers and [signals.answers[row] for row in wrong.tolist()]
            hidden.append(Signals(signals.model[wrong], answers=parts))
    if not hidden:
        raise InputError("Expected questions with wrong answers among their candidates, found only right ones.")
    weight = share / (1 - share) * rankings.weights.sum() / len(hidden)
    return Rankings(
        [*rankings.signals, *hidden],
        [*rankings.right, *(np.zeros(len(each.model), dtype=bool) for each in hidden)],
        np.append(rankings.answerable, np.zeros(len(hidden), dtype=bool)),
        np.append(rankings.weights, np.full(len(hidden), weight)),
    )


def questions_needed(precision: float) -> int:
    """The minimum number of answerable questions to calibrate for a precision.

    If all of N first answers are right, the lower bound of the share of right ones is (1 - c)^(1/N) (Clopper & Pearson
    1934, one-sided, with confidence c). Where even this bound is below the target, no result could show that a
    threshold reaches it: 0.9 needs 29 questions, 0.95 needs 59, 0.99 needs 299.
    """
    return max(MIN_QUESTIONS, math.ceil(math.log(1 - CONFIDENCE) / math.log(precision)))


def fit(rankings: Rankings, precisions: Sequence[float]) -> Calibration:
    """Fit the logistic model to the top answers by maximum likelihood, and choose the thresholds that can be reached.

    The targets are Platt's, (N+ + 1) / (N+ + 2) and 1 / (N- + 2) instead of 1 and 0 (Platt 1999, equation 11), so
    that the weights stay finite where a few questions are perfectly separable.

    Raises:
        InputError: too few questions.
    """
    if len(rankings.signals) < MIN_QUESTIONS:
        raise InputError(f"Expected at least {MIN_QUESTIONS} questions to calibrate on, found {len(rankings.signals)}.")
    features, right, weights = _best_answers(rankings)
    positive, negative = weights[right].sum(), weights[~right].sum()
    targets = np.where(right, (positive + 1) / (positive + 2), 1 / (negative + 2))
    spread = features.std(axis=0)
    scaled = features / np.where(spread > 0, spread, 1)  # so that one step size suits both features

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = scaled @ parameters[:2] + parameters[2]
        residual = weights * (expit(logits) - targets)
        value = (weights * (np.logaddexp(0, logits) - targets * logits)).sum()
        return float(value), np.append(scaled.T @ residual, residual.sum())

    bounds = [(0, None), (0, None), (None, None)]
    fitted = minimize(loss, np.zeros(3), jac=True, method="L-BFGS-B", bounds=bounds).x
    score, margin = fitted[:2] / np.where(spread > 0, spread, 1)
    calibration = Calibration(float(score), float(margin), float(fitted[2]), {})
    answers = top_answers(calibration, rankings)
    thresholds = {key(precision): threshold(answers, precision) for precision in precisions}
    reached = {name: value for name, value in thresholds.items() if value is not None}
    return replace(calibration, thresholds=reached)


def _best_answers(rankings: Rankings) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """(R, 2) scores and margins of the `FITTED` best answers of each question; whether each is right; its weight."""
    features, right, weights = [], [], []
    for signals, relevant, weight in zip(rankings.signals, rankings.right, rankings.weights, strict=True):
        best, values = rule.rank(signals).order[:FITTED], signals.model
        features.append(np.stack([values, margins(values, signals.answers)], axis=1)[best])
        right.append(relevant[best])
        weights.append(np.full(len(best), weight))
    return np.concatenate(features), np.concatenate(right), np.concatenate(weights)


def top_answers(calibration: Calibration, rankings: Rankings) -> TopAnswers:
    """The first answer of each ranking; ties keep the given order."""
    ranked = [rule.rank(signals, calibration=calibration) for signals in rankings.signals]
    probabilities = [each.probabilities[each.order[0]] for each in ranked if each.probabilities is not None]
    right = [relevant[each.order[0]] for relevant, each in zip(rankings.right, ranked, strict=True)]
    return TopAnswers(np.array(probabilities), np.array(right), rankings.answerable, rankings.weights)


def threshold(answers: TopAnswers, precision: float) -> float | None:
    """The lowest threshold at which the expected precision reaches the target.

    The expected precision is the mean probability of the answers above a threshold. Counting right answers instead
    overfits: in five-fold cross-validation on the example FAQ's dev questions it fell short of the target with each of
    three checkpoints, fused or not; the expected precision hardly ever did, and only by a little.

    It is 0 if all answers reach the target; `None` if fewer than `MIN_QUESTIONS` do.
    """
    order = np.argsort(-answers.probabilities, kind="stable")
    sorted_, weights = answers.probabilities[order], answers.weights[order]
    expected = np.cumsum(weights * sorted_) / np.cumsum(weights)
    last = np.append(sorted_[1:] < sorted_[:-1], True)  # a threshold cannot separate equal probabilities
    reached = np.flatnonzero((expected >= precision) & last)
    if not len(reached) or reached[-1] + 1 < MIN_QUESTIONS:
        return None
    return 0.0 if reached[-1] == len(order) - 1 else float(sorted_[reached[-1]])


def measure(calibration: Calibration, rankings: Rankings, precisions: Sequence[float]) -> ScoreReport:
    """How well a calibration fits these rankings, and what its thresholds do."""
    answers = top_answers(calibration, rankings)
    effects: dict[str, Outcome | None] = {"-": outcome(answers, 0.0)}
    for precision in precisions:
        least = calibration.threshold(precision)
        effects[key(precision)] = None if least is None else outcome(answers, least)
    return ScoreReport(reliability(answers), effects)


def outcome(answers: TopAnswers, least: float) -> Outcome:
    """The effect of returning only first answers with a probability of at least `least`."""
    kept = answers.probabilities >= least
    answered, unanswerable = answers.weights[kept].sum(), answers.weights[~answers.answerable].sum()
    return Outcome(
        threshold=least,
        answered=float(answered / answers.weights.sum()),
        precision=float(answers.weights[kept & answers.right].sum() / answered) if answered else None,
        rejected=float(answers.weights[~kept & ~answers.answerable].sum() / unanswerable) if unanswerable else None,
    )


def reliability(answers: TopAnswers) -> list[Bin]:
    """Group the first answers into `BINS` equally wide bins of probability; empty bins are left out."""
    group_of = np.minimum((answers.probabilities * BINS).astype(int), BINS - 1)
    bins = []
    for group in np.unique(group_of):
        rows = group_of == group
        weights = answers.weights[rows]
        means = (np.average(values[rows], weights=weights) for values in (answers.probabilities, answers.right))
        bins.append(Bin(float(weights.sum() / answers.weights.sum()), *map(float, means)))
    return bins
