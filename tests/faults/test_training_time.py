"""A run's seconds are all of its seconds, and no text is scored twice: for the report, fusion, card and timing."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
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

encode_answers = Ranker.encode_answers


@pytest.fixture
def config(tmp_path: Path) -> TrainingConfig:
    options = {"encoder": str(write_encoder(tmp_path / "encoder")), "size": 0, "dropout": 0.0}
    return TrainingConfig("ap-transformer", options, max_tokens=20, epochs=0)


def test_an_untrained_model_encodes_each_answer_for_its_fit_and_for_dev_and_counts_it(
    config: TrainingConfig, pairs: Dataset, tmp_path: Path
) -> None:
    encoded: Counter[tuple[int, ...]] = Counter()
    told: list[tuple[str, int, int]] = []

    def slow(self: Ranker, tokens: Sequence[Sequence[int]]) -> States:
        encoded.update(map(tuple, tokens))
        time.sleep(0.5)
        return encode_answers(self, tokens)

    with patch.object(Ranker, "encode_answers", slow), patch.object(module, "initialize_model", slow_initialization):
        result = train(
            pairs, pairs, tmp_path / "c", config, device="cpu", on_progress=lambda *event: told.append(event)
        )
    tokens = result.ranker.tokenize(TEXTS[1::2])
    # For the fit and for dev; what they score for other matters; and to calibrate.
    assert [encoded[tuple(ids)] for ids in tokens] == [4] * len(tokens)
    assert 1.0 <= result.seconds < 60
    assert result.ranker.config is not None
    assert result.ranker.config.training["seconds"] == round(result.seconds, 1)
    phases = {what: (done, total) for what, done, total in told}
    assert set(phases) == {
        "reading a sample of the texts",
        "fitting to training questions",
        "scoring the dev questions",
    }
    assert all(done == total > 0 for done, total in phases.values()), "each bar comes to its end"
    assert [done for what, done, _ in told if what.startswith("scoring")] == [0, 3]


first = module.initialize_model


def slow_initialization(*arguments: object, **options: object) -> object:
    time.sleep(0.5)
    return first(*arguments, **options)  # type: ignore[arg-type]


def test_the_card_times_all_dev_questions(config: TrainingConfig, pairs: Dataset, tmp_path: Path) -> None:
    train(pairs, pairs, tmp_path / "c", config, device="cpu")
    card = " ".join((tmp_path / "c" / "README.md").read_text().split())
    speed = r"([\d.]+) ms per question, with answers encoded in advance \(.*, mean of 3 dev questions\)"
    found = re.search(speed, card)
    assert found and float(found[1]) > 0
