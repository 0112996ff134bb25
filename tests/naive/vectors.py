"""One vector per text, as it is stored."""

from __future__ import annotations

from collections.abc import Sequence


def rounded(vector: Sequence[float]) -> list[float]:
    """A vector in 127ths of its largest number, at length 1."""
    largest = max(map(abs, vector))
    numbers = [round(x / largest * 127) for x in vector]
    length = sum(x * x for x in numbers) ** 0.5
    return [x / length for x in numbers]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Of two vectors of length 1."""
    return sum(x * y for x, y in zip(one, other, strict=True))
