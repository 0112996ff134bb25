"""Questions as users ask them, new ones and near copies; and fits that no question has a part in by its own copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation import calibration_fit, dev_choice
from ap_ranker.evaluation.calibration_fit import Rankings, cross_fits, cross_measure, fit, measure
from ap_ranker.evaluation.cross_fitting import others, parts_of
from ap_ranker.evaluation.dev_choice import DevChoice, Epoch
from ap_ranker.evaluation.evaluate import near_known_wordings
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.question_kinds import AS_ASKED, COPIES, NEW
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.ranking.rule import Signals, Weights
from ap_ranker.text.near_copies import near_groups

TOPICS = ("parcel", "refund", "battery", "helmet", "garage", "invoice", "saddle", "pedal", "warranty", "voucher")
TEXTS = [text for topic in TOPICS for text in (f"Where is my {topic}?", f"Hello, where is my {topic}? Thanks!")]


def report_of(near: Sequence[bool] | None, model: Sequence[float], bm25: Sequence[float]) -> EvaluationReport:
    data = Dataset("d", [], [])
    each = [{"P@1": np.array(values), "MRR": np.array(values)} for values in (model, bm25)]
    return EvaluationReport(data, 0, "", *each, near=None if near is None else np.array(near))


def test_the_means_of_each_kind() -> None:
    report = report_of([True, False, False, True], [1.0, 0.5, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0])
    assert report.headline == NEW
    means = {kind: report.means_of(kind, report.model_each) for kind in report.rows_of}
    assert {kind: values and values["MRR"] for kind, values in means.items()} == {AS_ASKED: 0.625, NEW: 0.25, COPIES: 1}
    assert report.new(report.model_each) == means[NEW]
    numbers = report.as_json()
    assert numbers["kinds"][COPIES]["n_questions"] == 2
    assert numbers["kinds"][NEW]["bm25"]["P@1"] == 0.5
    assert numbers["headline"] == NEW
    assert numbers["model"]["MRR"] == 0.625, "as earlier releases wrote it"


def test_the_verdict_is_on_new_questions() -> None:
    """A model that knows a hundred copies by heart, and is no better with what is new."""
    copies, new = [True] * 100, [False] * 40
    report = report_of(copies + new, [1.0] * 100 + [0.5] * 40, [0.2] * 100 + [0.5] * 40)
    assert report.gain.n_questions == 40
    assert report.gain.only_new
    assert not report.gain.better
    assert replace(report, near=None).gain.better


@pytest.mark.parametrize(("near", "headline"), [([True, True], AS_ASKED), ([False, False], NEW), (None, NEW)])
def test_all_questions_of_one_kind(near: list[bool] | None, headline: str) -> None:
    report = report_of(near, [1.0, 0.0], [0.0, 0.0])
    assert report.headline == headline
    assert report.gain.n_questions == 2
    assert report.new(report.model_each) is None


def test_copies_of_stored_questions_and_known_wordings_are_not_new() -> None:
    data = Dataset("d", [Answer("0", "a", ("Where is my parcel?", "parcel has not come yet")), Answer("1", "b")], [])
    asked = ["Hi, where is my parcel? Thanks!", "Parcel has not come yet", "Where is my refund?"]
    assert near_known_wordings(data, asked).tolist() == [True, True, False]


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=30), st.integers(0, 3))
def test_parts_divide_no_group(texts: list[str], seed: int) -> None:
    parts = parts_of(texts, seed=seed)
    groups = near_groups(texts)
    if len(set(groups)) < 2:
        assert parts == []
        return
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(texts)))
    for part in parts:
        assert set(groups[part]).isdisjoint(groups[others(part, len(texts))])


def scores_of(values: np.ndarray) -> CandidateScores:
    return CandidateScores([*values], 0.0, 0.0, 0.0)


def test_weights_are_fitted_to_other_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question is ranked by weights of a fit that has seen neither it nor its copy."""
    rows = [place // 2 for place in range(len(TEXTS))]
    answers = [Answer(topic, f"About the {topic}.") for topic in TOPICS]
    asked = EvaluationSet(Dataset("d", answers, [Question(f"{n}", t, (rows[n],)) for n, t in enumerate(TEXTS)]))
    values = np.random.default_rng(0).normal(size=(len(TEXTS), len(TOPICS)))
    scores, seen = scores_of(values), []

    def record(signals: Sequence[Signals], right: Sequence[Any], weights: Weights, added: str) -> Weights:
        seen.append({next(n for n, own in enumerate(values) if np.array_equal(own, each.model)) for each in signals})
        return replace(weights, bm25=float(len(seen)))

    monkeypatch.setattr(dev_choice, "fit_weight", record)
    report = DevChoice.of([Epoch(1, asked, scores)]).report()
    assert len(seen) == 6
    assert seen.pop(0) == set(range(len(TEXTS)))  # the checkpoint's own weights are fitted to all
    for row, ranking in enumerate(report.served):
        fits = [
            number
            for number in range(2, 7)
            if np.allclose(ranking.scores, values[row] + number * asked.bm25_scores[row])
        ]
        copy = row ^ 1
        assert fits
        assert not {row, copy} & seen[fits[0] - 2]


def rankings(count: int, seed: int) -> tuple[Rankings, list[str]]:
    """Questions of which the first answer is right as often as its score says, among three."""
    draw = np.random.default_rng(seed)
    best = draw.normal(size=count)
    signals = [Signals(np.array([value, value - 1, value - 2])) for value in best]
    right = [np.array([draw.random() < 1 / (1 + np.exp(-3 * value)), False, False]) for value in best]
    found = Rankings(signals, right, np.ones(count, dtype=bool), np.ones(count))
    return found, [f"question {n} asks for {n}" for n in range(count)]


def test_a_calibration_is_measured_on_what_it_was_not_fitted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    own, texts = rankings(200, seed=1)
    calibration = fit(own, [0.8])
    fitted_to: list[set[int]] = []
    original = calibration_fit.fit

    def record(ranked: Rankings, *rest: Any) -> Any:
        fitted_to.append({id(each) for each in ranked.signals})
        return original(ranked, *rest)

    monkeypatch.setattr(calibration_fit, "fit", record)
    crossed = cross_measure(calibration, cross_fits(calibration, own, texts, [0.8]))
    assert crossed["thresholds"].keys() == measure(calibration, own)["thresholds"].keys()
    assert len(fitted_to) == 5
    left_out = [{id(each) for each in own.signals} - part for part in fitted_to]
    assert set.union(*left_out) == {id(each) for each in own.signals}
    assert sum(map(len, left_out)) == 200, "each question is measured once"
    assert crossed["thresholds"]["-"]["precision"] == measure(calibration, own)["thresholds"]["-"]["precision"]


def test_copies_of_one_question_are_not_divided() -> None:
    own, texts = rankings(22, seed=2)
    assert cross_fits(fit(own, [0.8]), own, texts, [0.8]), "few questions are enough"
    assert not cross_fits(fit(own, [0.8]), own, ["Where is my parcel?"] * len(texts), [0.8])
