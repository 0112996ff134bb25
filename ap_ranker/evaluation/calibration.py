"""How probably is the first answer right? Fitted on rankings of dev questions, some of which have no right answer.

The logistic model is `ranking.calibration.Calibration`; here it is fitted and measured. A ranking counts as right if
its first answer is, so a question without a right answer never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluate import EvaluationSet
from ap_ranker.evaluation.fusion import Scores, fuse
from ap_ranker.ranking.calibration import FUSED, MODEL, Calibration, key, margins
from ap_ranker.ranking.ranker import Ranker

HIDDEN_SHARE = 0.1
"""Of questions without a right answer, where the data has none and they are made by hiding the right answers."""

MIN_QUESTIONS = 20
"""Dev questions that a fit of three numbers needs at least, and dev answers that a threshold must leave."""

FITTED = 2
"""The best so many answers of each ranking are fitted. On held-out fifths of the example FAQ's dev questions, two gave
the first answers a lower log loss than one did, with each of three checkpoints, fused or not; three, hardly a lower."""

BINS = 10


@dataclass(frozen=True)
class Rankings:
    """Q questions with the scores of their candidates.

    Attributes:
        scores: one array per question.
        right: which of its candidates are right.
        answerable: (Q,) whether the data has a right answer, among the candidates or not.
        weights: (Q,) how much each question counts.
    """

    scores: Scores
    right: Sequence[NDArray[np.bool_]]
    answerable: NDArray[np.bool_]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class TopAnswers:
    """The first answers of Q rankings.

    Attributes:
        probabilities: (Q,) how probably each is right.
        right: (Q,) whether it is.
        answerable: (Q,) whether the question has a right answer at all.
        weights: (Q,) how much each question counts.
    """

    probabilities: NDArray[np.float64]
    right: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """What a threshold does.

    Attributes:
        answered: the share of the questions whose first answer is given.
        precision: the share of these answers that are right; `None` if none is given.
        rejected: the share of the questions without a right answer that get none; `None` without such questions.
    """

    answered: float
    precision: float | None
    rejected: float | None


@dataclass(frozen=True)
class Bin:
    """First answers of about the same probability.

    Attributes:
        share: of all first answers.
        probability: the mean of theirs.
        right: the share of them that is right.
    """

    share: float
    probability: float
    right: float


def rank(ranker: Ranker, dataset: Dataset) -> dict[str, Rankings]:
    """Rank all questions, also those without a right answer, with the candidates that `evaluate` takes.

    Returns:
        The rankings by the model's scores and, if the checkpoint has a weight of BM25, by the fused ones.

    Raises:
        InputError: no question has a right answer, or the model's scores are not finite numbers.
    """
    evaluation_set = EvaluationSet(dataset, unanswerable=True)
    scores = {MODEL: evaluation_set.scores(ranker)}
    if ranker.config and ranker.config.bm25_weight:
        scores[FUSED] = fuse(scores[MODEL], evaluation_set.bm25_scores, ranker.config.bm25_weight)
    right = [
        np.isin(rows, question.positives)
        for rows, question in zip(evaluation_set.pools, evaluation_set.questions, strict=True)
    ]
    answerable = np.array([bool(question.positives) for question in evaluation_set.questions])
    return {kind: Rankings(values, right, answerable, np.ones(len(right))) for kind, values in scores.items()}


def with_hidden(rankings: Rankings, share: float) -> Rankings:
    """The rankings, and each once more without its right answers: what a question that none answers looks like.

    Args:
        rankings: of answerable questions.
        share: of the ones without right answers in the weight of all, between 0 and 1.

    Raises:
        InputError: nothing but right answers is ranked.
    """
    hidden = [values[~right] for values, right in zip(rankings.scores, rankings.right, strict=True)]
    hidden = [values for values in hidden if len(values)]
    if not hidden:
        raise InputError("Expected questions with wrong answers among their candidates, found right ones only.")
    weight = share / (1 - share) * rankings.weights.sum() / len(hidden)
    return Rankings(
        [*rankings.scores, *hidden],
        [*rankings.right, *(np.zeros(len(values), dtype=bool) for values in hidden)],
        np.append(rankings.answerable, np.zeros(len(hidden), dtype=bool)),
        np.append(rankings.weights, np.full(len(hidden), weight)),
    )


def fit(rankings: Rankings, precisions: Sequence[float]) -> Calibration:
    """The logistic model that makes the best answers' being right or wrong likeliest, and its thresholds.

    The targets are Platt's, (N+ + 1) / (N+ + 2) and 1 / (N- + 2) instead of 1 and 0 (Platt 1999, equation 11), so
    weights stay finite where few questions separate perfectly.

    Args:
        rankings: of at least `MIN_QUESTIONS` questions.
        precisions: wished ones; those that the questions cannot reach get no threshold.

    Raises:
        InputError: too few questions.
    """
    if len(rankings.scores) < MIN_QUESTIONS:
        raise InputError(f"Expected at least {MIN_QUESTIONS} questions to calibrate on, found {len(rankings.scores)}.")
    features, right, weights = _best_answers(rankings)
    positive, negative = (weights[right].sum(), weights[~right].sum())
    targets = np.where(right, (positive + 1) / (positive + 2), 1 / (negative + 2))
    spread = features.std(axis=0)
    scaled = features / np.where(spread > 0, spread, 1)  # else one step size would not fit both features

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = scaled @ parameters[:2] + parameters[2]
        surprise = weights * (expit(logits) - targets)
        value = (weights * (np.logaddexp(0, logits) - targets * logits)).sum()
        return float(value), np.append(scaled.T @ surprise, surprise.sum())

    bounds = [(0, None), (0, None), (None, None)]
    found = minimize(loss, np.zeros(3), jac=True, method="L-BFGS-B", bounds=bounds).x
    score, margin = found[:2] / np.where(spread > 0, spread, 1)
    bare = Calibration(float(score), float(margin), float(found[2]), {})
    given = top_answers(bare, rankings)
    limits = {key(wished): threshold(given, wished) for wished in precisions}
    reached = {wished: least for wished, least in limits.items() if least is not None}
    return Calibration(bare.score, bare.margin, bare.bias, reached)


def _best_answers(
    rankings: Rankings,
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Score and margin (R, 2) of the `FITTED` best answers of each question, whether they are right, their weights."""
    features, right, weights = [], [], []
    for values, relevant, weight in zip(rankings.scores, rankings.right, rankings.weights, strict=True):
        best = np.argsort(-values, kind="stable")[:FITTED]
        features.append(np.stack([values, margins(values)], axis=1)[best])
        right.append(relevant[best])
        weights.append(np.full(len(best), weight))
    return np.concatenate(features), np.concatenate(right), np.concatenate(weights)


def top_answers(calibration: Calibration, rankings: Rankings) -> TopAnswers:
    """The first answer of each ranking; of equal scores the first given."""
    places = [int(values.argmax()) for values in rankings.scores]
    probabilities = [
        calibration.probabilities(values)[place] for values, place in zip(rankings.scores, places, strict=True)
    ]
    right = [relevant[place] for relevant, place in zip(rankings.right, places, strict=True)]
    return TopAnswers(np.array(probabilities), np.array(right), rankings.answerable, rankings.weights)


def threshold(given: TopAnswers, precision: float) -> float | None:
    """The lowest threshold above which the first answers are right as often as wished, as their probabilities expect.

    The mean of the probabilities is what the fit expects of the answers above a threshold. Counting right answers
    instead takes the luckiest place: on held-out fifths of the example FAQ's dev questions it fell short of the wished
    precision with each of three checkpoints, fused or not; the expectation hardly did, and missed it by as little.

    Returns:
        0 if all answers may be given; `None` if fewer than `MIN_QUESTIONS` may.
    """
    order = np.argsort(-given.probabilities, kind="stable")
    sorted_, weights = given.probabilities[order], given.weights[order]
    expected = np.cumsum(weights * sorted_) / np.cumsum(weights)
    last = np.append(sorted_[1:] < sorted_[:-1], True)  # a threshold cannot part equal probabilities
    reached = np.flatnonzero((expected >= precision) & last)
    if not len(reached) or reached[-1] + 1 < MIN_QUESTIONS:
        return None
    return 0.0 if reached[-1] == len(order) - 1 else float(sorted_[reached[-1]])


def outcome(given: TopAnswers, least: float) -> Outcome:
    """What happens if only first answers of at least this probability are given."""
    kept = given.probabilities >= least
    answered, unanswerable = given.weights[kept].sum(), given.weights[~given.answerable].sum()
    return Outcome(
        answered=float(answered / given.weights.sum()),
        precision=float(given.weights[kept & given.right].sum() / answered) if answered else None,
        rejected=float(given.weights[~kept & ~given.answerable].sum() / unanswerable) if unanswerable else None,
    )


def reliability(given: TopAnswers) -> list[Bin]:
    """The first answers in up to `BINS` groups, each a tenth of the way from 0 to 1 wide; empty ones are left out."""
    group_of = np.minimum((given.probabilities * BINS).astype(int), BINS - 1)
    found = []
    for group in np.unique(group_of):
        rows = group_of == group
        weights = given.weights[rows]
        means = (np.average(values[rows], weights=weights) for values in (given.probabilities, given.right))
        found.append(Bin(float(weights.sum() / given.weights.sum()), *map(float, means)))
    return found


def calibration_error(bins: Sequence[Bin]) -> float:
    """How far the probabilities are from what happens, on average: the ECE of Guo, Pleiss, Sun & Weinberger 2017."""
    return sum(each.share * abs(each.probability - each.right) for each in bins)
