"""An epoch's time is that of its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from ap_ranker.data.dataset import Dataset
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.training.compare import Contender
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train
from benchmarks import training
from benchmarks.training import EpochClock, measure_epochs

TINY = Contender.parse_all("ap-cnn:filters=6,qa-bilstm:hidden=3")


def test_dev_questions_do_not_count(pairs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that a step moves by 1 and the judging of an epoch by 100."""
    now = [0]
    timed_scores = EvaluationSet.timed_scores

    def judge(self: EvaluationSet, *args: Any) -> CandidateScores:
        now[0] += 100
        return timed_scores(self, *args)

    class Steps(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            now[0] += 1

    monkeypatch.setattr(EvaluationSet, "timed_scores", judge)
    monkeypatch.setattr(training, "perf_counter", lambda: now[0])
    clock = EpochClock()
    config = TrainingConfig("ap-cnn", {"filters": 6}, embedding_size=8, epochs=1, batch_size=1, answer_sentences=False)
    train(pairs, pairs, tmp_path / "c", config, device="cpu", callbacks=(clock, Steps()))
    assert clock.seconds == 3  # one step per pair
    assert clock.pairs == 3
    assert now[0] > 100


def test_each_model_is_trained_for_one_epoch(pairs: Dataset, tmp_path: Path) -> None:
    told: list[str] = []
    epochs = measure_epochs(TINY, pairs, pairs, tmp_path, torch.device("cpu"), told.append)
    assert [epoch.model for epoch in epochs] == [contender.label for contender in TINY]
    for epoch in epochs:
        assert epoch.seconds > 0
        assert epoch.pairs >= 3  # with few pairs answer sentences are learnt from, too
    assert len(told) == 2
