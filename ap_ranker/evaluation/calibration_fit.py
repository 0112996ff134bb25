"""Fits the probability that the first answer is right on dev questions, some of which have no right answer.

Questions count as new ones: none meets its own text among the known wordings. A ranking counts as right if its first
answer is, so that of a question without a right answer never does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.errors import InputError, extra_for
from ap_ranker.evaluation.cross_fitting import others, parts_of
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.ranking import rule
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.priors import floor_of
from ap_ranker.ranking.random_questions import RANDOM_QUESTIONS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration, Signals, key, margins
from ap_ranker.text.reading import question_keys

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

KEPT = 256 * 10**6
"""Bytes of encoded answers that are kept in memory: some 50,000 of `ap-transformer`."""

HIDDEN = 0.1
"""Share of the questions without an answer, where the data has an answer to each."""

LOST = 0.02
"""Share of the answerable dev questions that may lie below the floor."""


@dataclass(frozen=True)
class Rankings:
    """Q questions: what ranks their candidates, as `model`, which are right; (Q,) whether the data has an answer."""

    signals: Sequence[Signals]
    right: Sequence[NDArray[np.bool_]]
    answerable: NDArray[np.bool_]
    weights: NDArray[np.float64]
    asked: int | None = None  # the number of different questions, if some count again with their answers hidden

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
    grounds = [entry_background(ranker, dataset, rows) for rows in evaluation_set.pools]
    each_of = list(zip(signals, grounds, strict=True))
    return {
        kind: Rankings(
            [
                Signals(rule.ranked_scores(each, used), answers=each.answers, background=ground)
                for each, ground in each_of
            ],
            *rest,
        )
        for kind, used in kinds.items()
    }


def entry_background(ranker: Ranker, dataset: Dataset, rows: Sequence[int]) -> Callable[[int], float]:
    """What `Signals.background` says of the candidates in these rows, as in a search."""
    counts = ranker.decider().weights.wording and any(answer.wordings for answer in dataset.answers)

    def background(place: int) -> float:
        answer = dataset.answers[rows[place]]
        return ranker.background(answer.text, answer.wordings if counts else None)

    return background


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
    return own, lowered_floor(floor_of(tops[count:]), tops[:count][own.answerable])


def lowered_floor(floor: float, tops: NDArray[np.float64]) -> float:
    """A floor that hardly any answerable question is below, given the best score of each, (Q,): see `LOST`."""
    return float(min(floor, np.quantile(tops, LOST))) if len(tops) else floor


def has_a_wording_left(dataset: Dataset) -> NDArray[np.bool_]:
    """(Q,) whether a right answer of each question has another wording, or none of them ever had one.

    The others are an entry's only wording: with it set aside, the entry is known by its answer alone, while users, who
    ask in other words, will meet it. So they are harder than what users ask (`examples/no_answer`: by 1.6 logits on
    the COVID-19 FAQ), and say nothing of how sure an answer is. A question without an answer counts as users' own,
    unless no other is left.
    """
    is_usable = []
    for question in dataset.questions:
        question_forms = set(question_keys(question.text))
        wordings = chain.from_iterable(dataset.answers[row].wordings for row in question.positives)
        is_other = [question_forms.isdisjoint(question_keys(wording)) for wording in wordings]
        is_usable.append(any(is_other) or not is_other)
    kept = np.array(is_usable, dtype=bool)
    is_answerable = np.array([bool(question.positives) for question in dataset.questions], dtype=bool)
    if is_answerable.any() and not kept[is_answerable].any():
        return np.zeros(len(kept), dtype=bool)  # those without an answer alone tell nothing of right ones
    return kept


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
    background = signals.background
    return Signals(
        signals.model[rows],
        answers=signals.answers and [*compress(signals.answers, ~right)],
        background=None if background is None else lambda place: background(int(rows[place])),
    )


def with_hidden(rankings: Rankings, share: float) -> Rankings:
    """Simulate unanswerable questions: add copies of rankings without right answers, with this share of all weight."""
    pairs = zip(rankings.signals, rankings.right, strict=True)
    hidden = [_without(signals, right) for signals, right in pairs if not right.all()]
    if not hidden:
        raise InputError("Expected questions with wrong answers among their candidates, found only right ones.")
    weight = share / (1 - share) * rankings.weights.sum() / len(hidden)
    return Rankings(
        [*rankings.signals, *hidden],
        [*rankings.right, *(np.zeros(len(each.model), dtype=bool) for each in hidden)],
        np.append(rankings.answerable, np.zeros(len(hidden), dtype=bool)),
        np.append(rankings.weights, np.full(len(hidden), weight)),
        asked=len(rankings.signals),
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
        rows = rows if len(rows) else np.array([np.argmax(answers.probabilities)])
        weights = answers.weights[rows] / answers.weights[rows].sum()
        expected = float(weights @ answers.probabilities[rows])
        firsts = [rule.rank(rankings.signals[row], calibration=self.calibration).order[0] for row in rows.tolist()]
        features = np.stack(
            [
                _features(rankings.signals[row], self.calibration, self.center)[first]
                for row, first in zip(rows.tolist(), firsts, strict=True)
            ]
        )
        slopes = (weights * answers.probabilities[rows] * (1 - answers.probabilities[rows])) @ features
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
    background = prior.background if background is None and prior is not None else background
    empty = Calibration(0.0, 0.0, 0.0, {}, background=background)
    center = 0.0 if background is None else background
    best = [rule.rank(signals).order[:FITTED] for signals in rankings.signals]
    of_each = [_features(signals, empty, center) for signals in rankings.signals]
    features = np.concatenate([each[rows] for each, rows in zip(of_each, best, strict=True)])
    right = np.concatenate([each[rows] for each, rows in zip(rankings.right, best, strict=True)])
    weights = np.repeat(rankings.weights, [len(rows) for rows in best])
    targets = right.astype(np.float64)
    if prior is None:
        positive, negative = weights[right].sum(), weights[~right].sum()
        targets = np.where(right, (positive + 1) / (positive + 2), 1 / (negative + 2))
    spread = np.append(features[:, :2].std(axis=0), 1.0)
    spread[spread < 1e-9] = 1
    scaled = features / spread  # so that one step size suits both features
    means, precision = np.zeros(3), np.zeros(3)
    if prior is not None:
        means = np.array([prior.score, prior.margin, prior.bias + prior.score * center]) * spread
        precision = 1 / np.maximum(_deviations(prior) * spread, 1e-9) ** 2

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits, away = scaled @ parameters, parameters - means
        residual = weights * (expit(logits) - targets)
        value = (weights * (np.logaddexp(0, logits) - targets * logits)).sum() + (precision * away**2).sum() / 2
        return float(value), scaled.T @ residual + precision * away

    bounds = [(0, None), (0, None), (None, None)]
    fitted = minimize(loss, means, jac=True, method="L-BFGS-B", bounds=bounds).x
    uncertain = weights * expit(scaled @ fitted) * expit(-scaled @ fitted)
    covariance = np.linalg.pinv((scaled.T * uncertain) @ scaled + np.diag(precision))
    score, margin, bias = (fitted / spread).tolist()
    count = len(rankings.signals) if rankings.asked is None else rankings.asked
    calibration = replace(empty, score=score, margin=margin, bias=bias - score * center, questions=count)
    answers = top_answers(calibration, rankings)
    thresholds = {key(target): leaning(threshold(answers, target), target, count, prior) for target in precisions}
    return Fit(replace(calibration, thresholds=thresholds), covariance / np.outer(spread, spread), center)


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

    The best answer counts as the rule says (`Calibration.excess`).
    """
    scores, order = signals.model, rule.rank(signals).order
    leads = margins(scores, signals.answers, order)
    lowered = np.zeros(len(scores))
    if calibration.background is not None and signals.background is not None and len(order):
        lowered[order[0]] = calibration.excess(signals.background(int(order[0])))
    return np.stack([scores - lowered - center, leads - lowered, np.ones(len(scores))], axis=1)


def top_answers(calibration: Calibration, rankings: Rankings) -> TopAnswers:
    """The first answer of each ranking; ties keep the given order."""
    ranked = [rule.rank(signals, calibration=calibration) for signals in rankings.signals]
    probabilities = [each.probabilities[each.order[0]] for each in ranked if each.probabilities is not None]
    right = [relevant[each.order[0]] for relevant, each in zip(rankings.right, ranked, strict=True)]
    floor = -np.inf if calibration.floor is None else calibration.floor
    below = np.array([each.scores[each.order[0]] - each.excess < floor for each in ranked])
    return TopAnswers(np.array(probabilities), np.array(right), rankings.answerable, rankings.weights, below)


def threshold(answers: TopAnswers, precision: float) -> float:
    """The lowest threshold at which the expected precision reaches the target.

    That is the mean probability of the answers above it; counting right answers instead overfits. It is 0 if all
    answers reach the target; if not even the most probable ones do, it is the target itself, which keeps it as well.
    """
    order = np.argsort(-answers.probabilities, kind="stable")
    sorted_, weights = answers.probabilities[order], answers.weights[order]
    expected = np.cumsum(weights * sorted_) / np.cumsum(weights)
    last = np.append(sorted_[1:] < sorted_[:-1], True)  # a threshold cannot separate equal probabilities
    reached = np.flatnonzero((expected >= precision) & last)
    if not len(reached):
        return precision
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

    Near copies (of `texts`) are fitted to together, or not at all. `None` if all questions are near copies, or if
    nothing can be hidden.
    """
    answers: list[TopAnswers] = []
    leasts: dict[str, list[NDArray[np.float64]]] = {name: [] for name in _thresholds(calibration)}
    for part in parts_of(texts):
        fitted_to, measured = rankings.of(others(part, len(texts))), rankings.of(part)
        if hidden is not None:
            if any(all(right.all() for right in each.right) for each in (fitted_to, measured)):
                return None  # nothing can be hidden
            fitted_to, measured = with_hidden(fitted_to, hidden), with_hidden(measured, hidden)
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
        probability = np.average(answers.probabilities[rows], weights=weights)
        right = np.average(answers.right[rows], weights=weights)
        share = weights.sum() / answers.weights.sum()
        bins.append({"share": float(share), "probability": float(probability), "right": float(right)})
    return bins


def calibration_error(bins: Sequence[Mapping[str, float]]) -> float:
    """The mean |probability - share that is right| over the bins."""
    return sum(group["share"] * abs(group["probability"] - group["right"]) for group in bins)
