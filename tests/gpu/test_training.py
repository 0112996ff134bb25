"""Every model learns on a GPU, by every objective and in every precision, and ranks what it has learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import (
    CLASSIFIERS,
    LEARNERS,
    SHOWN,
    Losses,
    check_every_cache,
    check_falling,
    learnt,
    random_classes,
    random_pairs,
    settings_of,
)
from transformers import TrainerCallback

from ap_ranker.training.distill import distill
from ap_ranker.training.train import train

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]

DEVICE = "cuda"


@pytest.mark.parametrize("precision", ["off", "bf16"])
@pytest.mark.parametrize("objective", SHOWN)
@pytest.mark.parametrize("name", LEARNERS)
def test_every_model_learns_by_every_objective(name: str, objective: str, precision: Any, tmp_path: Path) -> None:
    config = settings_of(name, tmp_path, objective=objective, mixed_precision=precision)
    result, losses = learnt(random_pairs(), config, tmp_path)
    check_falling(losses)
    assert all(weight.isfinite().all() for weight in result.ranker.model.state_dict().values())


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_learn_three_classes(name: str, precision: Any, tmp_path: Path) -> None:
    config = settings_of(name, tmp_path, objective="pointwise", mixed_precision=precision)
    check_falling(learnt(random_classes(), config, tmp_path)[1])


@pytest.mark.parametrize("name", LEARNERS)
def test_losses_in_float32_are_those_of_a_cpu(name: str, tmp_path: Path) -> None:
    """The same batches; the library of a GPU's LSTMs multiplies in TF32, which has 10 bits behind the point."""
    config = settings_of(name, tmp_path, mixed_precision="off", learning_rate=0.001, encoder_learning_rate=0.001)
    on_gpu, on_cpu = (learnt(random_pairs(), config, tmp_path, device)[1] for device in (DEVICE, "cpu"))
    assert on_gpu == pytest.approx(on_cpu, rel=0.01, abs=0.003)


@pytest.mark.parametrize("precision", ["auto", "fp16"])
@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_learnt_ranks_from_every_cache(name: str, precision: Any, tmp_path: Path) -> None:
    """As on a CPU, cold and warm."""
    config, data = settings_of(name, tmp_path, mixed_precision=precision), random_pairs()
    check_falling(learnt(data, config, tmp_path)[1])
    check_every_cache(tmp_path / f"run-{DEVICE}", data)


def test_a_frozen_encoder(tmp_path: Path) -> None:
    """What it has read is kept in the GPU's memory."""
    result, losses = learnt(random_pairs(), settings_of("ap-transformer", tmp_path, effort="quick"), tmp_path)
    check_falling(losses)
    assert result.ranker.device.type == torch.device(DEVICE).type


@pytest.mark.parametrize("student", ["ap-cnn", "bimpm"])
def test_distillation(student: str, tmp_path: Path) -> None:
    learnt(random_pairs(), settings_of("ap-bilstm", tmp_path), tmp_path)
    losses = Losses()
    config = settings_of(student, tmp_path, taught_answers=2, augmented_questions=0)
    data, output = random_pairs(), tmp_path / "student"
    distill(tmp_path / f"run-{DEVICE}", data, data, output, config, device=DEVICE, callbacks=(losses,))
    check_falling(losses.found)


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    class Stop(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            raise KeyboardInterrupt

    config, data = settings_of("qa-bilstm", tmp_path), random_pairs()
    expected, _ = learnt(data, config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(data, data, tmp_path / "c", config, device=DEVICE, callbacks=(Stop(),))
    found = train(data, data, tmp_path / "c", config, device=DEVICE, resume=True)
    for name, weight in expected.ranker.model.state_dict().items():
        assert torch.allclose(found.ranker.model.state_dict()[name], weight, atol=1e-3), name
