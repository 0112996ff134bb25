"""A search for settings beside another one, after a kill, and on a disk that is full."""

from __future__ import annotations

import time
from pathlib import Path
from unittest.mock import patch

import pytest
from refusals import refused

pytest.importorskip("optuna", reason="the extra tune is not installed")

from conftest import PAIRS as DATA
from optuna.distributions import CategoricalDistribution

from ap_ranker.files import WriteError
from ap_ranker.training import tune as module
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.tune import Search, tune

CONFIG = TrainingConfig("ap-cnn", {"filters": 4}, epochs=1, batch_size=4, embedding_size=4)


def search(output: Path, trials: int = 1) -> Search:
    space = {"learning_rate": CategoricalDistribution((0.01, 0.02))}
    return tune(DATA, DATA, space, output, CONFIG, trials=trials, device="cpu")


def test_two_searches_in_one_folder(tmp_path: Path) -> None:
    told: list[str] = []

    def another(*_: object) -> None:
        with refused("out") as raised:
            search(tmp_path / "out", 9)
        told.append(str(raised.value))

    with patch.object(module, "_draw", lambda *_: another() or {}):
        assert len(search(tmp_path / "out").trials) == 1
    assert len(told) == 1


def test_what_cannot_be_written_ends_the_search(tmp_path: Path) -> None:
    """Settings are not to blame for a full disk: such a trial counted as failed, and so did all that followed."""
    full = WriteError("c: cannot be written (No space left on device).")
    with patch.object(module, "train", side_effect=full), refused("No space left", by=WriteError):
        search(tmp_path / "out", 3)
    assert [trial.number for trial in search(tmp_path / "out", 2).trials] == [1, 2]
    log = patch.object(module.JournalFileBackend, "append_logs", side_effect=OSError(28, "No space left on device"))
    with log, refused("trials.log … No space left on device", by=WriteError):
        search(tmp_path / "out", 3)


def test_a_killed_search_keeps_nobody_waiting(tmp_path: Path) -> None:
    search(tmp_path / "out")
    (tmp_path / "out" / "trials.log.lock").symlink_to("trials.log")
    started = time.perf_counter()
    assert len(search(tmp_path / "out", 2).trials) == 2
    assert time.perf_counter() - started < 29  # optuna takes a lock for a dead one's after 30
