"""Every model learns on a GPU, by every objective and in every precision, and ranks what it has learnt."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import write_encoder
from naive import SMALL
from transformers import TrainerCallback

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.models.registry import MODELS
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.distill import distill
from ap_ranker.training.objectives import OBJECTIVES
from ap_ranker.training.train import TrainingResult, train

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]

DEVICE = "cuda"

LEARNERS = [name for name, spec in MODELS.items() if OBJECTIVES[spec.objective].needs_gradient]
SHOWN = [name for name, spec in OBJECTIVES.items() if spec.needs_gradient and not spec.needs_teacher]
CLASSIFIERS = [name for name in LEARNERS if "classes" in MODELS[name].options]

STEPS = 12
"""Each with all pairs, so that the losses of two steps can be compared."""


def random_pairs() -> Dataset:
    """Twelve questions, each sharing a word with its own answer among words that tell nothing."""
    rng = np.random.default_rng(0)
    noise = [f"noise{i}" for i in range(20)]

    def text(word: str, length: int) -> str:
        return " ".join(rng.permutation([word, *rng.choice(noise, length - 1)]))

    answers = [Answer(str(i), text(f"answer{i}", int(rng.integers(4, 15)))) for i in range(12)]
    questions = [Question(str(i), text(f"answer{i}", int(rng.integers(1, 8))), (i,)) for i in range(12)]
    return Dataset("random", answers, questions)


def random_classes() -> Dataset:
    """The same texts, of which each question has four candidates of three classes."""
    data = random_pairs()
    questions = []
    for row, question in enumerate(data.questions):
        rows = (row, (row + 1) % 12, (row + 5) % 12, (row + 8) % 12)
        questions.append(Question(question.id, question.text, (row,), rows, (2, 0, 1, 0)))
    return Dataset("classes", data.answers, questions, judged=True, classes=("bad", "potential", "good"))


class Losses(TrainerCallback):
    """The loss of each epoch."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        self.found += [logs["loss"]] if "loss" in logs else []


def settings(name: str, folder: Path, **others: Any) -> TrainingConfig:
    """Small, quick to learn, and without dropout, so that losses tell something."""
    chosen = {**SMALL[name], "dropout": 0.0}
    if MODELS[name].pretrained:
        data = random_pairs()
        texts = [each.text for each in (*data.questions, *data.answers)]
        chosen["encoder"] = str(write_encoder(folder / "encoder", texts))
    rates = {"learning_rate": 0.01, "encoder_learning_rate": 0.01}
    shape = {
        "epochs": STEPS,
        "patience": STEPS,
        "batch_size": 12,
        "max_tokens": 20,
        "negatives": 4,
        "embedding_size": 8,
    }
    known = {key: value for key, value in chosen.items() if key in MODELS[name].options}
    return TrainingConfig(name, known, answer_sentences=False, group_answers=False, **{**rates, **shape, **others})


def learnt(
    data: Dataset, config: TrainingConfig, folder: Path, device: str = DEVICE
) -> tuple[TrainingResult, list[float]]:
    losses = Losses()
    result = train(data, data, folder / f"run-{device}", config, device=device, callbacks=(losses,))
    return result, losses.found


def check_falling(losses: list[float]) -> None:
    assert len(losses) == STEPS
    assert all(map(math.isfinite, losses))
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("precision", ["off", "bf16"])
@pytest.mark.parametrize("objective", SHOWN)
@pytest.mark.parametrize("name", LEARNERS)
def test_every_model_learns_by_every_objective(name: str, objective: str, precision: Any, tmp_path: Path) -> None:
    config = settings(name, tmp_path, objective=objective, mixed_precision=precision)
    result, losses = learnt(random_pairs(), config, tmp_path)
    check_falling(losses)
    assert all(weight.isfinite().all() for weight in result.ranker.model.state_dict().values())


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_learn_three_classes(name: str, precision: Any, tmp_path: Path) -> None:
    config = settings(name, tmp_path, objective="pointwise", mixed_precision=precision)
    check_falling(learnt(random_classes(), config, tmp_path)[1])


@pytest.mark.parametrize("name", LEARNERS)
def test_losses_in_float32_are_those_of_a_cpu(name: str, tmp_path: Path) -> None:
    """The same batches; the library of a GPU's LSTMs multiplies in TF32, which has 10 bits behind the point."""
    config = settings(name, tmp_path, mixed_precision="off", learning_rate=0.001, encoder_learning_rate=0.001)
    on_gpu, on_cpu = (learnt(random_pairs(), config, tmp_path, device)[1] for device in (DEVICE, "cpu"))
    assert on_gpu == pytest.approx(on_cpu, rel=0.01, abs=0.003)


@pytest.mark.parametrize("precision", ["auto", "fp16"])
@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_learnt_ranks_from_every_cache(name: str, precision: Any, tmp_path: Path) -> None:
    """As on a CPU, cold and warm."""
    config, data = settings(name, tmp_path, mixed_precision=precision), random_pairs()
    check_falling(learnt(data, config, tmp_path)[1])
    answers = [answer.text for answer in data.answers]
    rankers = partial(Ranker.from_pretrained, tmp_path / f"run-{DEVICE}")
    for dtype in StateDtype:
        gpu, cpu = (rankers(device, cache=EncodingCache(10**7, dtype)) for device in (DEVICE, "cpu"))
        tolerance = {StateDtype.int8: 0.05, StateDtype.int4: 0.3}.get(gpu.stored_dtype, 0.005)
        for question in data.questions[:2]:
            cold, warm = (gpu.score(question.text, answers) for _ in range(2))
            expected = cpu.score(question.text, answers)
            spread = float(expected.max() - expected.min()) + 1.0
            assert torch.allclose(cold, expected, rtol=0, atol=tolerance * spread)
            assert torch.allclose(warm, cold, rtol=0, atol=1e-3 * spread)


def test_a_frozen_encoder(tmp_path: Path) -> None:
    """What it has read is kept in the GPU's memory."""
    result, losses = learnt(random_pairs(), settings("ap-transformer", tmp_path, effort="quick"), tmp_path)
    check_falling(losses)
    assert result.ranker.device.type == torch.device(DEVICE).type


@pytest.mark.parametrize("student", ["ap-cnn", "bimpm"])
def test_distillation(student: str, tmp_path: Path) -> None:
    learnt(random_pairs(), settings("ap-bilstm", tmp_path), tmp_path)
    losses = Losses()
    config = settings(student, tmp_path, taught_answers=2, augmented_questions=0)
    data, output = random_pairs(), tmp_path / "student"
    distill(tmp_path / f"run-{DEVICE}", data, data, output, config, device=DEVICE, callbacks=(losses,))
    check_falling(losses.found)


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    class Stop(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            raise KeyboardInterrupt

    config, data = settings("qa-bilstm", tmp_path), random_pairs()
    expected, _ = learnt(data, config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(data, data, tmp_path / "c", config, device=DEVICE, callbacks=(Stop(),))
    found = train(data, data, tmp_path / "c", config, device=DEVICE, resume=True)
    for name, weight in expected.ranker.model.state_dict().items():
        assert torch.allclose(found.ranker.model.state_dict()[name], weight, atol=1e-3), name
