"""A run that a GPU began goes on where there is none, and the other way round."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from pretended_cuda import pretended_gpu
from small_runs import Losses, StopAfter, random_pairs, settings_of

from ap_ranker.training.train import train

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture
def gpu() -> None:
    """Each part of a run has its own, or none."""


def machine(device: str) -> AbstractContextManager[None]:
    return pretended_gpu() if device == "cuda" else nullcontext()


@pytest.mark.parametrize(
    ("first", "then", "precision"),
    [
        ("cuda", "cpu", "auto"),
        ("cpu", "cuda", "fp16"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [("cuda", "cpu", "fp16"), ("cpu", "cuda", "auto")]),
    ],
)
def test_on_another_device(first: str, then: str, precision: Any, tmp_path: Path) -> None:
    config, data = settings_of("qa-bilstm", tmp_path, epochs=3, mixed_precision=precision), random_pairs()
    with machine(first), pytest.raises(KeyboardInterrupt):
        train(data, data, tmp_path / "c", config, device=first, callbacks=(StopAfter(1),))
    losses = Losses()
    with machine(then):
        train(data, data, tmp_path / "c", config, device=then, resume=True, callbacks=(losses,))
    assert len(losses.found) == 2
    assert all(map(math.isfinite, losses.found))
