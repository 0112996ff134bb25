"""The small steps of fitting a calibration, each against its formula or a count by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from probabilities import probabilities

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.calibration_fit import (
    DEVIATIONS,
    ONE_SIDED,
    PRIOR_QUESTIONS,
    Fit,
    cross_fits,
    cross_measure,
    fit,
    fit_with_certainty,
    leaning,
    lowered_floor,
    measure,
    prior_fit,
    threshold,
    with_hidden,
    with_random_questions,
    without_random_questions,
)
from ap_ranker.evaluation.cross_fitting import parts_of
from ap_ranker.evaluation.first_answers import Rankings, TopAnswers, outcome, top_answers
from ap_ranker.ranking.priors import floor_of
from ap_ranker.ranking.rule import EXCESS, Calibration, Signals

PRIOR = Calibration(2.0, 1.0, -3.0, {"0.8": 0.6}, background=0.25)


def planted(seed: int, questions: int) -> Rankings:
    """Four candidates each, right as often as the prior says; each third question has twice the weight."""
    rng = np.random.default_rng(seed)
    scores = [rng.normal(size=4) for _ in range(questions)]
    right = [rng.random(4) < probabilities(PRIOR, values) for values in scores]
    weights = np.where(np.arange(questions) % 3 == 0, 2.0, 1.0)
    answerable = np.array([flags.any() for flags in right])
    return Rankings([Signals(values) for values in scores], right, answerable, weights)


def sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


@pytest.mark.parametrize("precision", [0.0, 0.4, 0.55, 0.7, 0.9, 0.999])
def test_the_lowest_threshold_of_weighted_answers(precision: float) -> None:
    """Each probability tried, from the lowest: the mean of those that reach it, by weight."""
    rng = np.random.default_rng(2)
    for size in (1, 2, 30):
        probabilities = np.round(rng.random(size), 1)
        weights = rng.integers(1, 4, size).astype(float)
        flags = np.ones(size, dtype=bool)
        answers = TopAnswers(probabilities, flags, flags, weights, ~flags)
        expected = precision
        for least in sorted(set(probabilities), reverse=True):
            kept = probabilities >= least
            if np.average(probabilities[kept], weights=weights[kept]) >= precision - 1e-12:
                expected = 0.0 if kept.all() else float(least)
        assert threshold(answers, precision) == pytest.approx(expected)


def test_a_threshold_leans_on_the_prior_by_the_number_of_questions() -> None:
    assert leaning(0.4, 0.8, 30, None) == 0.4
    for count in (0, 1, 30, 5000):
        expected = (count * 0.4 + PRIOR_QUESTIONS * 0.6) / (count + PRIOR_QUESTIONS)
        assert leaning(0.4, 0.8, count, PRIOR) == pytest.approx(expected)
    assert leaning(0.4, 0.9, 100, PRIOR) == pytest.approx((0.4 + PRIOR.threshold(0.9)) / 2)


def test_hardly_any_answerable_question_is_below_the_floor() -> None:
    tops = np.arange(101) / 100
    assert lowered_floor(0.5, tops) == pytest.approx(0.02)
    assert lowered_floor(0.01, tops) == 0.01
    assert lowered_floor(0.5, np.array([])) == 0.5


def test_the_floor_is_by_the_questions_at_the_end_and_lowered_by_the_answerable_ones() -> None:
    tops = [0.9, 0.8, 0.1, *np.linspace(0.2, 0.6, 21)]
    scores = [Signals(np.array([-1.0, top])) for top in tops]
    right = [np.array([False, True])] * len(tops)
    answerable = np.array([True, True, False] + [False] * 21)
    rankings = Rankings(scores, right, answerable, np.arange(24.0))
    own, floor = without_random_questions(rankings, 3)
    assert floor == pytest.approx(floor_of(np.linspace(0.2, 0.6, 21))), "the unanswerable .1 lowers nothing"
    assert [signals.model.tolist() for signals in own.signals] == [[-1.0, top] for top in tops[:3]]
    assert (own.answerable.tolist(), own.weights.tolist()) == ([True, True, False], [0.0, 1.0, 2.0])


def test_random_questions_come_last_and_have_no_answer() -> None:
    data = Dataset("d", [Answer("1", "x")], [Question("a", "A", (0,))])
    first, *others = with_random_questions(data).questions
    assert first == data.questions[0]
    assert len({question.id for question in others}) == len({question.text for question in others}) == len(others)
    assert all((question.positives, question.candidates) == ((), None) for question in others)


def test_hidden_copies_know_what_their_rankings_know() -> None:
    """All but the right answers: scores, texts, backgrounds; so that they have the share of all weight."""
    texts = [["a"], ["b"], ["c"]]
    known = Signals(np.array([3.0, 2.0, 1.0]), answers=texts, background_of=lambda row: 10.0 + row)
    bare = Signals(np.array([0.5, 0.4, 0.3]))
    right = [np.array([False, True, False]), np.array([False, False, False])]
    rankings = Rankings([known, bare], right, np.array([True, False]), np.array([3.0, 1.0]))
    for share in (0.1, 0.5):
        hidden = with_hidden(rankings, share)
        assert hidden.n_asked == 2
        assert list(hidden.signals[:2]) == [known, bare]
        first, second = hidden.signals[2:]
        assert (first.model.tolist(), first.answers) == ([3.0, 1.0], [["a"], ["c"]])
        assert first.background_of is not None
        assert [first.background_of(place) for place in (0, 1)] == [10.0, 12.0]
        assert (second.model.tolist(), second.answers, second.background_of) == ([0.5, 0.4, 0.3], None, None)
        assert [flags.tolist() for flags in hidden.right[2:]] == [[False, False], [False, False, False]]
        assert hidden.answerable.tolist() == [True, False, False, False]
        assert hidden.weights[:2].tolist() == [3.0, 1.0]
        assert hidden.weights[2] == hidden.weights[3]
        assert hidden.weights[2:].sum() / hidden.weights.sum() == pytest.approx(share)
        assert fit(hidden, [], PRIOR).questions == 2


def test_a_prior_alone_is_as_uncertain_as_faqs_differ() -> None:
    made = prior_fit(PRIOR)
    variances = [(DEVIATIONS[0] * 2.0) ** 2, (DEVIATIONS[0] * 1.0) ** 2, DEVIATIONS[1] ** 2]
    assert made.covariance.tolist() == pytest.approx(np.diag(variances))
    assert (made.calibration, made.center) == (PRIOR, 0.25)
    assert prior_fit(replace(PRIOR, background=None)).center == 0.0


@pytest.mark.parametrize("prior", [None, PRIOR])
@pytest.mark.parametrize("background", [None, 0.5])
def test_the_covariance_is_the_inverse_of_the_losses_curvature(
    prior: Calibration | None, background: float | None
) -> None:
    """Of the two best answers, added up one after the other; scores are those above the background."""
    rankings = planted(3, 80)
    made = fit_with_certainty(rankings, [], prior, background=background)
    center = background if background is not None else 0.0 if prior is None else 0.25
    assert made.center == center
    assert made.calibration.background == (background if prior is None or background is not None else 0.25)
    calibration = made.calibration
    curvature = np.zeros((3, 3))
    for signals, weight in zip(rankings.signals, rankings.weights, strict=True):
        first, second = np.argsort(-signals.model)[:2]
        lead = signals.model[first] - signals.model[second]
        for row, own in ((first, lead), (second, -lead)):
            features = np.array([signals.model[row] - center, own, 1.0])
            p = sigmoid(calibration.score * signals.model[row] + calibration.margin * own + calibration.bias)
            curvature += weight * p * (1 - p) * np.outer(features, features)
    if prior is not None:
        curvature += np.diag([1 / 0.6**2, 1 / 0.3**2, 1 / DEVIATIONS[1] ** 2])
    assert made.covariance == pytest.approx(np.linalg.inv(curvature), rel=1e-3)


@pytest.mark.parametrize(("least", "floor"), [(0.3, None), (0.3, 0.9), (0.999, None)])
def test_the_certainty_is_by_the_slopes_of_the_answers_above(least: float, floor: float | None) -> None:
    """Weighted; not of what is below the floor; where nothing is above the threshold, of the most probable answer."""
    rankings = planted(4, 30)
    calibration = replace(PRIOR, thresholds={"0.8": least}, floor=floor)
    covariance = np.diag([0.04, 0.09, 0.01]) + 0.005
    certainty = Fit(calibration, covariance, 0.25).certainty(rankings, 0.8)
    rows: list[tuple[float, float, np.ndarray]] = []
    for signals, weight in zip(rankings.signals, rankings.weights, strict=True):
        second, first = np.sort(signals.model)[-2:]
        p = sigmoid(2.0 * first + (first - second) - 3.0)
        rows.append((p, weight, np.array([first - 0.25, first - second, 1.0])))
    kept = [row for row in rows if row[0] >= least and (floor is None or row[2][0] + 0.25 >= floor)]
    kept = kept or [max(rows, key=lambda row: row[0])]
    total = sum(weight for _, weight, _ in kept)
    expected = sum(weight * p for p, weight, _ in kept) / total
    slopes = sum(weight * p * (1 - p) * features for p, weight, features in kept) / total
    error = math.sqrt(float(slopes @ covariance @ slopes))
    assert certainty.expected == pytest.approx(expected)
    assert certainty.lower == pytest.approx(max(0.0, expected - ONE_SIDED * error))
    unsure = Fit(calibration, 1e6 * covariance, 0.25).certainty(rankings, 0.8)
    assert unsure.lower == 0.0


def test_an_excess_is_a_part_of_the_certainty() -> None:
    """The score and the lead of the best answer count less by it."""
    signals = Signals(np.array([1.0, 0.4]), background_of=lambda row: 0.25 + 0.2 / EXCESS)
    rankings = Rankings([signals], [np.array([True, False])], np.ones(1, dtype=bool), np.ones(1))
    certainty = Fit(PRIOR, np.diag([1.0, 0.0, 0.0]), 0.25).certainty(rankings, 0.8)
    p = sigmoid(2.0 * 0.8 + 0.4 - 3.0)
    assert certainty.expected == pytest.approx(p)
    assert certainty.lower == pytest.approx(max(0.0, p - ONE_SIDED * p * (1 - p) * (0.8 - 0.25)))


def test_a_copy_of_the_best_answer_leaves_no_doubt() -> None:
    """The lead is the one over the best other answer."""
    copy = ["Bring it to our shop in the harbour, from Monday to Friday."]
    signals = Signals(np.array([1.0, 0.9, 0.4]), answers=[copy, copy, ["Charge it overnight."]])
    rankings = Rankings([signals], [np.array([True, True, False])], np.ones(1, dtype=bool), np.ones(1))
    certainty = Fit(PRIOR, np.diag([0.0, 1.0, 0.0]), 0.25).certainty(rankings, 0.8)
    p = sigmoid(2.0 * 1.0 + 0.6 - 3.0)
    assert certainty.expected == pytest.approx(p)
    assert certainty.lower == pytest.approx(max(0.0, p - ONE_SIDED * p * (1 - p) * 0.6))


TEXTS = [f"{verb} {name}" for verb in ("lost", "sold", "found") for name in ("parcel", "bike", "bell", "helmet", "key")]


@pytest.mark.parametrize("hidden", [None, 0.2])
@pytest.mark.parametrize("prior", [None, PRIOR])
def test_each_part_has_a_fit_to_the_others(hidden: float | None, prior: Calibration | None) -> None:
    rankings = planted(5, len(TEXTS))
    floor = -0.3
    whole = replace(fit(rankings, [0.6, 0.8], prior), floor=floor)
    crossed = cross_fits(whole, rankings, TEXTS, [0.6, 0.8], prior=prior, hidden=hidden)
    parts = parts_of(TEXTS)
    assert len(crossed) == len(parts) == 5
    kept: list[tuple[float, bool]] = []
    for made, part in zip(crossed, parts, strict=True):
        rest = rankings.of(np.array([row for row in range(len(TEXTS)) if row not in part]))
        own = rankings.of(part)
        if hidden is not None:
            rest, own = with_hidden(rest, hidden), with_hidden(own, hidden)
        assert made.calibration == replace(fit(rest, [0.6, 0.8], prior), floor=floor)
        assert [one.model.tolist() for one in made.rankings.signals] == [one.model.tolist() for one in own.signals]
        answers = top_answers(made.calibration, own)
        for p, flag, below in zip(answers.probabilities, answers.right, answers.below, strict=True):
            if p >= made.calibration.thresholds["0.8"] and not below:
                kept.append((p, bool(flag)))
    measured = cross_measure(whole, crossed)
    assert list(measured["thresholds"]) == ["-", "0.6", "0.8"]
    assert measured["thresholds"]["0.8"]["threshold"] == whole.thresholds["0.8"]
    if hidden is None:
        weights = sum(part.rankings.weights.sum() for part in crossed)
        assert weights == rankings.weights.sum()
        assert (measured["thresholds"]["0.8"]["answered"] > 0) == bool(kept)
    assert measured["thresholds"]["-"]["threshold"] == 0.0
    assert sum(group["share"] for group in measured["reliability"]) == pytest.approx(1.0)


def test_nothing_is_crossed_where_nothing_can_be_hidden() -> None:
    """Or where all are near copies; with right answers alone, nothing wrong is left to show."""
    rankings = planted(6, len(TEXTS))
    only_right = replace(rankings, right=[np.ones(4, dtype=bool)] * len(TEXTS))
    whole = fit(rankings, [0.8])
    assert cross_fits(whole, only_right, TEXTS, [0.8], hidden=0.1) == []
    assert len(cross_fits(whole, only_right, TEXTS, [0.8])) == 5
    assert cross_fits(whole, rankings, ["the same"] * len(TEXTS), [0.8]) == []


def test_what_is_measured_is_what_each_threshold_does() -> None:
    rankings = planted(7, 40)
    calibration = replace(PRIOR, thresholds={"0.6": 0.2, "0.8": 0.5})
    answers = top_answers(calibration, rankings)
    measured = measure(calibration, rankings)
    assert set(measured) == {"calibration_error", "reliability", "thresholds"}
    assert measured["thresholds"] == {
        "-": outcome(answers, 0.0),
        "0.6": outcome(answers, 0.2),
        "0.8": outcome(answers, 0.5),
    }
    error = sum(group["share"] * abs(group["probability"] - group["right"]) for group in measured["reliability"])
    assert measured["calibration_error"] == pytest.approx(error)
