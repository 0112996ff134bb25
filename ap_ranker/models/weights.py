"""Weights in safetensors: what a file holds before any of it is read, and whether its numbers are numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ap_ranker.errors import InputError, one_line

Shapes = Mapping[str, tuple[int, ...]]

CALLS_PER_TENSOR, CALLS = 200, 10_000
"""Calls of torch that building a model takes at most: for each of its tensors, and beside. BERT takes 60 a tensor."""


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a file, from its header alone.

    Raises:
        SafetensorError, OSError: it is damaged, or cannot be read.
    """
    with safe_open(path, "pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (not a mapping)


def difference(expected: Shapes, found: Shapes) -> str:
    """In what the shapes that a model has differ from those of a file; empty if in nothing."""
    names = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
    if not names:
        return ""
    here, there = (list(shapes[names[0]]) if names[0] in shapes else "none" for shapes in (expected, found))
    return f"{one_line(names[0])}: expected {here}, found {there}; {len(names)} tensors differ"


def check_finite(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Refuse weights that are no numbers.

    Raises:
        InputError: one is NaN or infinite.
    """
    for name, value in weights.items():
        if not value.isfinite().all():
            raise InputError(
                f"{path}: expected finite numbers, but in {one_line(name)} {int((~value.isfinite()).sum()):,} of "
                f"{value.numel():,} are not: the training failed, or the file is damaged."
            )


class _Counted(TorchFunctionMode):
    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.left -= 1
        if self.left < 0:
            raise InputError("expected a model of no more layers than its weights have, found more")
        return func(*args, **(kwargs or {}))


@contextmanager
def planned(tensors: int) -> Iterator[None]:
    """Within, this thread builds models without memory for their weights, and none of many more tensors than these.

    Raises:
        InputError: one of more was about to be built.
    """
    with torch.device("meta"), _Counted(CALLS + CALLS_PER_TENSOR * tensors):
        yield
