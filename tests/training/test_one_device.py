"""Which GPU trains, on a machine that pretends to have two."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import refused
from sentence_transformers import SentenceTransformerTrainingArguments
from transformers import TrainingArguments

from ap_ranker.ranking import ranker as ranker_module
from ap_ranker.ranking.ranker import resolve_device
from ap_ranker.training import peers, trainer
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.distributed import mention_other_gpus
from ap_ranker.training.resume_folder import ResumeFolder

FIRST, SECOND = torch.device("cuda", 0), torch.device("cuda", 1)


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """Two GPUs that only tell their number; the list of those that were made the current one."""
    set_devices = [FIRST]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_, **__: False)  # transformers would remember it
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: set_devices[-1].index)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: set_devices.append(torch.device(device)))
    monkeypatch.setattr(ranker_module.torch, "empty", lambda *_, **__: None)
    return set_devices


def arguments_for(device: torch.device, folder: Path) -> TrainingArguments:
    config = TrainingConfig("ap-cnn", epochs=1)
    recipe = config.training_recipe(judged=False, questions_per_answer=1.0, with_teacher=False)
    return trainer._arguments(ResumeFolder(folder / "c"), config, recipe, device)


@pytest.mark.parametrize("device", [FIRST, SECOND], ids=str)
def test_one_gpu_of_two_trains(current: list[torch.device], device: torch.device, tmp_path: Path) -> None:
    """The ranker's: the Trainer moves the model and the batches there, and accelerate to the current one."""
    arguments = arguments_for(device, tmp_path)
    assert (arguments.device, arguments.n_gpu, current[-1]) == (device, 1, device)
    assert arguments.train_batch_size == arguments.per_device_train_batch_size


@pytest.mark.parametrize(("recipe", "clipped"), [("ours", 5.0), ("paper", 0.0)])
def test_no_paper_shortens_gradients(recipe: Any, clipped: float, tmp_path: Path) -> None:
    config = TrainingConfig("ap-cnn", recipe=recipe, epochs=1)
    chosen, cpu = config.training_recipe(judged=False), torch.device("cpu")
    assert trainer._arguments(ResumeFolder(tmp_path / "c"), config, chosen, cpu).max_grad_norm == clipped


@pytest.mark.parametrize("wanted", ["auto", "off", "bf16", "fp16"])
@pytest.mark.parametrize("device", [FIRST, torch.device("cpu")], ids=str)
@pytest.mark.parametrize("has_bfloat16", [True, False])
def test_what_a_gpu_multiplies_in(
    current: list[torch.device],
    wanted: Any,
    device: torch.device,
    has_bfloat16: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A CPU trains in float32; by default a GPU does, too, unless it has bfloat16 itself."""
    emulated = {"including_emulation": True}
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **how: has_bfloat16 or (how or emulated) == emulated)
    monkeypatch.setattr(trainer, "OnOneDevice", dict)
    config = TrainingConfig("ap-cnn", epochs=1, mixed_precision=wanted)
    found: Any = trainer._arguments(ResumeFolder(tmp_path / "c"), config, config.training_recipe(judged=False), device)
    chosen = {"auto": "bf16" if has_bfloat16 else "off"}.get(wanted, wanted) if device == FIRST else "off"
    assert (found["bf16"], found["fp16"]) == (chosen == "bf16", chosen == "fp16")


def test_peers_train_there_too(current: list[torch.device], tmp_path: Path) -> None:
    arguments = peers._arguments(
        SentenceTransformerTrainingArguments, folder=tmp_path, seed=0, device=SECOND, recipe=peers.RECIPE
    )
    assert (arguments.device, arguments.n_gpu, current[-1]) == (SECOND, 1, SECOND)


def test_a_cpu_beside_gpus(current: list[torch.device], tmp_path: Path) -> None:
    arguments = arguments_for(torch.device("cpu"), tmp_path)
    assert (arguments.device, arguments.n_gpu, current) == (torch.device("cpu"), 0, [FIRST])


@pytest.mark.parametrize(("name", "found"), [(None, FIRST), ("auto", FIRST), ("cuda", FIRST), ("cuda:1", SECOND)])
def test_a_gpu_has_its_number(current: list[torch.device], name: str | None, found: torch.device) -> None:
    """Without one, `cuda` would be another GPU as soon as training makes that the current one."""
    assert resolve_device(name) == found


def test_the_current_gpu_is_taken(current: list[torch.device]) -> None:
    torch.cuda.set_device(SECOND)
    assert resolve_device("auto") == SECOND


@pytest.mark.parametrize("name", [None, "auto", "cuda"])
def test_each_process_of_torchrun_has_its_own(
    current: list[torch.device], name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, device in (("0", FIRST), ("1", SECOND), ("2", FIRST)):
        monkeypatch.setenv("LOCAL_RANK", number)
        assert resolve_device(name) == device


def test_torchrun_and_a_chosen_gpu(
    current: list[torch.device], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "0")
    with refused("--device … auto … cuda … torchrun … cuda:1"):
        arguments_for(SECOND, tmp_path)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_sentence_names_torchrun(current: list[torch.device], caplog: pytest.LogCaptureFixture) -> None:
    mention_other_gpus(SECOND)
    assert warnings_of(caplog) == [
        "Training on cuda:1, one of 2 GPUs. To share the work among all of them, start the command as "
        "torchrun --nproc-per-node 2 -m ap_ranker train ..."
    ]


@pytest.mark.parametrize("situation", ["cpu", "one GPU", "torchrun"])
def test_no_sentence_where_it_would_not_help(
    current: list[torch.device], situation: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if situation == "one GPU":
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    if situation == "torchrun":
        monkeypatch.setenv("LOCAL_RANK", "0")
    mention_other_gpus(torch.device("cpu") if situation == "cpu" else FIRST)
    assert not warnings_of(caplog)
