from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TEXTS, write_checkpoint
from probabilities import probabilities
from refusals import refused
from scipy.optimize import minimize

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.calibration_fit import (
    DEVIATIONS,
    PRIOR_QUESTIONS,
    Rankings,
    TopAnswers,
    calibration_error,
    fit,
    fit_with_certainty,
    has_a_wording_left,
    outcome,
    prior_fit,
    rankings_by_kind,
    reliability,
    threshold,
    top_answers,
    with_hidden,
    with_random_questions,
    without_random_questions,
)
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.models.base import States
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.random_questions import RANDOM_QUESTIONS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Calibration, Signals
from ap_ranker.text.tokenizer import TokenBatch

TRUE = Calibration(2.0, 1.0, -3.0, {})


def planted(seed: int, questions: int, truth: Calibration = TRUE) -> Rankings:
    """Rankings whose answers are right as often as `truth` says."""
    rng = np.random.default_rng(seed)
    scores = [rng.normal(size=6) for _ in range(questions)]
    right = [rng.random(6) < probabilities(truth, values) for values in scores]
    return rankings_of(scores, right, np.array([relevant.any() for relevant in right]), np.ones(questions))


def rankings_of(scores: Sequence[np.ndarray], *rest: Any) -> Rankings:
    return Rankings([Signals(values) for values in scores], *rest)


def scores_of(rankings: Rankings) -> list[np.ndarray]:
    return [signals.model for signals in rankings.signals]


def rescored(rankings: Rankings, scores: Sequence[np.ndarray]) -> Rankings:
    return replace(rankings, signals=[Signals(values) for values in scores])


def given(probabilities: list[float], right: list[int], answerable: list[int] | None = None) -> TopAnswers:
    flags = [1] * len(right) if answerable is None else answerable
    weights, below = np.ones(len(right)), np.zeros(len(right), bool)
    return TopAnswers(np.array(probabilities), np.array(right, bool), np.array(flags, bool), weights, below)


def naive_loss(parameters: np.ndarray, rankings: Rankings) -> float:
    """Platt's loss of the two best answers, one after the other."""
    rows = []
    for values, relevant in zip(scores_of(rankings), rankings.right, strict=True):
        first, second = np.argsort(-values)[:2]
        lead = values[first] - values[second]
        rows += [(values[first], lead, relevant[first]), (values[second], -lead, relevant[second])]
    positive = sum(bool(right) for *_, right in rows)
    high, low = (positive + 1) / (positive + 2), 1 / (len(rows) - positive + 2)
    total = 0.0
    for score, lead, right in rows:
        logit = parameters[0] * score + parameters[1] * lead + parameters[2]
        target = high if right else low
        total += target * math.log1p(math.exp(-logit)) + (1 - target) * math.log1p(math.exp(logit))
    return total


def test_the_fit_is_that_of_another_optimiser() -> None:
    rankings = planted(1, 150)
    result = fit(rankings, [])
    other = minimize(naive_loss, [1.0, 1.0, 0.0], (rankings,), method="Nelder-Mead", options={"xatol": 1e-6}).x
    assert min(other[:2]) > 0  # no bound is in its way
    assert [result.score, result.margin, result.bias] == pytest.approx(other.tolist(), abs=1e-2)


def test_scores_on_another_scale_give_the_same_probabilities() -> None:
    rankings = planted(2, 200)
    stretched = rescored(rankings, [1000 * values for values in scores_of(rankings)])
    one, other = (top_answers(fit(each, []), each).probabilities for each in (rankings, stretched))
    assert one == pytest.approx(other, abs=1e-3)


def test_a_question_of_weight_two_is_one_that_comes_twice() -> None:
    one = planted(3, 60)
    twice = Rankings([*one.signals, *one.signals], [*one.right, *one.right], np.tile(one.answerable, 2), np.ones(120))
    heavy = replace(one, weights=np.full(60, 2.0))
    result, expected = fit(heavy, []), fit(twice, [])
    assert [result.score, result.margin, result.bias] == pytest.approx([expected.score, expected.margin, expected.bias])


def test_worse_scores_that_are_right_turn_nothing_around() -> None:
    rankings = planted(4, 100)
    last = [values == values.min() for values in scores_of(rankings)]
    low = [np.sort(values) * np.array([1, 1, 1, 1, 0.1, 3]) for values in scores_of(rankings)]
    result = fit(replace(rescored(rankings, low), right=last), [])
    assert min(result.score, result.margin) >= 0


@pytest.mark.parametrize("right", [False, True])
def test_all_right_and_all_wrong_stay_finite(right: bool) -> None:
    rankings = planted(5, 40)
    first = [(values == values.max()) & right for values in scores_of(rankings)]
    result = fit(replace(rankings, right=first), [0.9])
    probabilities = top_answers(result, rankings).probabilities
    assert np.isfinite(probabilities).all()
    assert (probabilities.mean() > 0.9) == right
    assert (probabilities >= result.thresholds["0.9"]).all() == right


def test_equal_scores_and_single_candidates_can_be_fitted() -> None:
    right = [np.array([number < 15]) for number in range(30)]
    rankings = rankings_of([np.array([1.0])] * 30, right, np.ones(30, dtype=bool), np.ones(30))
    assert top_answers(fit(rankings, []), rankings).probabilities == pytest.approx(0.5)


def test_the_target_precision_holds_on_other_questions() -> None:
    targets = [0.7, 0.8, 0.9]
    result = fit(planted(6, 3000), targets)
    assert [result.score, result.margin, result.bias] == pytest.approx([2.0, 1.0, -3.0], abs=0.4)
    other = top_answers(result, planted(7, 3000))
    for precision in targets:
        measured = outcome(other, result.thresholds[f"{precision:g}"])
        assert 0.05 < measured["answered"] < 0.95
        assert measured["precision"] == pytest.approx(precision, abs=0.04)
    assert calibration_error(reliability(other)) < 0.04


def test_one_question_is_enough() -> None:
    for right in (False, True):
        one = rankings_of([np.array([0.5, 0.1])], [np.array([right, False])], np.array([right]), np.ones(1))
        for prior in (None, Calibration(3.0, 0.5, -1.0, {"0.9": 0.7})):
            result = fit(one, [0.8, 0.9], prior)
            assert np.isfinite([result.score, result.margin, result.bias]).all()
            assert result.questions == 1
            assert all(0 <= least <= 1 for least in result.thresholds.values())


def test_threshold_is_the_lowest_whose_answers_are_expected_to_reach_it() -> None:
    rng = np.random.default_rng(9)
    probabilities = np.round(rng.random(200), 2)  # many are equal
    result = threshold(given(probabilities.tolist(), [0] * 200), 0.8)
    fine = [least for least in probabilities if probabilities[probabilities >= least].mean() >= 0.8]
    assert result == min(fine)


def test_threshold_of_all_and_of_none() -> None:
    few = given([0.9] * 19 + [0.1] * 30, [1] * 49)
    assert threshold(few, 0.95) == 0.95, "none is so probable, and none reaches it"
    assert threshold(few, 0.3) == 0.0
    assert threshold(given([0.99] * 2 + [0.1] * 30, [1] * 32), 0.95) == 0.99


def test_outcome_by_hand() -> None:
    four = given([0.9, 0.8, 0.3, 0.6], [1, 0, 1, 0], [1, 1, 1, 0])
    result = outcome(four, 0.7)
    assert result == {"threshold": 0.7, "answered": 0.5, "none": 0.0, "precision": 0.5, "rejected": 1.0}
    everything = outcome(four, 0.0)
    assert everything == {"threshold": 0.0, "answered": 1.0, "none": 0.0, "precision": 0.5, "rejected": 0.0}
    nothing = outcome(given([0.9], [1]), 0.95)
    assert nothing == {"threshold": 0.95, "answered": 0.0, "none": 0.0, "precision": None, "rejected": None}
    below = outcome(replace(four, below=np.array([True, False, False, True])), 0.7)
    assert below == {"threshold": 0.7, "answered": 0.25, "none": 0.5, "precision": 0.0, "rejected": 1.0}
    weighted = outcome(replace(four, weights=np.array([1.0, 3.0, 1.0, 5.0])), 0.7)
    assert (weighted["answered"], weighted["precision"]) == (0.4, 0.25)


def test_calibration_error_by_hand() -> None:
    bins = reliability(given([0.92, 0.98, 1.0, 0.15, 0.11], [1, 1, 0, 0, 0]))
    low, high = bins
    assert low == pytest.approx({"share": 0.4, "probability": 0.13, "right": 0.0})
    assert high == pytest.approx({"share": 0.6, "probability": 2.9 / 3, "right": 2 / 3})
    assert calibration_error(bins) == pytest.approx(0.4 * 0.13 + 0.6 * 0.3)
    assert calibration_error([{"share": 1.0, "probability": 0.5, "right": 0.5}]) == 0.0


def test_hidden_answers() -> None:
    scores = [np.array([3.0, 2.0, 1.0]), np.array([5.0])]
    right = [np.array([True, False, True]), np.array([True])]
    result = with_hidden(rankings_of(scores, right, np.ones(2, dtype=bool), np.ones(2)), 0.2)
    assert [values.tolist() for values in scores_of(result)] == [
        [3.0, 2.0, 1.0],
        [5.0],
        [2.0],
    ]  # of [5.0] nothing is left
    assert not result.right[2].any()
    assert result.answerable.tolist() == [True, True, False]
    assert result.weights[2] / result.weights.sum() == pytest.approx(0.2)
    with refused("right"):
        with_hidden(rankings_of(scores[1:], right[1:], np.ones(1, dtype=bool), np.ones(1)), 0.2)


def test_rankings_have_the_unanswerable_questions_and_both_scores(checkpoint: Path, pairs: Dataset) -> None:
    data = replace(pairs, questions=[*pairs.questions, Question("x", "battery frame?", ())])
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    assert set(rankings_by_kind(ranker, data)) == {"model"}
    assert ranker.config is not None
    ranker.config = replace(ranker.config, bm25_weight=0.1)
    result = rankings_by_kind(ranker, data)
    bm25 = BM25(TEXTS[1::2])
    for number, question in enumerate(data.questions):
        alone = ranker.score(question.text, TEXTS[1::2]).numpy()
        assert result["model"].signals[number].model == pytest.approx(alone, abs=1e-5)
        assert result["fused"].signals[number].model == pytest.approx(
            alone + 0.1 * bm25.scores(question.text), abs=1e-5
        )
        for each in result.values():
            assert each.right[number].tolist() == [row in question.positives for row in range(3)]
            for row, text in enumerate(TEXTS[1::2]):
                assert each.signals[number].background_of(row) == pytest.approx(ranker.background(text), abs=1e-5)
            assert each.weights.tolist() == [1.0] * len(data.questions)
    assert result["fused"].answerable.tolist() == [True, True, True, False]


def test_few_questions_stay_near_the_prior_and_many_leave_it() -> None:
    """The most probable weights are those of another optimiser, with a normal prior over centred scores."""
    ground = 0.7
    prior = Calibration(3.0, 0.5, -1.0 - 3.0 * ground, {}, background=ground)
    deviations = np.array([DEVIATIONS[0] * prior.score, DEVIATIONS[0] * prior.margin, DEVIATIONS[1]])

    def penalised(parameters: np.ndarray, rankings: Rankings) -> float:
        """Each of the two best answers alone, in the order of the questions."""
        total = float((((parameters - np.array([3.0, 0.5, -1.0])) / deviations) ** 2).sum()) / 2
        for values, relevant in zip(scores_of(rankings), rankings.right, strict=True):
            first, second = np.argsort(-values)[:2]
            lead = values[first] - values[second]
            for row, own in ((first, lead), (second, -lead)):
                logit = parameters[0] * (values[row] - ground) + parameters[1] * own + parameters[2]
                total += math.log1p(math.exp(-logit if relevant[row] else logit))
        return total

    distances = []
    for questions in (1, 20, 500):
        rankings = planted(4, questions)
        result = fit(rankings, [0.5], prior)
        best = minimize(penalised, [1.0, 1.0, 0.0], args=(rankings,), method="Nelder-Mead", options={"fatol": 1e-9})
        centred = [result.score, result.margin, result.bias + result.score * ground]
        assert centred == pytest.approx(best.x, abs=2e-3)
        distances.append(abs(result.bias - prior.bias))
    assert distances[0] < distances[2]


def test_thresholds_lean_on_the_prior() -> None:
    """Of one question they are nearly the prior's; of very many, those of the mean alone."""
    prior = Calibration(2.0, 1.0, -3.0, {"0.8": 0.5, "0.9": 0.9})
    targets = [0.8, 0.9]
    for count in (1, 40, 3000):
        rankings = planted(5, count)
        result = fit(rankings, targets, prior)
        own = fit(rankings, targets, replace(prior, thresholds={}))
        answers = top_answers(own, rankings)
        for target in targets:
            expected = count * threshold(answers, target) + PRIOR_QUESTIONS * prior.thresholds[f"{target:g}"]
            assert result.thresholds[f"{target:g}"] == pytest.approx(expected / (count + PRIOR_QUESTIONS))
    assert result.thresholds["0.9"] == pytest.approx(threshold(answers, 0.9), abs=0.01)


def test_the_certainty_is_that_of_many_fits() -> None:
    """The lower bound by the delta method, against the precision expected of weights that are drawn."""
    rankings = planted(9, 300)
    made = fit_with_certainty(rankings, [0.8], Calibration(2.0, 1.0, -3.0, {"0.8": 0.6}))
    result = made.certainty(rankings, 0.8)
    answers = top_answers(made.calibration, rankings)
    kept = np.flatnonzero(answers.probabilities >= made.calibration.thresholds["0.8"])
    assert result.expected == pytest.approx(answers.probabilities[kept].mean())
    weights = [made.calibration.score, made.calibration.margin, made.calibration.bias]
    drawn = np.random.default_rng(0).multivariate_normal(weights, made.covariance, 4_000)
    tops = [np.sort(scores_of(rankings)[row])[::-1] for row in kept]
    features = np.array([[values[0], values[0] - values[1], 1.0] for values in tops])
    means = (1 / (1 + np.exp(-(features @ drawn.T)))).mean(axis=0)
    assert result.lower == pytest.approx(np.quantile(means, 0.05), abs=0.01)


def test_more_questions_are_more_certain() -> None:
    lower = []
    for questions in (10, 100, 1000):
        rankings = planted(10, questions)
        made = fit_with_certainty(rankings, [0.8], Calibration(2.0, 1.0, -3.0, {"0.8": 0.6}))
        certainty = made.certainty(rankings, 0.8)
        lower.append(certainty.expected - certainty.lower)
    assert lower == sorted(lower, reverse=True)


def test_a_fit_knows_entries_that_are_near_to_everything() -> None:
    """Where they are wrong whenever they are first, the others keep their trust."""
    rng = np.random.default_rng(11)
    scores = [rng.normal(size=4) for _ in range(200)]
    hub = [np.argmax(values) == 0 for values in scores]
    right = [np.array([False, *(values[1:] == values.max())]) for values in scores]
    ground = np.array([3.0, 0.0, 0.0, 0.0])
    signals = [Signals(values, background_of=lambda row: float(ground[row])) for values in scores]
    rankings = Rankings(signals, right, ~np.array(hub), np.ones(200))
    aware, blind = fit(rankings, [0.9], background=0.0), fit(rescored(rankings, scores), [0.9])
    results = [top_answers(each, one) for each, one in ((aware, rankings), (blind, rescored(rankings, scores)))]
    errors = [np.abs(each.probabilities - each.right).mean() for each in results]
    assert errors[0] < errors[1] / 2


def test_random_questions_set_the_floor() -> None:
    asked = Dataset("d", [Answer("1", "x")], [Question("a", "A", (0,)), Question("b", "B", (0,))])
    assert len(with_random_questions(asked).questions) == 2 + len(RANDOM_QUESTIONS)
    tops = [0.9, 0.3, *np.linspace(0.0, 0.4, len(RANDOM_QUESTIONS))]
    rankings = rankings_of(
        [np.array([top, -1.0]) for top in tops],
        [np.array([True, False])] * len(tops),
        np.array([True, True] + [False] * len(RANDOM_QUESTIONS)),
        np.ones(len(tops)),
    )
    own, floor = without_random_questions(rankings, 2)
    assert len(own.signals) == len(own.right) == len(own.weights) == 2
    assert floor == pytest.approx(np.quantile([0.9, 0.3], 0.02))  # not what random questions reach: .38
    judged = replace(asked, questions=[replace(question, candidates=(0,)) for question in asked.questions])
    assert with_random_questions(judged) is judged
    assert without_random_questions(own, 2)[1] is None


def test_a_question_without_other_wordings_meets_nobodys(tmp_path: Path) -> None:
    """Else the entries that keep theirs would rank above its own, as in no search."""
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c"), "cpu")
    assert ranker.config is not None
    ranker.config = replace(ranker.config, wording_weight=10.0)
    answers = [Answer("1", TEXTS[0], (TEXTS[2],)), Answer("2", TEXTS[1], (TEXTS[3], f"{TEXTS[3]} now"))]
    data = Dataset("d", answers, [Question("a", TEXTS[2], (0,)), Question("b", TEXTS[3], (1,))])
    found = rankings_by_kind(ranker, data)["model"].signals
    alone = replace(data, answers=[replace(answer, wordings=()) for answer in answers])
    cosines = EvaluationSet(alone, unanswerable=True).scores(ranker).signals[0]
    assert cosines.cosines is not None
    assert found[0].model == pytest.approx((cosines.model + 10 * cosines.cosines) / 11, abs=1e-6)
    with_one = replace(data, answers=[answers[0], replace(answers[1], wordings=(TEXTS[3],))])
    lone = rankings_by_kind(ranker, with_one)["model"].signals
    assert found[1].model[1] != pytest.approx(lone[1].model[1], abs=1e-6)  # its other wording counts


def test_which_questions_are_their_entrys_only_wording() -> None:
    answers = [
        Answer("1", TEXTS[0], ("Where is my parcel?",)),
        Answer("2", TEXTS[1], ("Can I pay later?", "Do you take invoices?")),
        Answer("3", TEXTS[2]),
    ]
    expected = [
        ("where is my parcel", (0,), False),  # in another spelling, too
        ("Where is my parcel?", (0, 1), True),  # the other right answer has wordings of its own
        ("Can I pay later?", (1,), True),
        ("Has my parcel left?", (0,), True),
        ("Which bike is mine?", (2,), True),  # the entry never had a wording: so it is in a search
        ("Do you sell apples?", (), True),
    ]
    questions = [Question(str(place), text, right) for place, (text, right, _) in enumerate(expected)]
    assert has_a_wording_left(Dataset("d", answers, questions)).tolist() == [kept for _, _, kept in expected]
    only_wording_and_no_answer = [questions[0], questions[-1]]
    assert not has_a_wording_left(Dataset("d", answers, only_wording_and_no_answer)).any()


def test_a_prior_is_less_certain_than_a_fit_that_has_questions_beside_it() -> None:
    prior = replace(TRUE, thresholds={"0.8": 0.6})
    rankings = planted(3, 300)
    alone = prior_fit(prior)
    assert alone.calibration is prior
    with_questions = fit_with_certainty(rankings, [0.8], prior)
    certainty, surer = alone.certainty(rankings, 0.8), with_questions.certainty(rankings, 0.8)
    assert surer.expected - surer.lower < certainty.expected - certainty.lower < 0.5


def test_each_answer_is_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To fetch candidates by its vector, and to be ranked; the rankings are those of a search."""
    monkeypatch.setattr("ap_ranker.evaluation.evaluation_set.RANK_ALL", 2)
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c"), "cpu")
    answers = [Answer(str(row), text, answer=text) for row, text in enumerate(TEXTS)]
    questions = [Question(str(row), text[:20], (row,)) for row, text in enumerate(TEXTS)]
    encoded: list[int] = []
    encode = ranker.model.encode_answers

    def counting(batch: TokenBatch) -> States:
        encoded.append(len(batch.ids))
        return encode(batch)

    monkeypatch.setattr(ranker.model, "encode_answers", counting)
    found = rankings_by_kind(ranker, Dataset("d", answers, questions))["model"].signals
    texts_and_example = len(TEXTS) + 1
    assert len(TEXTS) <= sum(encoded) <= texts_and_example
    for question, signals in zip(questions, found, strict=True):
        assert sorted(signals.model) == pytest.approx(sorted(ranker.score(question.text, TEXTS).tolist()), abs=1e-5)
