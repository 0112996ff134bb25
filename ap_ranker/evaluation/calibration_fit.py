"""Fits the probability that the first answer is right on dev questions, some of which have no right answer.

Questions count as new ones: none meets its own text among the known wordings. A ranking counts as right if its first
answer is, so that of a question without a right answer never does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.errors import InputError, extra_for
from ap_ranker.evaluation.cross_fitting import others, parts_of
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.first_answers import (
    Rankings,
    TopAnswers,
    calibration_error,
    outcome,
    reliability,
    top_answers,
)
from ap_ranker.evaluation.scoring import ignored
from ap_ranker.ranking import rule
from ap_ranker.ranking.cache import CACHE_BYTES, EncodingCache
from ap_ranker.ranking.priors import floor_of
from ap_ranker.ranking.random_questions import RANDOM_QUESTIONS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration, Signals, Weights, margins, threshold_key
from ap_ranker.text.question_keys import is_among, question_keys

with extra_for("Training and measuring need", "train"):
    from scipy.optimize import minimize
    from scipy.special import expit

FITTED = 2
"""Number of top answers of each ranking that enter the fit."""

ONE_SIDED = 1.645
"""Standard errors of a one-sided lower bound of 95 % below the mean."""

PRIOR_QUESTIONS = 100
"""How many questions the prior's thresholds count as. On the example, target .9, the worst twentieth of calibrations on
10 questions kept .85 with 100, and the prior alone .87; with 30 it was .79 (`examples/no_answer/general.py few`)."""

DEVIATIONS = (0.3, 0.6)
"""Standard deviations of a FAQ's own weights about the prior's, as a share of each, and of the bias, in logits: those
of eleven FAQs lay .4 to .6 about the bias that fits all (`examples/no_answer`)."""

HIDDEN = 0.1
"""Share of the questions without an answer, where the data has an answer to each."""

LOST = 0.02
"""Share of the answerable dev questions that may lie below the floor."""


def rankings_by_kind(
    ranker: Ranker, dataset: Dataset, on_progress: Callable[[int, int], None] = ignored
) -> dict[str, Rankings]:
    """`model` and, if BM25 has a weight, `fused` -> all questions, with the candidates that a search has."""
    retriever = ranker if ranker.has_vectors and not _has_pools(dataset) else None
    # What is encoded to fetch candidates is not encoded again to score them.
    cache = EncodingCache(CACHE_BYTES, ranker.stored_dtype)
    ranker.fill_cache(cache)
    evaluation_set = EvaluationSet(dataset, unanswerable=True, language=ranker.bm25_language, retriever=retriever)
    reader = Ranker(ranker.model, ranker.tokenizer, ranker.device, ranker.config, cache=cache)
    signals_of_questions: list[Signals] = []
    of_set = evaluation_set.signals(evaluation_set.scores(reader, on_progress))
    for signals, right, rows in zip(of_set, evaluation_set.right, evaluation_set.pools, strict=True):
        background_of = entry_background(reader, dataset, rows)
        signals_of_questions.append(replace(_fair(signals, right), background_of=background_of))
    weights = ranker.decider().weights
    weights_of_kinds = {MODEL: replace(weights, bm25=0.0)}
    if weights.bm25:
        weights_of_kinds[FUSED] = weights
    is_answerable = _is_answerable(evaluation_set.questions)
    rankings: dict[str, Rankings] = {}
    for kind, used_weights in weights_of_kinds.items():
        ranked = [by_ranked_scores(signals, used_weights) for signals in signals_of_questions]
        rankings[kind] = Rankings(ranked, evaluation_set.right, is_answerable, np.ones(len(ranked)))
    return rankings


def by_ranked_scores(signals: Signals, weights: Weights) -> Signals:
    """The same candidates, with what they are ranked by (f) in place of the model's score."""
    scores = rule.ranked_scores(signals, weights)
    return Signals(scores, answers=signals.answers, background_of=signals.background_of)


def entry_background(ranker: Ranker, dataset: Dataset, rows: Sequence[int]) -> Callable[[int], float]:
    """What `Signals.background_of` says of the candidates in these rows, as in a search."""
    has_wordings = ranker.decider().weights.wording and any(answer.wordings for answer in dataset.answers)

    def background_of(place: int) -> float:
        answer = dataset.answers[rows[place]]
        return ranker.background(answer.text, answer.wordings if has_wordings else None)

    return background_of


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
    tops = rankings.tops
    if len(tops) == count:
        return own, None
    return own, lowered_floor(floor_of(tops[count:]), tops[:count][own.answerable])


def lowered_floor(floor: float, tops: NDArray[np.float64]) -> float:
    """A floor that hardly any answerable question is below, given the best score of each, (Q,): see `LOST`."""
    if len(tops):
        return float(min(floor, np.quantile(tops, LOST)))
    return floor


def has_a_wording_left(dataset: Dataset) -> NDArray[np.bool_]:
    """(Q,) whether a right answer of each question has another wording, or none of them ever had one.

    The others are an entry's only wording: with it set aside, the entry is known by its answer alone, while users, who
    ask in other words, will meet it. So they are harder than what users ask (`examples/no_answer`: by 1.6 logits on
    the COVID-19 FAQ), and say nothing of how sure an answer is. A question without an answer counts as users' own,
    unless no other is left.
    """
    is_usable: list[bool] = []
    for question in dataset.questions:
        asked_keys = set(question_keys(question.text))
        is_other: list[bool] = []
        for row in question.positives:
            for wording in dataset.answers[row].wordings:
                is_other.append(not is_among(wording, asked_keys))
        is_usable.append(any(is_other) or not is_other)
    kept = np.array(is_usable, dtype=bool)
    is_answerable = _is_answerable(dataset.questions)
    if is_answerable.any() and not kept[is_answerable].any():
        return np.zeros(len(kept), dtype=bool)  # those without an answer alone tell nothing of right ones
    return kept


def _is_answerable(questions: Sequence[Question]) -> NDArray[np.bool_]:
    """(Q,) whether each question has a right answer."""
    return np.array([bool(question.positives) for question in questions], dtype=bool)


def _fair(signals: Signals, right: NDArray[np.bool_]) -> Signals:
    """The same without all wordings, if no right answer has another wording than the question but others have some.

    A search knows the question that was set aside. Against entries that keep theirs, it would look worse than it is.
    """
    if signals.wordings is None or not right.any() or (signals.wordings[right] > -1).any():
        return signals
    return replace(signals, wordings=np.full(len(right), -1.0))


def _without(signals: Signals, right: NDArray[np.bool_]) -> Signals:
    """What ranks the other candidates, without the right ones."""
    rows = np.flatnonzero(~right)
    answers = signals.answers and [*compress(signals.answers, ~right)]
    background_of_all = signals.background_of
    if background_of_all is None:
        return Signals(signals.model[rows], answers=answers)

    def background_of(place: int) -> float:
        return background_of_all(int(rows[place]))

    return Signals(signals.model[rows], answers=answers, background_of=background_of)


def with_hidden(rankings: Rankings, share: float) -> Rankings:
    """Simulate unanswerable questions: add copies of rankings without right answers, with this share of all weight."""
    if not rankings.can_hide:
        raise InputError("Expected questions with wrong answers among their candidates, found only right ones.")
    hidden: list[Signals] = []
    for signals, right in zip(rankings.signals, rankings.right, strict=True):
        if not right.all():
            hidden.append(_without(signals, right))
    weight = share / (1 - share) * rankings.weights.sum() / len(hidden)
    none_right = [np.zeros(len(signals.model), dtype=bool) for signals in hidden]
    none_answerable = np.zeros(len(hidden), dtype=bool)
    weights_of_hidden = np.full(len(hidden), weight)
    return Rankings(
        [*rankings.signals, *hidden],
        [*rankings.right, *none_right],
        np.append(rankings.answerable, none_answerable),
        np.append(rankings.weights, weights_of_hidden),
        n_asked=len(rankings.signals),
    )


@dataclass(frozen=True)
class Certainty:
    """How sure a threshold is: the expected precision of what is answered, and its lower bound (95 %, one-sided)."""

    expected: float
    lower: float


@dataclass(frozen=True)
class Fit:
    """A calibration that was fitted to questions; (3, 3) the covariance of its weights, as of `_features`."""

    calibration: Calibration
    covariance: NDArray[np.float64]
    center: float

    def certainty(self, rankings: Rankings, precision: float) -> Certainty:
        """How sure the threshold of a target precision is, by the delta method over the answers above it.

        Where there is none above it, it is that of the most probable one.
        """
        answers = top_answers(self.calibration, rankings)
        rows = np.flatnonzero((answers.probabilities >= self.calibration.threshold(precision)) & ~answers.below)
        if not len(rows):
            rows = np.array([np.argmax(answers.probabilities)])
        features: list[NDArray[np.float64]] = []
        for row in rows.tolist():
            signals = rankings.signals[row]
            first = rule.rank(signals, calibration=self.calibration).order[0]
            features.append(_features(signals, self.calibration, self.center)[first])
        probabilities = answers.probabilities[rows]
        weights = answers.weights[rows] / answers.weights[rows].sum()
        expected = float(weights @ probabilities)
        slopes = (weights * probabilities * (1 - probabilities)) @ np.stack(features)
        error = math.sqrt(max(0.0, float(slopes @ self.covariance @ slopes)))
        return Certainty(expected, max(0.0, expected - ONE_SIDED * error))


def fit(
    rankings: Rankings,
    precisions: Sequence[float],
    prior: Calibration | None = None,
    *,
    background: float | None = None,
) -> Calibration:
    """As `fit_with_certainty`, the calibration alone."""
    return fit_with_certainty(rankings, precisions, prior, background=background).calibration


def fit_with_certainty(
    rankings: Rankings,
    precisions: Sequence[float],
    prior: Calibration | None = None,
    *,
    background: float | None = None,
) -> Fit:
    """Fit the logistic model to the top answers of any number of questions, and choose a threshold for each target.

    Without a prior, the targets are Platt's, (N+ + 1) / (N+ + 2) and 1 / (N- + 2) instead of 1 and 0 (Platt 1999,
    equation 11), so that the weights stay finite where a few questions are perfectly separable. With one, its weights
    are the means of normal distributions (`DEVIATIONS`), and the fit is the most probable one: the fewer questions, the
    nearer to it. Its thresholds count as much as `PRIOR_QUESTIONS` questions beside those of these.

    `background` is what the entries score for questions about other matters, by default as the prior has it.
    """
    if background is None and prior is not None:
        background = prior.background
    empty = Calibration(0.0, 0.0, 0.0, {}, background=background)
    center = 0.0 if background is None else background
    features, right, weights = _fitted_answers(rankings, empty, center)
    targets = right.astype(np.float64)
    if prior is None:
        positive = weights[right].sum()
        negative = weights[~right].sum()
        targets = np.where(right, (positive + 1) / (positive + 2), 1 / (negative + 2))
    spread = np.append(features[:, :2].std(axis=0), 1.0)
    spread[spread < 1e-9] = 1
    scaled = features / spread  # so that one step size suits both features
    means = np.zeros(3)
    precision = np.zeros(3)
    if prior is not None:
        means = np.array([prior.score, prior.margin, prior.bias + prior.score * center]) * spread
        precision = 1 / np.maximum(_deviations(prior) * spread, 1e-9) ** 2

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = scaled @ parameters
        away = parameters - means
        residual = weights * (expit(logits) - targets)
        value = (weights * (np.logaddexp(0, logits) - targets * logits)).sum() + (precision * away**2).sum() / 2
        return float(value), scaled.T @ residual + precision * away

    bounds = [(0, None), (0, None), (None, None)]
    fitted = minimize(loss, means, jac=True, method="L-BFGS-B", bounds=bounds).x
    uncertain = weights * expit(scaled @ fitted) * expit(-scaled @ fitted)
    covariance = np.linalg.pinv((scaled.T * uncertain) @ scaled + np.diag(precision))
    score, margin, bias = (fitted / spread).tolist()
    count = len(rankings.signals) if rankings.n_asked is None else rankings.n_asked
    calibration = replace(empty, score=score, margin=margin, bias=bias - score * center, questions=count)
    answers = top_answers(calibration, rankings)
    thresholds: dict[str, float] = {}
    for target in precisions:
        thresholds[threshold_key(target)] = leaning(threshold(answers, target), target, count, prior)
    return Fit(replace(calibration, thresholds=thresholds), covariance / np.outer(spread, spread), center)


def _fitted_answers(
    rankings: Rankings, empty: Calibration, center: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Of the N answers that enter the fit: (N, 3) `_features`, (N,) whether each is right, (N,) their weights."""
    features: list[NDArray[np.float64]] = []
    is_right: list[NDArray[np.bool_]] = []
    counts: list[int] = []
    for signals, right in zip(rankings.signals, rankings.right, strict=True):
        best = rule.rank(signals).order[:FITTED]
        features.append(_features(signals, empty, center)[best])
        is_right.append(right[best])
        counts.append(len(best))
    return np.concatenate(features), np.concatenate(is_right), np.repeat(rankings.weights, counts)


def prior_fit(prior: Calibration) -> Fit:
    """What is known before any question: the prior, as uncertain as the weights of FAQs differ (`DEVIATIONS`)."""
    return Fit(prior, np.diag(_deviations(prior) ** 2), 0.0 if prior.background is None else prior.background)


def _deviations(prior: Calibration) -> NDArray[np.float64]:
    """(3,) those of a FAQ's own a, b and c about the prior's."""
    return np.array([DEVIATIONS[0] * prior.score, DEVIATIONS[0] * prior.margin, DEVIATIONS[1]])


def leaning(own: float, precision: float, count: int, prior: Calibration | None) -> float:
    """A threshold of some questions' own with that of the prior, which counts as `PRIOR_QUESTIONS` more."""
    if prior is None:
        return own
    return (count * own + PRIOR_QUESTIONS * prior.threshold(precision)) / (count + PRIOR_QUESTIONS)


def _features(signals: Signals, calibration: Calibration, center: float) -> NDArray[np.float64]:
    """(N, 3) what a, b and c are the weights of: score, margin and 1; scores are those above a center.

    The best answer counts as the rule says (`Calibration.excess_of`).
    """
    scores = signals.model
    order = rule.rank(signals).order
    leads = margins(scores, signals.answers, order)
    lowered = np.zeros(len(scores))
    if calibration.background is not None and signals.background_of is not None and len(order):
        first = int(order[0])
        lowered[first] = calibration.excess_of(signals.background_of(first))
    return np.stack([scores - lowered - center, leads - lowered, np.ones(len(scores))], axis=1)


def threshold(answers: TopAnswers, precision: float) -> float:
    """The lowest threshold at which the expected precision reaches the target.

    That is the mean probability of the answers above it; counting right answers instead overfits. It is 0 if all
    answers reach the target; if not even the most probable ones do, it is the target itself, which keeps it as well.
    """
    order = np.argsort(-answers.probabilities, kind="stable")
    falling = answers.probabilities[order]
    weights = answers.weights[order]
    expected = np.cumsum(weights * falling) / np.cumsum(weights)
    is_last = np.append(falling[1:] < falling[:-1], True)  # a threshold cannot separate equal probabilities
    reached = np.flatnonzero((expected >= precision) & is_last)
    if not len(reached):
        return precision
    lowest = reached[-1]
    if lowest == len(order) - 1:
        return 0.0
    return float(falling[lowest])


def measure(calibration: Calibration, rankings: Rankings) -> dict[str, Any]:
    """How well a calibration fits these rankings, and what its thresholds do, for a JSON file.

    `calibration_error` is the expected one (ECE; Guo et al. 2017), over the bins of `reliability`; `thresholds` maps
    the target precisions that are reached to the `outcome` of theirs, and "-" to that of the threshold 0.
    """
    answers = top_answers(calibration, rankings)
    outcomes = {name: outcome(answers, least) for name, least in _thresholds(calibration).items()}
    return _measured(answers, outcomes)


@dataclass(frozen=True)
class CrossFit:
    """Some of the questions, and a calibration that was fitted to the others alone."""

    calibration: Calibration
    rankings: Rankings


def cross_fits(
    calibration: Calibration,
    rankings: Rankings,
    texts: Sequence[str],
    precisions: Sequence[float],
    *,
    prior: Calibration | None = None,
    hidden: float | None = None,
) -> list[CrossFit]:
    """All questions in parts, each with a fit to the other parts, like the calibration that was fitted to all of them.

    Near copies (of `texts`) are fitted to together, or not at all. Empty if all questions are near copies, or if
    nothing can be hidden.
    """
    crossed: list[CrossFit] = []
    for part in parts_of(texts):
        fitted_to = rankings.of(others(part, len(texts)))
        measured = rankings.of(part)
        if hidden is not None:
            if not (fitted_to.can_hide and measured.can_hide):
                return []
            fitted_to = with_hidden(fitted_to, hidden)
            measured = with_hidden(measured, hidden)
        fitted = replace(fit(fitted_to, precisions, prior), floor=calibration.floor)
        crossed.append(CrossFit(fitted, measured))
    return crossed


def cross_measure(calibration: Calibration, crossed: Sequence[CrossFit]) -> dict[str, Any]:
    """As `measure`, of the questions that the calibration was fitted to, each by a fit to others alone."""
    thresholds = _thresholds(calibration)
    answers: list[TopAnswers] = []
    leasts: dict[str, list[NDArray[np.float64]]] = {name: [] for name in thresholds}
    for part in crossed:
        answers.append(top_answers(part.calibration, part.rankings))
        own_thresholds = _thresholds(part.calibration)
        for name, least in leasts.items():
            least.append(np.full(len(part.rankings.signals), own_thresholds.get(name, np.inf)))
    together = TopAnswers.joined(answers)
    outcomes: dict[str, Any] = {}
    for name, least in leasts.items():
        outcomes[name] = outcome(together, thresholds[name], np.concatenate(least))
    return _measured(together, outcomes)


def _thresholds(calibration: Calibration) -> dict[str, float]:
    """Target precision -> its threshold, and "-" for none."""
    return {"-": 0.0, **calibration.thresholds}


def _measured(answers: TopAnswers, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    bins = reliability(answers)
    return {"calibration_error": calibration_error(bins), "reliability": bins, "thresholds": dict(outcomes)}
