"""What a run keeps of each epoch, and what it holds while it calibrates: nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from conftest import write_encoder
from naive import SMALL
from safetensors.torch import load_file
from small_runs import StopAfter, of_topics
from transformers.trainer_utils import get_last_checkpoint

from ap_ranker.data.wordings import with_wordings
from ap_ranker.models import transformer_encoder
from ap_ranker.ranking.loaded_checkpoints import load_checkpoint
from ap_ranker.training.calibrate import CalibrationReport, calibrate
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train

DATA = of_topics("where is my {}?", "the {} is gone", "help with {} please")
TABLE = "word_embeddings.weight"


@pytest.fixture
def config(tmp_path: Path) -> TrainingConfig:
    texts = [answer.text for answer in DATA.answers] + [question.text for question in DATA.questions]
    options = {"encoder": str(write_encoder(tmp_path / "encoder", texts)), "size": 0}
    rates = {"learning_rate": 0.02, "encoder_learning_rate": 0.005}
    return TrainingConfig("ap-transformer", options, batch_size=8, max_tokens=24, epochs=4, **rates)


def test_what_does_not_learn_is_not_kept_of_an_epoch(
    config: TrainingConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer_encoder, "LARGE_VOCABULARY", 30)
    unbroken = train(DATA, DATA, tmp_path / "unbroken", config, device="cpu")
    with pytest.raises(KeyboardInterrupt):
        train(DATA, DATA, tmp_path / "broken", config, device="cpu", callbacks=(StopAfter(2),))
    kept = load_file(Path(get_last_checkpoint(str(tmp_path / "broken.training")), "model.safetensors"))
    model, names = unbroken.ranker.model, {name.removeprefix("model.") for name in kept}
    frozen = {name for name, weight in model.named_parameters() if not weight.requires_grad}
    assert any(name.endswith(TABLE) for name in frozen), "or this test says nothing"
    assert names == model.state_dict().keys() - frozen
    resumed = train(DATA, DATA, tmp_path / "broken", config, device="cpu", resume=True).ranker.model.state_dict()
    assert all(torch.equal(resumed[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["ap-cnn", "ap-transformer"])
def test_the_model_in_memory_is_calibrated_as_the_one_on_disk(
    name: str, config: TrainingConfig, tmp_path: Path
) -> None:
    if name == "ap-cnn":
        config = TrainingConfig(name, SMALL[name], batch_size=8, embedding_size=8, epochs=2)
    found: list[CalibrationReport] = []

    def keep(*given: Any, **settings: Any) -> None:
        found.append(calibrate(*given, **settings))

    read = "ap_ranker.ranking.loaded_checkpoints.load_checkpoint"
    with patch("ap_ranker.training.train.calibrate", keep), patch(read, side_effect=load_checkpoint) as loaded:
        train(DATA, DATA, tmp_path / "c", config, device="cpu")
        folders = [Path(call.args[0]) for call in loaded.call_args_list]
        # The untrained search, which the verdict compares with, is another model, in a temporary folder.
        assert not any(tmp_path in folder.parents for folder in folders), "the trained one is loaded twice"
        loaded.reset_mock()
        again = calibrate(tmp_path / "c", with_wordings(DATA, DATA), device="cpu")
        assert loaded.called
    assert found == [again]
