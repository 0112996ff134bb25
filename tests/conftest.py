"""What several tests share: a tiny trained-format checkpoint, a tiny data set, the benchmark data."""

from __future__ import annotations

import os
from pathlib import Path

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"  # no test may reach for a model hub

import pytest
import torch

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.models.registry import MODELS, build_model
from ap_ranker.ranking.checkpoint import CheckpointConfig, save_checkpoint
from ap_ranker.text.tokenizer import WordTokenizer

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT.parent / "shared" / "data"

SMALL: dict[str, dict[str, int | float]] = {
    "qa-cnn": {"filters": 12, "window": 2},
    "qa-bilstm": {"hidden": 6},
    "ap-cnn": {"filters": 12, "window": 3},
    "ap-bilstm": {"hidden": 6},
}
"""Options that make each model small enough for a test."""

TEXTS = [
    "Where is my parcel?",
    "Open the tracking link in your e-mail to see where your parcel is.",
    "How do I get my money back?",
    "Send the goods to us; the refund arrives within five days.",
    "Which battery fits my bike?",
    "Only the original battery fits; its number stands on the frame.",
]


@pytest.fixture(params=sorted(MODELS))
def name(request: pytest.FixtureRequest) -> str:
    """Every registered model in turn."""
    return str(request.param)


@pytest.fixture
def tokenizer() -> WordTokenizer:
    return WordTokenizer.build(TEXTS, max_tokens=20)


def make_model(name: str, vocabulary_size: int, seed: int = 0, dropout: float = 0.0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return build_model(name, vocabulary_size, 8, {**SMALL[name], "dropout": dropout}).eval()


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained AP-CNN checkpoint; its scores differ between texts, which is all most tests need."""
    return write_checkpoint("ap-cnn", tmp_path_factory.mktemp("checkpoints") / "tiny")


def write_checkpoint(name: str, folder: Path) -> Path:
    tokenizer = WordTokenizer.build(TEXTS, max_tokens=20)
    options = {**SMALL[name], "dropout": 0.0}
    model = make_model(name, len(tokenizer))
    save_checkpoint(folder, CheckpointConfig(name, options, 8, 20, {}), model, tokenizer, "# card\n")
    return folder


@pytest.fixture
def pairs() -> Dataset:
    """Three questions, each with its own answer."""
    answers = [Answer(str(i), text) for i, text in enumerate(TEXTS[1::2])]
    return Dataset("pairs", answers, [Question(str(i), text, (i,)) for i, text in enumerate(TEXTS[0::2])])


@pytest.fixture
def benchmarks() -> Path:
    """The benchmark data, which is not part of the project."""
    if not BENCHMARKS.is_dir():
        pytest.skip("the benchmark data is not here")
    return BENCHMARKS
