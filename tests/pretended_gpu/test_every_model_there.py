"""Every model trains on a GPU, in every precision and by every objective, and ranks there from every kind of cache.

The same as tests/gpu, which needs a real one.
"""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pretended_cuda import GPUTensor
from small_runs import (
    CLASSIFIERS,
    LEARNERS,
    SHOWN,
    check_every_cache,
    check_falling,
    learnt,
    random_classes,
    random_pairs,
    settings_of,
)

from ap_ranker.models.registry import MODELS

PRECISIONS = ["bf16", pytest.param("off", marks=pytest.mark.slow), pytest.param("fp16", marks=pytest.mark.slow)]
"""The first is what a GPU has by default."""

COUNTS = sorted(set(MODELS) - set(LEARNERS))

SLOW = [
    pytest.param(name, objective, id=f"{name}-{objective}", marks=pytest.mark.slow)
    for name, objective in product(LEARNERS, SHOWN)
    if objective != MODELS[name].objective
]
OWN = [pytest.param(name, MODELS[name].objective, id=name) for name in LEARNERS]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("name", "objective"), [*OWN, *SLOW])
def test_two_steps(name: str, objective: str, precision: Any, tmp_path: Path) -> None:
    """The first changes the loss, unless loss scaling leaves it out; the checkpoint ranks there as on a CPU."""
    config = settings_of(name, tmp_path, objective=objective, mixed_precision=precision, epochs=2)
    result, losses = learnt(random_pairs(), config, tmp_path)
    assert all(map(math.isfinite, losses))
    assert len(set(losses)) == 2 or precision == "fp16"
    weights = result.ranker.model.state_dict().values()
    assert all(isinstance(weight, GPUTensor) and weight.isfinite().all() for weight in weights)
    if precision == "bf16":  # for one of them: ranking is in float32 always
        check_every_cache(tmp_path / "run-cuda", random_pairs())


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_step_of_three_classes(name: str, precision: Any, tmp_path: Path) -> None:
    config = settings_of(name, tmp_path, objective="pointwise", mixed_precision=precision, epochs=1)
    _, [loss] = learnt(random_classes(), config, tmp_path)
    assert math.isfinite(loss)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", [name for name in LEARNERS if MODELS[name].recipe.own_negatives])
def test_a_step_of_the_papers_hinge(name: str, precision: Any, tmp_path: Path) -> None:
    """Also of classes, the middle one of which is as wrong as the worst."""
    config = settings_of(name, tmp_path, recipe="paper", mixed_precision=precision, epochs=1)
    for data in (random_pairs(), random_classes()):
        _, [loss] = learnt(data, config, tmp_path / data.name)
        assert math.isfinite(loss)
        assert loss > 0


@pytest.mark.parametrize("name", COUNTS)
def test_what_only_counts(name: str, tmp_path: Path) -> None:
    learnt(random_pairs(), settings_of(name, tmp_path), tmp_path)
    check_every_cache(tmp_path / "run-cuda", random_pairs())


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if MODELS[name].pretrained else pytest.mark.slow) for name in LEARNERS]
)
def test_twelve_steps(name: str, precision: Any, tmp_path: Path) -> None:
    """Padding has states of zeros: a gradient of their length that overflows would leave out every step in float16."""
    check_falling(learnt(random_pairs(), settings_of(name, tmp_path, mixed_precision=precision), tmp_path)[1])
