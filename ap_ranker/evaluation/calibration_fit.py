"""Fits the probability that the first answer is right on dev questions, some of which have no right answer.

Questions count as new ones: none meets its own text among the known wordings. A ranking counts as right if its first
answer is, so that of a question without a right answer never does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import compress
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.errors import InputError, extra_for
from ap_ranker.evaluation.cross_fitting import others, parts_of
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.ranking import rule
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.priors import RANDOM_QUESTIONS, floor_of
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration, Signals, key, margins

with extra_for("Training and measuring need", "train"):
    from scipy.optimize import minimize
    from scipy.special import expit

MIN_QUESTIONS = 20
"""Minimum number of dev questions for a fit of three parameters, and of dev answers above a threshold."""

FITTED = 2
"""Number of top answers of each ranking that enter the fit."""

SHORTFALL, ONE_SIDED = 0.03, 1.645
"""How far the lower bound of a precision may lie below the target, and its standard errors below the mean: 95 %."""

DEVIATIONS = (0.3, 0.6)
"""Standard deviations of a FAQ's own weights about the prior's, as a share of each, and of the bias, in logits: those
of eleven FAQs lay .4 to .6 about the bias that fits all (`examples/no_answer`)."""

KEPT = 256 * 10**6
"""Bytes of encoded answers that are kept in memory: some 50,000 of `ap-transformer`."""

LOST = 0.02
"""Share of the answerable dev questions that may lie below the floor."""


@dataclass(frozen=True)
class Rankings:
    """Q questions: what ranks their candidates, as `model`, which are right; (Q,) whether the data has an answer."""

    signals: Sequence[Signals]
    right: Sequence[NDArray[np.bool_]]
    answerable: NDArray[np.bool_]
    weights: NDArray[np.float64]

    def between(self, start: int, end: int) -> Rankings:
        """Those of some questions."""
        return self.of(np.arange(start, end))

    def of(self, rows: NDArray[np.int64]) -> Rankings:
        """Those of the questions in these rows."""
        places = rows.tolist()
        signals, right = [self.signals[row] for row in places], [self.right[row] for row in places]
        return Rankings(signals, right, self.answerable[rows], self.weights[rows])


@dataclass(frozen=True)
class TopAnswers:
    """The first answers of Q rankings: (Q,) the probability that each is right, whether it is; the rest as above.

    Those `below` the floor of what is worth showing are no answers, whatever their probability.
    """

    probabilities: NDArray[np.float64]
    right: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    weights: NDArray[np.float64]
    below: NDArray[np.bool_]


def rank(ranker: Ranker, dataset: Dataset) -> dict[str, Rankings]:
    """`model` and, if BM25 has a weight, `fused` -> all questions, with the candidates that a search has."""
    retriever = ranker if ranker.has_vectors and not _has_pools(dataset) else None
    cache = EncodingCache(KEPT, ranker.stored_dtype)  # so that what is encoded to fetch candidates is not encoded again
    ranker.fill_cache(cache)
    evaluation_set = EvaluationSet(dataset, unanswerable=True, language=ranker.bm25_language, retriever=retriever)
    reader = Ranker(ranker.model, ranker.tokenizer, ranker.device, ranker.config, cache=cache)
    signals, weights = evaluation_set.signals(evaluation_set.scores(reader)), ranker.decider().weights
    signals = [_fair(each, right) for each, right in zip(signals, evaluation_set.right, strict=True)]
    kinds = {MODEL: replace(weights, bm25=0.0)} | ({FUSED: weights} if weights.bm25 else {})
    answerable = np.array([bool(question.positives) for question in evaluation_set.questions])
    rest = evaluation_set.right, answerable, np.ones(len(signals))
    return {
        kind: Rankings([Signals(rule.rank(each, used).scores, answers=each.answers) for each in signals], *rest)
        for kind, used in kinds.items()
    }


def with_random_questions(dataset: Dataset) -> Dataset:
    """The data with the questions about other matters after its own; unchanged if its questions have own candidates."""
    if _has_pools(dataset):
        return dataset
    others = [Question(f"random-{n}", text, ()) for n, text in enumerate(RANDOM_QUESTIONS)]
    return replace(dataset, questions=[*dataset.questions, *others])


def _has_pools(dataset: Dataset) -> bool:
    return any(question.candidates is not None for question in dataset.questions)


def without_random_questions(rankings: Rankings, count: int) -> tuple[Rankings, float | None]:
    """The first `count` questions, and the floor (`floor_of`) by the random ones after them.

    It is lower if more than a few answerable questions would be below (`LOST`), and `None` without random ones.
    """
    own = rankings.between(0, count)
    tops = np.array([each.model.max(initial=-np.inf) for each in rankings.signals])
    if len(tops) == count:
        return own, None
    reached = np.quantile(tops[:count][own.answerable], LOST) if own.answerable.any() else np.inf
    return own, float(min(floor_of(tops[count:]), reached))


def _fair(signals: Signals, right: NDArray[np.bool_]) -> Signals:
    """The same without all wordings, if no right answer has another wording than the question but others have some.

    A search knows the question that was set aside. Against entries that keep theirs, it would look worse than it is.
    """
    if signals.wordings is None or not right.any() or (signals.wordings[right] > -1).any():
        return signals
    return replace(signals, wordings=np.full(len(right), -1.0))


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


def fit(rankings: Rankings, precisions: Sequence[float], prior: Calibration | None = None) -> Calibration:
    """Fit the logistic model to the top answers by maximum likelihood, and choose the thresholds that can be reached.

    The targets are Platt's, (N+ + 1) / (N+ + 2) and 1 / (N- + 2) instead of 1 and 0 (Platt 1999, equation 11), so
    that the weights stay finite where a few questions are perfectly separable. With a prior, its weights are the means
    of normal distributions (`DEVIATIONS`), and the fit the most probable one: the fewer questions, the nearer to it.
    """
    if len(rankings.signals) < MIN_QUESTIONS:
        raise InputError(f"Expected at least {MIN_QUESTIONS} questions to calibrate on, found {len(rankings.signals)}.")
    best = [rule.rank(signals).order[:FITTED] for signals in rankings.signals]
    both = [_features(each) for each in rankings.signals]
    features, right = (np.concatenate(list(map(getitem, parts, best))) for parts in (both, rankings.right))
    weights = np.repeat(rankings.weights, [len(rows) for rows in best])
    positive, negative = weights[right].sum(), weights[~right].sum()
    targets = np.where(right, (positive + 1) / (positive + 2), 1 / (negative + 2))
    spread = np.append(features[:, :2].std(axis=0), 1.0)
    spread[spread == 0] = 1
    scaled = features / spread  # so that one step size suits both features
    means, precision = np.zeros(3), np.zeros(3)
    if prior is not None:
        means = np.array([prior.score, prior.margin, prior.bias]) * spread
        deviations = np.array([DEVIATIONS[0] * prior.score, DEVIATIONS[0] * prior.margin, DEVIATIONS[1]]) * spread
        precision = 1 / np.maximum(deviations, 1e-9) ** 2

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits, away = scaled @ parameters, parameters - means
        residual = weights * (expit(logits) - targets)
        value = (weights * (np.logaddexp(0, logits) - targets * logits)).sum() + (precision * away**2).sum() / 2
        return float(value), scaled.T @ residual + precision * away

    bounds = [(0, None), (0, None), (None, None)]
    fitted = minimize(loss, means, jac=True, method="L-BFGS-B", bounds=bounds).x
    uncertain = weights * expit(scaled @ fitted) * expit(-scaled @ fitted)
    covariance = np.linalg.pinv((scaled.T * uncertain) @ scaled + np.diag(precision))
    score, margin, bias = map(float, fitted / spread)
    calibration = Calibration(score, margin, bias, {})
    firsts = np.stack([each[rows[0]] for each, rows in zip(both, best, strict=True)]) / spread
    answers = top_answers(calibration, rankings)
    thresholds = {key(target): threshold(answers, target, (firsts, covariance)) for target in precisions}
    reached = {name: value for name, value in thresholds.items() if value is not None}
    return replace(calibration, thresholds=reached)


def _features(signals: Signals) -> NDArray[np.float64]:
    """(N, 3) what a, b and c are the weights of: score, margin and 1."""
    return np.stack([signals.model, margins(signals.model, signals.answers), np.ones(len(signals.model))], axis=1)


def top_answers(calibration: Calibration, rankings: Rankings) -> TopAnswers:
    """The first answer of each ranking; ties keep the given order."""
    ranked = [rule.rank(signals, calibration=calibration) for signals in rankings.signals]
    probabilities = [each.probabilities[each.order[0]] for each in ranked if each.probabilities is not None]
    right = [relevant[each.order[0]] for relevant, each in zip(rankings.right, ranked, strict=True)]
    floor = -np.inf if calibration.floor is None else calibration.floor
    below = np.array([each.scores[each.order[0]] < floor for each in ranked])
    return TopAnswers(np.array(probabilities), np.array(right), rankings.answerable, rankings.weights, below)


def threshold(
    answers: TopAnswers, precision: float, fitted: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
) -> float | None:
    """The lowest threshold at which the expected precision reaches the target.

    That is the mean probability of the answers above it; counting right answers instead overfits. It is 0 if all
    answers reach the target; `None` if fewer than `MIN_QUESTIONS` do.

    `fitted` are the (Q, 3) features of the answers and the (3, 3) covariance of the weights. With them, the lower bound
    of the expected precision (95 %, one-sided, by the delta method) must come within `SHORTFALL` of the target.
    """
    order = np.argsort(-answers.probabilities, kind="stable")
    sorted_, weights = answers.probabilities[order], answers.weights[order]
    total = np.cumsum(weights)
    expected = np.cumsum(weights * sorted_) / total
    reaches = expected >= precision
    if fitted is not None:
        features, covariance = fitted
        slopes = np.cumsum((weights * sorted_ * (1 - sorted_))[:, None] * features[order], axis=0) / total[:, None]
        error = np.sqrt(np.einsum("qi,ij,qj->q", slopes, covariance, slopes))
        reaches &= expected - ONE_SIDED * error >= precision - SHORTFALL
    last = np.append(sorted_[1:] < sorted_[:-1], True)  # a threshold cannot separate equal probabilities
    reached = np.flatnonzero(reaches & last)
    if not len(reached) or reached[-1] + 1 < MIN_QUESTIONS:
        return None
    return 0.0 if reached[-1] == len(order) - 1 else float(sorted_[reached[-1]])


def measure(calibration: Calibration, rankings: Rankings) -> dict[str, Any]:
    """How well a calibration fits these rankings, and what its thresholds do, for a JSON file.

    `calibration_error` is the expected one (ECE; Guo et al. 2017), over the bins of `reliability`; `thresholds` maps
    the target precisions that are reached to the `outcome` of theirs, and "-" to that of the threshold 0.
    """
    answers = top_answers(calibration, rankings)
    return _measured(answers, {name: outcome(answers, least) for name, least in _thresholds(calibration).items()})


def cross_measure(
    calibration: Calibration,
    rankings: Rankings,
    texts: Sequence[str],
    precisions: Sequence[float],
    *,
    prior: Calibration | None = None,
    hidden: float | None = None,
) -> dict[str, Any] | None:
    """As `measure`, of the questions that the calibration was fitted to, each by a fit like it to others alone.

    Near copies (of `texts`) are fitted to together, or not at all. A target that the fit to the others does not reach
    is answered nothing. `None` if there are too few questions for that.
    """
    answers: list[TopAnswers] = []
    leasts: dict[str, list[NDArray[np.float64]]] = {name: [] for name in _thresholds(calibration)}
    for part in parts_of(texts):
        fitted_to, measured = rankings.of(others(part, len(texts))), rankings.of(part)
        if hidden is not None:
            if any(all(right.all() for right in each.right) for each in (fitted_to, measured)):
                return None  # nothing can be hidden
            fitted_to, measured = with_hidden(fitted_to, hidden), with_hidden(measured, hidden)
        if len(fitted_to.signals) < MIN_QUESTIONS:
            return None
        fitted = replace(fit(fitted_to, precisions, prior), floor=calibration.floor)
        answers.append(top_answers(fitted, measured))
        own = _thresholds(fitted)
        for name, least in leasts.items():
            least.append(np.full(len(measured.signals), own.get(name, np.inf)))
    if not answers:
        return None
    together = _together(answers)
    thresholds = _thresholds(calibration)
    outcomes = {name: outcome(together, thresholds[name], np.concatenate(least)) for name, least in leasts.items()}
    return _measured(together, outcomes)


def _thresholds(calibration: Calibration) -> dict[str, float]:
    """Target precision -> its threshold, and "-" for none."""
    return {"-": 0.0, **calibration.thresholds}


def _together(answers: Sequence[TopAnswers]) -> TopAnswers:
    names = [each.name for each in fields(TopAnswers)]
    return TopAnswers(*(np.concatenate([getattr(part, name) for part in answers]) for name in names))


def _measured(answers: TopAnswers, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    bins = reliability(answers)
    return {"calibration_error": calibration_error(bins), "reliability": bins, "thresholds": dict(outcomes)}


def outcome(answers: TopAnswers, least: float, of_each: NDArray[np.float64] | None = None) -> dict[str, float | None]:
    """The effect of returning only first answers with a probability of at least `least`, its threshold.

    By cross-fitting, each question has a threshold of its own (`of_each`), and `least` is that of all.

    Shares: `answered` of the questions, `none` of those that nothing is shown for, `precision` of the answered that are
    right, `rejected` of the unanswerable ones that are not answered; `None` if there are none to be a share of.
    """
    reached = answers.probabilities >= (least if of_each is None else of_each)
    kept, lost = reached & ~answers.below, ~answers.answerable
    answered, unanswerable = answers.weights[kept].sum(), answers.weights[lost].sum()
    return {
        "threshold": least,
        "answered": float(answered / answers.weights.sum()),
        "none": float(answers.weights[answers.below].sum() / answers.weights.sum()),
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
