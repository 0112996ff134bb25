"""What a target of the fuzzer is, and how it says that what came out cannot be right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ap_ranker.errors import InputError

from .mutations import mutate_folder


class Nonsense(Exception):  # noqa: N818
    """Something was read without complaint, and is not what the input says."""


def expect(holds: bool, what: str) -> None:
    """Say what is nonsense unless it holds."""
    if not holds:
        raise Nonsense(what)


def expect_finite(*numbers: float | None) -> None:
    """No score, probability or weight is NaN or infinite."""
    for number in numbers:
        expect(isinstance(number, int | float) and abs(number) < math.inf, f"a number that is none: {number!r}")


@dataclass(frozen=True)
class Target:
    """A reader under attack. An input is a folder.

    Attributes:
        name: for reports.
        variants: each writes one kind of valid input into an empty folder.
        use: reads the folder, in which it runs, the way a user's program would; raises `Nonsense` if what it got is
            not what the folder says.
        mutate: damages a valid input.
        refusals: exceptions that a reader may raise: its documented ones.
        weight: how often the target's turn comes; less for the dear ones.
    """

    name: str
    variants: Mapping[str, Callable[[Path], None]]
    use: Callable[[Path], None]
    mutate: Callable[[Path, Random], None] = mutate_folder
    refusals: tuple[type[Exception], ...] = (InputError,)
    weight: int = 2
