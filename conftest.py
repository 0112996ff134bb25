"""What several tests share: a tiny trained-format checkpoint, a tiny data set, the benchmark data."""

from __future__ import annotations

import csv
import gc
import importlib.util
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"  # no test may reach for a model hub

import pytest
import torch
from hypothesis import settings
from naive import SMALL
from naive.ap_transformer import TINY
from transformers import AutoConfig, AutoModel

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.models import transformer_encoder
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.registry import MODELS, build_model, complete_options
from ap_ranker.models.spec import Inputs, Recipe
from ap_ranker.ranking import loaded_checkpoints
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import (
    TOKENIZER,
    CheckpointConfig,
    read_checkpoint_config,
    save_checkpoint,
    write_checkpoint_config,
)
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import WordTokenizer
from ap_ranker.training.config import TrainingConfig

settings.register_profile("any machine", deadline=None)  # a busy one misses 200 ms now and then
settings.load_profile("any machine")

ROOT = Path(__file__).parent
BENCHMARKS = ROOT.parent / "shared" / "data"


ENGINE_FOLDER = "AP_RANKER_TEST_ENGINE"
"""The variable of the environment for the folder of an Elasticsearch that all processes of a run share."""


def pytest_configure() -> None:
    """The first process of a run names the folder to all others."""
    if ENGINE_FOLDER not in os.environ:
        os.environ[ENGINE_FOLDER] = tempfile.mkdtemp(prefix="ap-ranker-engine-")
        _ours.append(Path(os.environ[ENGINE_FOLDER]))


_ours: list[Path] = []


def pytest_sessionfinish() -> None:
    """The process that named the folder ends what runs there."""
    for folder in _ours:
        if (folder / "node" / "cluster.json").exists():
            from elastic.engine import Engine

            Engine(folder / "node", []).stop()
        shutil.rmtree(folder, ignore_errors=True)


def pytest_collectstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores, since tests wait for servers, browsers and clocks."""
    return max(1, (os.cpu_count() or 1) * 3 // 2)


@pytest.fixture(scope="session", autouse=True)
def without_power_cuts() -> Iterator[None]:
    """No test cuts the power, against which files are written through to the disk, which takes milliseconds each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def frozen() -> None:
    """The garbage collector need not look through all modules and thousands of tests again and again."""
    gc.collect()
    gc.freeze()


def settings_of(declared: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Those of the `retriever` and of the `ranker` of a packaged pipeline, as its file declares it."""
    parts = declared["components"]["search"]["init_parameters"]
    return {name: part["init_parameters"] for name, part in parts.items()}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's cache is a folder that no other test uses; it is there once something is kept."""
    folder = tmp_path_factory.getbasetemp() / f"cache-{uuid.uuid4().hex}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    loaded_checkpoints._loaded.clear()  # rankers of another test may live on, and would share what they encoded
    return folder


@pytest.fixture(autouse=True)
def in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformers compute the same on every machine that runs the tests."""
    monkeypatch.setattr(transformer_encoder, "multiplies_bfloat16", lambda: False)


@pytest.fixture(scope="session")
def forking() -> None:
    """What all processes are forked from is there, with the imports of all tests, before a server begins it."""
    import forked

    forked.run("")


TEXTS = [
    "Where is my parcel?",
    "Open the tracking link in your e-mail to see where your parcel is.",
    "How do I get my money back?",
    "Send the goods to us; the refund arrives within five days.",
    "Which battery fits my bike?",
    "Only the original battery fits; its number stands on the frame.",
]


@contextmanager
def imported(script: Path) -> Iterator[ModuleType]:
    """A script as a module, under a name with its folder's: several examples have a run.py."""
    spec = importlib.util.spec_from_file_location(f"{script.parent.name}_{script.stem}", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look their annotations up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(params=sorted(MODELS))
def name(request: pytest.FixtureRequest) -> str:
    """Every registered model in turn."""
    return str(request.param)


@pytest.fixture
def tokenizer() -> WordTokenizer:
    return WordTokenizer.build(TEXTS, max_tokens=20)


def encoder_of(name: str) -> dict[str, Any] | None:
    """The architecture that a model reads with, if it reads with a pretrained encoder."""
    return TINY if MODELS[name].pretrained else None


def write_encoder(folder: Path, texts: Sequence[str] = TEXTS, **architecture: Any) -> Path:
    """A pretrained encoder of random weights, as transformers stores one; its tokens are the words of `texts`.

    Its numbers are those of half precision, in which checkpoints store them.
    """
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.for_model(**(TINY | architecture))).half().float().save_pretrained(folder)
    WordTokenizer.build(texts, max_tokens=20).save(folder / TOKENIZER)
    return folder


def make_model(
    name: str,
    words: Sequence[str],
    options: Mapping[str, Any] | None = None,
    *,
    max_tokens: int = 20,
    seed: int = 0,
    dropout: float = 0.0,
) -> AnswerModel:
    """A small model with random weights; by default with the options of its first naive case."""
    torch.manual_seed(seed)
    chosen = dict(SMALL[name] if options is None else options)
    if "dropout" in MODELS[name].options:
        chosen["dropout"] = dropout
    model = build_model(name, Inputs(words, 8, max_tokens, encoder_of(name)), chosen).eval()
    if model.statistics is not None:
        model.statistics.count([[2, 3, 4, 3], [4, 5, 6], [7, 2, 8, 9, 9], [4, 1], [3, 4, 10]])
    return model


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a learning rate of 10, the highest there is, the first step leads to numbers that overflow."""
    recipe = TrainingConfig.training_recipe

    def steep(self: TrainingConfig, **facts: Any) -> Recipe:
        found = recipe(self, **facts)
        steps = {"learning_rate": 1e30, "encoder_learning_rate": 1e30}
        return replace(found, **steps) if found.learning_rate == 10 else found

    monkeypatch.setattr(TrainingConfig, "training_recipe", steep)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained AP-CNN checkpoint; its scores differ between texts, which is all most tests need."""
    return write_checkpoint("ap-cnn", tmp_path_factory.mktemp("checkpoints") / "tiny")


def write_checkpoint(name: str, folder: Path, options: Mapping[str, Any] | None = None, **fields: Any) -> Path:
    """Of random weights; `fields` are of its configuration."""
    tokenizer = WordTokenizer.build(TEXTS, max_tokens=20)
    model = make_model(name, tokenizer.words, options)
    chosen = complete_options(name, SMALL[name] if options is None else options)
    config = replace(CheckpointConfig(name, chosen, 8, 20, {}, encoder=encoder_of(name)), **fields)
    save_checkpoint(folder, config, model, tokenizer, "# card\n")
    return folder


def reconfigure(folder: Path, **changed: Any) -> Path:
    """The checkpoint, after these fields of its configuration were changed."""
    write_checkpoint_config(folder, replace(read_checkpoint_config(folder), **changed))
    return folder


def exact_ranker(folder: Path) -> Ranker:
    """A ranker whose states are not rounded as its checkpoint stores them."""
    return Ranker.from_pretrained(folder, "cpu", cache=EncodingCache(0, StateDtype.float32))


def write_faq(path: Path) -> Path:
    """A FAQ file of three entries."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *zip(TEXTS[::2], TEXTS[1::2], strict=True)])
    return path


@pytest.fixture
def faq(tmp_path: Path) -> Path:
    return write_faq(tmp_path / "FAQ.csv")


PAIRS = Dataset(
    "pairs",
    [Answer(str(i), text) for i, text in enumerate(TEXTS[1::2])],
    [Question(str(i), text, (i,)) for i, text in enumerate(TEXTS[0::2])],
)
"""Three questions, each with its own answer."""


@pytest.fixture
def pairs() -> Dataset:
    return PAIRS


@pytest.fixture
def benchmarks() -> Path:
    """The benchmark data, which is not part of the project."""
    if not BENCHMARKS.is_dir():
        pytest.skip("the benchmark data is not here")
    return BENCHMARKS
