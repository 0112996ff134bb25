from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import write_checkpoint
from hypothesis import given
from hypothesis import strategies as st
from probabilities import probabilities
from refusals import refused

from ap_ranker.errors import InputError
from ap_ranker.ranking.checkpoint import load_checkpoint, read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.fingerprint import fingerprint
from ap_ranker.ranking.rule import Calibration, margins

numbers = st.floats(-10, 10)
lists = st.lists(numbers, min_size=1, max_size=8)
weights = st.floats(0, 5)


def naive(a: float, b: float, c: float, scores: list[float]) -> list[float]:
    """The definition, one answer after the other."""
    found = []
    for place, score in enumerate(scores):
        others = scores[:place] + scores[place + 1 :]
        lead = score - max(others) if others else 0.0
        found.append(1 / (1 + math.exp(-(a * score + b * lead + c))))
    return found


@given(weights, weights, numbers, lists)
def test_probabilities_are_the_definitions(a: float, b: float, c: float, scores: list[float]) -> None:
    found = probabilities(Calibration(a, b, c, {}), np.array(scores))
    assert found.tolist() == pytest.approx(naive(a, b, c, scores), abs=1e-12)


@given(weights, weights, numbers, lists)
def test_a_better_score_never_has_a_lower_probability(a: float, b: float, c: float, scores: list[float]) -> None:
    found = probabilities(Calibration(a, b, c, {}), np.array(scores, dtype=np.float32))
    assert (np.diff(found[np.argsort(np.float32(scores), kind="stable")]) >= 0).all()


def test_margins_by_hand() -> None:
    assert margins(np.array([1.0, 4.0, 2.5]), None, np.array([1, 2, 0])).tolist() == [-3.0, 1.5, -1.5]
    assert margins(np.array([4.0, 1.0, 4.0]), None, np.array([0, 2, 1])).tolist() == [0.0, -3.0, 0.0]
    assert margins(np.array([7.0]), None, np.array([0])).tolist() == [0.0]
    assert margins(np.array([]), None, np.array([], dtype=int)).tolist() == []


def test_extreme_scores_stay_between_0_and_1() -> None:
    with np.errstate(all="raise"):
        assert probabilities(Calibration(1.0, 1.0, 0.0, {}), np.array([1e6, -1e6])).tolist() == [1.0, 0.0]


def test_every_precision_has_a_threshold() -> None:
    """Between two known ones, in proportion; of 0 it is 0, and of 1 it is 1."""
    calibration = Calibration(1.0, 1.0, 0.0, {"0.9": 0.7, "0.95": 0.8})
    by_hand = {0.95: 0.8, 0.9: 0.7, 0.45: 0.35, 0.925: 0.75, 0.99: 0.8 + 0.2 * 4 / 5, 0.975: 0.9}
    for precision, expected in by_hand.items():
        assert calibration.threshold(precision) == pytest.approx(expected)
    bare = replace(calibration, thresholds={})
    for precision in (0.001, 0.5, 0.8, 0.999):
        assert bare.threshold(precision) == pytest.approx(precision)
    grid = np.linspace(0.001, 0.999, 200)
    assert np.all(np.diff([calibration.threshold(each) for each in grid]) > 0)


@pytest.mark.parametrize("wrong", [(-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, math.nan), (math.inf, 0.0, 0.0)])
def test_no_calibration_turns_the_order_around(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match=r"score|margin|bias"):
        Calibration(*wrong, {})


def test_a_checkpoint_keeps_it(tmp_path: Path) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "c")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    config, mark = read_checkpoint_config(folder), fingerprint(folder)
    assert config.calibration == {}
    fits = {"model": Calibration(1.5, 2.5, -3.5, {"0.9": 0.75}), "fused": Calibration(0.1, 0.2, 0.3, {})}
    write_checkpoint_config(folder, type(config)(**{**vars(config), "calibration": fits}))
    assert load_checkpoint(folder)[0].calibration == fits
    assert fingerprint(folder) == mark  # encoded answers stay good
    assert {file.name for file in folder.iterdir()} == set(before)
    write_checkpoint_config(folder, config)
    assert (folder / "config.json").read_bytes() == before["config.json"]


def test_a_checkpoint_of_before_loads(tmp_path: Path) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "c")
    mark = fingerprint(folder)
    config = json.loads((folder / "config.json").read_text())
    del config["calibration"]
    (folder / "config.json").write_text(json.dumps(config))
    assert read_checkpoint_config(folder).calibration == {}
    assert fingerprint(folder) == mark


@pytest.mark.parametrize(
    "damaged",
    [
        7,
        {"model": 7},
        {"model": {"score": 1.0}},
        {"model": {"score": "1", "margin": 1.0, "bias": 0.0, "thresholds": {}}},
        {"model": {"score": -1.0, "margin": 1.0, "bias": 0.0, "thresholds": {}}},
    ],
)
def test_a_damaged_one_is_refused(damaged: object, tmp_path: Path) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "c")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"calibration": damaged}))
    with refused("config.json"):
        read_checkpoint_config(folder)


@pytest.mark.parametrize("key", ["0,9", "90", "1", "0", "nan", "", "-0.5"])
def test_a_threshold_of_no_precision_is_refused(key: str) -> None:
    """When a file is read, not with the first question."""
    with refused(f"thresholds … {key}"):
        Calibration(1.0, 0.0, 0.0, {"0.8": 0.5, key: 0.5})
