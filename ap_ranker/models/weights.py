"""Checks of safetensors files: tensor shapes before loading, and finite numbers after it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ap_ranker.errors import InputError, library_errors, one_line
from ap_ranker.safe_open import require_file

Shapes = Mapping[str, tuple[int, ...]]

CALLS_PER_TENSOR = 200
CALLS = 10_000
"""Maximum number of torch calls for building a model: per tensor, plus a constant. BERT takes 60 per tensor."""


MAX_HEADER = 4 * 2**20
"""Maximum size of the list of a file's tensors in bytes: of 100,000 bytes for the 300 tensors of a large encoder, the
library makes ten times as much in memory."""

SPARSE = 2**20
"""Bytes above which a file must be on the disk: one with holes takes none there, and gigabytes in memory."""


def check_weights_file(path: Path) -> None:
    """Refuse what is no file, or has holes in the place of numbers (InputError); SafetensorError for many tensors."""
    require_file(path)
    status = path.stat()
    with path.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    if header > MAX_HEADER:
        raise SafetensorError(f"a list of tensors of {header:,} bytes, above {MAX_HEADER:,}")
    on_disk = getattr(status, "st_blocks", status.st_size // 512 + 1) * 512  # Windows does not say
    if status.st_size > SPARSE and on_disk < status.st_size // 4:
        raise InputError(f"{path}: expected {status.st_size:,} bytes on the disk, found holes. Copy the whole file.")


def load_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a file; raises InputError, SafetensorError or OSError."""
    check_weights_file(path)
    return load_file(path)


def number_of_weights(shapes: Shapes) -> int:
    """How many numbers tensors of these shapes have together."""
    return sum(map(math.prod, shapes.values()))


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a file, read from its header only; raises as `load_weights`."""
    check_weights_file(path)
    with safe_open(path, "pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (not a mapping)


def difference(expected: Shapes, stored: Shapes) -> str:
    """Describe how a file's shapes differ from those of the model; empty if they do not."""
    names = [name for name in {**expected, **stored} if expected.get(name) != stored.get(name)]
    if not names:
        return ""
    name = names[0]
    own = list(expected[name]) if name in expected else "none"
    other = list(stored[name]) if name in stored else "none"
    return f"{one_line(name)}: expected {own}, found {other}; {len(names)} tensors differ"


def load_shaped(module: nn.Module, path: Path) -> None:
    """Load a module's weights; InputError for another shape, a number that is not finite, or no such file."""
    with library_errors(f"{path}: expected the weights of a {type(module).__name__} module in safetensors"):
        weights = load_weights(path)
        check_finite(path, weights)
        module.load_state_dict(weights)


def is_finite(numbers: Tensor) -> bool:
    """Whether no number is NaN or infinite; in parts, as copies of a large vocabulary take half a gigabyte."""
    return all(bool(part.isfinite().all()) for part in numbers.flatten().split(2**20))


def check_finite(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Raise InputError if a weight is NaN or infinite."""
    for name, value in weights.items():
        if not is_finite(value):
            raise InputError(
                f"{path}: expected finite numbers, but in {one_line(name)} {int((~value.isfinite()).sum()):,} of "
                f"{value.numel():,} are not: the training failed, or the file is damaged."
            )


def check_kinds(path: Path, weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise InputError if whole or complex numbers are stored for fractions: nothing good would be made of them."""
    for name, value in weights.items():
        if name in expected and expected[name].is_floating_point() and not value.is_floating_point():
            reason = f"in {one_line(name)} found {str(value.dtype).removeprefix('torch.')}"
            raise InputError(
                f"{path}: expected numbers in floating point, {reason}. Take the weights as they were saved."
            )


RANDOM = {"normal_", "uniform_", "trunc_normal_", "orthogonal_", "kaiming_uniform_", "xavier_uniform_"}
"""Functions of torch that fill a tensor with random numbers: 22 million take longer than reading as many weights does,
and on the meta device they import torch's compiler."""


class Unfilled(TorchFunctionMode):
    """A context in which models' weights begin as anything, to be read afterwards; InputError for many more tensors."""

    def __init__(self, tensors: float = math.inf) -> None:
        super().__init__()
        self.remaining = CALLS + CALLS_PER_TENSOR * tensors

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.remaining -= 1
        if self.remaining < 0:
            raise InputError("expected a model of no more layers than its weights have, found more")
        if getattr(func, "__name__", "") in RANDOM:
            if "tensor" in kwargs:
                return kwargs["tensor"]
            # `trunc_normal_` gives a generator, and draws again until no number is out of its bounds.
            if "generator" in kwargs:
                return args[0].zero_()
            return args[0]
        return func(*args, **kwargs)
