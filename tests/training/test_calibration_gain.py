"""A calibration that makes a search worse is not taken: compared with the same in a plain loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import reconfigure, write_checkpoint

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.calibration_fit import CrossFit, cross_fits, fit
from ap_ranker.evaluation.first_answers import Rankings
from ap_ranker.ranking.checkpoint import read_checkpoint_config
from ap_ranker.ranking.rule import Basis, Calibration, Signals
from ap_ranker.training.calibrate import calibrate
from ap_ranker.training.calibration_gain import CalibrationGain

CAREFUL = Calibration(3.0, 0.0, 0.0, {"0.8": 0.9}, basis=Basis.PRIOR)


def rankings_with(scores: list[float], is_right: list[bool]) -> Rankings:
    """Questions with two candidates, of which the first one is right or not."""
    signals = [Signals(np.array([score, score - 5])) for score in scores]
    right = [np.array([flag, False]) for flag in is_right]
    return Rankings(signals, right, np.ones(len(scores), dtype=bool), np.ones(len(scores)))


def utility_of(calibration: Calibration, rankings: Rankings) -> float:
    """Right answers asserted minus three times wrong ones, by the definition."""
    total = 0.0
    for signals, right in zip(rankings.signals, rankings.right, strict=True):
        probability = 1 / (1 + np.exp(-(calibration.score * signals.model[0] + calibration.bias)))
        if probability >= calibration.threshold(0.8):
            total += 1 if right[0] else -3
    return total / len(rankings.signals)


def test_utilities_are_those_of_a_plain_loop() -> None:
    draw = np.random.default_rng(3)
    rankings = rankings_with(draw.normal(size=300).tolist(), (draw.random(300) < 0.6).tolist())
    bold = replace(CAREFUL, thresholds={"0.8": 0.3})
    gain = CalibrationGain.of(CAREFUL, [CrossFit(bold, rankings)])
    assert gain.utility_before == pytest.approx(utility_of(CAREFUL, rankings))
    assert gain.utility_after == pytest.approx(utility_of(bold, rankings))
    assert gain.is_loss, "four in ten answers are wrong, and all are asserted"
    back = CalibrationGain.of(bold, [CrossFit(CAREFUL, rankings)])
    assert not back.is_loss
    assert back.certainty == pytest.approx(1 - gain.certainty)


def test_one_question_proves_nothing() -> None:
    rankings = rankings_with([0.5], [False])
    bold = replace(CAREFUL, thresholds={"0.8": 0.3})
    assert not CalibrationGain.of(CAREFUL, [CrossFit(bold, rankings)]).is_loss


def test_a_fit_to_questions_that_behave_alike_is_no_loss() -> None:
    draw = np.random.default_rng(4)
    scores = draw.normal(size=200)
    is_right = draw.random(200) < 1 / (1 + np.exp(-3 * scores))
    rankings = rankings_with(scores.tolist(), is_right.tolist())
    texts = [f"what is number {row} about" for row in range(200)]
    crossed = cross_fits(fit(rankings, [0.8], CAREFUL), rankings, texts, [0.8], prior=CAREFUL)
    assert not CalibrationGain.of(CAREFUL, crossed).is_loss


@pytest.mark.parametrize("precisions", [None, [0.9, 0.95]], ids=["default", "others"])
@pytest.mark.parametrize("is_loss", [False, True])
def test_a_loss_leaves_the_checkpoint_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_loss: bool, precisions: list[float] | None
) -> None:
    """Searches are compared at the default precision, whichever are named; it has a threshold in any case."""
    write_checkpoint("ap-cnn", tmp_path / "ranker")
    reconfigure(tmp_path / "ranker", calibration={"model": CAREFUL})
    monkeypatch.setattr(CalibrationGain, "is_loss", is_loss)
    before = {path.name: path.read_bytes() for path in (tmp_path / "ranker").iterdir()}
    answers = [Answer(str(row), text) for row, text in enumerate(("open the tracking link", "the refund arrives"))]
    questions = [Question(str(row), f"{text.text} {row}", (row % 2,)) for row, text in enumerate(answers * 6)]
    report = calibrate(tmp_path / "ranker", Dataset("faq", answers, questions), precisions=precisions, device="cpu")
    assert report.gain is not None
    after = {path.name: path.read_bytes() for path in (tmp_path / "ranker").iterdir()}
    if is_loss:
        assert not report.files
        assert after == before
    else:
        assert "config.json" in report.files
        calibration = read_checkpoint_config(tmp_path / "ranker").calibration["model"]
        assert calibration.basis is Basis.QUESTIONS
        assert {"0.8", "0.9", "0.95"} == set(calibration.thresholds)
