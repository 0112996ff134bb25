"""Training runs of seconds, of every model by every objective: what they learn from, their settings and losses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
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
from ap_ranker.training.objectives import OBJECTIVES
from ap_ranker.training.train import TrainingResult, train

LEARNERS = [name for name, spec in MODELS.items() if OBJECTIVES[spec.objective].needs_gradient]
SHOWN = [name for name, spec in OBJECTIVES.items() if spec.needs_gradient and not spec.needs_teacher]
CLASSIFIERS = [name for name in LEARNERS if "classes" in MODELS[name].options]

TOPICS = ["parcel", "refund", "battery", "helmet", "invoice", "account", "brake", "lease"]


def of_topics(*patterns: str) -> Dataset:
    """Of each topic an answer, and the questions of these patterns."""
    answers = [Answer(topic, f"all about the {topic} we know") for topic in TOPICS]
    asked = [(row, topic, number) for row, topic in enumerate(TOPICS) for number in range(len(patterns))]
    return Dataset("tiny", answers, [Question(f"{t}-{i}", patterns[i].format(t), (row,)) for row, t, i in asked])


class StopAfter(TrainerCallback):
    """A run that is killed when an epoch's state has been saved."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if round(state.epoch) == self.epoch:
            raise KeyboardInterrupt


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


def settings_of(name: str, folder: Path, **others: Any) -> TrainingConfig:
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
    data: Dataset, config: TrainingConfig, folder: Path, device: str = "cuda"
) -> tuple[TrainingResult, list[float]]:
    losses = Losses()
    result = train(data, data, folder / f"run-{device}", config, device=device, callbacks=(losses,))
    return result, losses.found


def check_falling(losses: list[float]) -> None:
    assert len(losses) == STEPS
    assert all(map(math.isfinite, losses))
    assert losses[-1] < losses[0]


def check_every_cache(folder: Path, data: Dataset, device: str = "cuda") -> None:
    """The checkpoint ranks from states of every dtype as on a CPU, cold and warm."""
    answers = [answer.text for answer in data.answers]
    for dtype in StateDtype:
        gpu, cpu = (Ranker.from_pretrained(folder, each, cache=EncodingCache(10**7, dtype)) for each in (device, "cpu"))
        tolerance = {StateDtype.int8: 0.05, StateDtype.int4: 0.3}.get(gpu.stored_dtype, 0.005)
        for question in data.questions[:2]:
            cold, warm = (gpu.score(question.text, answers) for _ in range(2))
            expected = cpu.score(question.text, answers)
            spread = float(expected.max() - expected.min()) + 1.0
            assert torch.allclose(cold, expected, rtol=0, atol=tolerance * spread)
            assert torch.allclose(warm, cold, rtol=0, atol=1e-3 * spread)
