"""Fits the probability that the first answer is right on dev questions, some of which have no right answer.

Questions count as new ones: none meets its own text among the known wordings. A ranking counts as right if its first
answer is, so that of a question without a right answer never does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError, extra_for
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.ranking import rule
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration, Signals, key, margins

with extra_for("Training and measuring need", "train"):
    from scipy.optimize import minimize
    from scipy.special import expit

MIN_QUESTIONS = 20
"""Minimum number of dev questions for a fit of three parameters, and of dev answers above a threshold."""

FITTED = 2
"""Number of top answers of each ranking that enter the fit. In five-fold cross-validation on the example FAQ's dev
questions, two gave the first answers a lower log loss than one; three hardly improved on two."""


@dataclass(frozen=True)
class Rankings:
    """Q questions: what ranks their candidates, as `model`, which are right; (Q,) whether the data has an answer."""

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


def rank(ranker: Ranker, dataset: Dataset) -> dict[str, Rankings]:
    """`model` and, if BM25 has a weight, `fused` -> all questions, with the candidates that `evaluate` uses."""
    evaluation_set = EvaluationSet(dataset, unanswerable=True, language=ranker.bm25_language)
    signals, weights = evaluation_set.signals(evaluation_set.scores(ranker)), ranker.decider().weights
    kinds = {MODEL: replace(weights, bm25=0.0)} | ({FUSED: weights} if weights.bm25 else {})
    answerable = np.array([bool(question.positives) for question in evaluation_set.questions])
    rest = evaluation_set.right, answerable, np.ones(len(signals))
    return {
        kind: Rankings([Signals(rule.rank(each, used).scores, answers=each.answers) for each in signals], *rest)
        for kind, used in kinds.items()
    }


def with_hidden(rankings: Rankings, share: float) -> Rankings:
    """Simulate unanswerable questions: add copies of rankings without right answers, with this share of all weight."""
    hidden = [
        Signals(signals.model[~right], answers=signals.answers and [*compress(signals.answers, ~right)])
        for signals, right in zip(rankings.signals, rankings.right, strict=True)
        if not right.all()
    ]
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

    If all of N first answers are right, the one-sided 95 % lower bound of the share of right ones is .05^(1/N) (Clopper
    & Pearson 1934). Below the target, no result could show that it is reached: 0.9 needs 29, 0.95 59, 0.99 299.
    """
    return max(MIN_QUESTIONS, math.ceil(math.log(0.05) / math.log(precision)))


def fit(rankings: Rankings, precisions: Sequence[float]) -> Calibration:
    """Fit the logistic model to the top answers by maximum likelihood, and choose the thresholds that can be reached.

    The targets are Platt's, (N+ + 1) / (N+ + 2) and 1 / (N- + 2) instead of 1 and 0 (Platt 1999, equation 11), so
    that the weights stay finite where a few questions are perfectly separable.
    """
    if len(rankings.signals) < MIN_QUESTIONS:
        raise InputError(f"Expected at least {MIN_QUESTIONS} questions to calibrate on, found {len(rankings.signals)}.")
    best = [rule.rank(signals).order[:FITTED] for signals in rankings.signals]
    both = [np.stack([each.model, margins(each.model, each.answers)], axis=1) for each in rankings.signals]
    features, right = (np.concatenate(list(map(getitem, parts, best))) for parts in (both, rankings.right))
    weights = np.repeat(rankings.weights, [len(rows) for rows in best])
    positive, negative = weights[right].sum(), weights[~right].sum()
    targets = np.where(right, (positive + 1) / (positive + 2), 1 / (negative + 2))
    spread = features.std(axis=0)
    spread[spread == 0] = 1
    scaled = features / spread  # so that one step size suits both features

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = scaled @ parameters[:2] + parameters[2]
        residual = weights * (expit(logits) - targets)
        value = (weights * (np.logaddexp(0, logits) - targets * logits)).sum()
        return float(value), np.append(scaled.T @ residual, residual.sum())

    bounds = [(0, None), (0, None), (None, None)]
    fitted = minimize(loss, np.zeros(3), jac=True, method="L-BFGS-B", bounds=bounds).x
    score, margin = fitted[:2] / spread
    calibration = Calibration(float(score), float(margin), float(fitted[2]), {})
    answers = top_answers(calibration, rankings)
    thresholds = {key(precision): threshold(answers, precision) for precision in precisions}
    reached = {name: value for name, value in thresholds.items() if value is not None}
    return replace(calibration, thresholds=reached)


def top_answers(calibration: Calibration, rankings: Rankings) -> TopAnswers:
    """The first answer of each ranking; ties keep the given order."""
    ranked = [rule.rank(signals, calibration=calibration) for signals in rankings.signals]
    probabilities = [each.probabilities[each.order[0]] for each in ranked if each.probabilities is not None]
    right = [relevant[each.order[0]] for relevant, each in zip(rankings.right, ranked, strict=True)]
    return TopAnswers(np.array(probabilities), np.array(right), rankings.answerable, rankings.weights)


def threshold(answers: TopAnswers, precision: float) -> float | None:
    """The lowest threshold at which the expected precision reaches the target.

    That is the mean probability of the answers above it. Counting right answers instead overfits: in five-fold
    cross-validation on the example FAQ's dev questions it fell short of the target with each of three checkpoints; the
    expected precision hardly did. It is 0 if all answers reach the target; `None` if fewer than `MIN_QUESTIONS` do.
    """
    order = np.argsort(-answers.probabilities, kind="stable")
    sorted_, weights = answers.probabilities[order], answers.weights[order]
    expected = np.cumsum(weights * sorted_) / np.cumsum(weights)
    last = np.append(sorted_[1:] < sorted_[:-1], True)  # a threshold cannot separate equal probabilities
    reached = np.flatnonzero((expected >= precision) & last)
    if not len(reached) or reached[-1] + 1 < MIN_QUESTIONS:
        return None
    return 0.0 if reached[-1] == len(order) - 1 else float(sorted_[reached[-1]])


def measure(calibration: Calibration, rankings: Rankings) -> dict[str, Any]:
    """How well a calibration fits these rankings, and what its thresholds do, for a JSON file.

    `calibration_error` is the expected one (ECE; Guo et al. 2017), over the bins of `reliability`; `thresholds` maps
    the target precisions that are reached to the `outcome` of theirs, and "-" to that of the threshold 0.
    """
    answers = top_answers(calibration, rankings)
    bins = reliability(answers)
    return {
        "calibration_error": calibration_error(bins),
        "reliability": bins,
        "thresholds": {name: outcome(answers, least) for name, least in {"-": 0.0, **calibration.thresholds}.items()},
    }


def outcome(answers: TopAnswers, least: float) -> dict[str, float | None]:
    """The effect of returning only first answers with a probability of at least `least`, its threshold.

    Shares: `answered` of the questions, `precision` of those that are right, `rejected` of the unanswerable questions
    that get no answer; `None` if there are none to be a share of.
    """
    kept, lost = answers.probabilities >= least, ~answers.answerable
    answered, unanswerable = answers.weights[kept].sum(), answers.weights[lost].sum()
    return {
        "threshold": least,
        "answered": float(answered / answers.weights.sum()),
        "precision": float(answers.weights[kept & answers.right].sum() / answered) if answered else None,
        "rejected": float(answers.weights[~kept & lost].sum() / unanswerable) if unanswerable else None,
    }


def reliability(answers: TopAnswers) -> list[dict[str, float]]:
    """The first answers in ten equally wide bins of probability, without empty ones: their `share` of all, their mean
    `probability` and the share that is `right`."""
    group_of = np.minimum((answers.probabilities * 10).astype(int), 9)
    bins = []
    for rows in (group_of == group for group in np.unique(group_of)):
        weights = answers.weights[rows]
        probability, right = (
            np.average(each[rows], weights=weights) for each in (answers.probabilities, answers.right)
        )
        share = weights.sum() / answers.weights.sum()
        bins.append({"share": float(share), "probability": float(probability), "right": float(right)})
    return bins


def calibration_error(bins: Sequence[Mapping[str, float]]) -> float:
    """The mean |probability - share that is right| over the bins."""
    return sum(group["share"] * abs(group["probability"] - group["right"]) for group in bins)
