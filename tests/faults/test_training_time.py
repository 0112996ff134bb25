"""A run's seconds are all of its seconds, and no text is scored twice: for the report, fusion, card and timing."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from conftest import TEXTS, write_encoder

from ap_ranker.data.dataset import Dataset
from ap_ranker.models.base import States
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training import train as module
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train

answer_states = Ranker.answer_states


@pytest.fixture
def config(tmp_path: Path) -> TrainingConfig:
    options = {"encoder": str(write_encoder(tmp_path / "encoder")), "size": 0, "dropout": 0.0}
    return TrainingConfig("ap-transformer", options, max_tokens=20, epochs=0)


def test_an_untrained_model_scores_each_answer_once_and_counts_it(
    config: TrainingConfig, pairs: Dataset, tmp_path: Path
) -> None:
    encoded: Counter[str] = Counter()
    told: list[tuple[str, int, int]] = []

    def slow(self: Ranker, texts: Sequence[str]) -> Iterator[tuple[list[int], States]]:
        encoded.update(texts)
        time.sleep(0.5)
        yield from answer_states(self, texts)

    with patch.object(Ranker, "answer_states", slow), patch.object(module, "initialize_model", slow_initialization):
        result = train(
            pairs, pairs, tmp_path / "c", config, device="cpu", on_progress=lambda *event: told.append(event)
        )
    assert encoded == Counter(TEXTS[1::2])
    assert 1.0 <= result.seconds < 60
    assert result.ranker.config is not None
    assert result.ranker.config.training["seconds"] == round(result.seconds, 1)
    phases = {what: (done, total) for what, done, total in told}
    assert set(phases) == {"reading a sample of the texts", "scoring the dev questions"}
    assert all(done == total > 0 for done, total in phases.values()), "each bar comes to its end"
    assert [done for what, done, _ in told if what.startswith("scoring")] == [0, 3]


first = module.initialize_model


def slow_initialization(*arguments: object) -> object:
    time.sleep(0.5)
    return first(*arguments)  # type: ignore[arg-type]


def test_the_card_times_all_dev_questions(config: TrainingConfig, pairs: Dataset, tmp_path: Path) -> None:
    train(pairs, pairs, tmp_path / "c", config, device="cpu")
    card = " ".join((tmp_path / "c" / "README.md").read_text().split())
    found = re.search(r"([\d.]+) ms per question, with answers encoded before \(.*, mean of 3 dev questions\)", card)
    assert found and float(found[1]) > 0
