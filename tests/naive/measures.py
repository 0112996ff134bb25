"""The measures of a ranking with ties: the mean over every order of the tied candidates, one order after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from math import log2
from statistics import fmean


def orders(scores: Sequence[float]) -> Iterator[list[int]]:
    """Every order of the candidates in which no score follows a lower one."""
    levels = [[row for row, each in enumerate(scores) if each == score] for score in sorted(set(scores), reverse=True)]
    for chosen in product(*map(permutations, levels)):
        yield [row for level in chosen for row in level]


def of_order(hits: Sequence[bool], n_right: int) -> dict[str, float]:
    """The measures of candidates in a fixed order, by their definitions."""
    reciprocal = average = gain = 0.0
    for rank, hit in enumerate(hits, start=1):
        if hit:
            reciprocal = reciprocal or 1 / rank
            average += sum(hits[:rank]) / rank / n_right
            gain += 1 / log2(rank + 1) if rank <= 10 else 0.0
    ideal = sum(1 / log2(rank + 1) for rank in range(1, min(n_right, 10) + 1))
    return {
        "P@1": float(bool(hits) and hits[0]),
        "MRR": reciprocal,
        "MAP": average,
        "nDCG@10": gain / ideal if n_right else 0.0,
    }


def expected(scores: Sequence[float], right: Sequence[bool], n_right: int) -> dict[str, float]:
    """The measures' means over all orders."""
    each = [of_order([right[row] for row in order], n_right) for order in orders(scores)]
    return {name: fmean(values[name] for values in each) for name in ("P@1", "MRR", "MAP", "nDCG@10")}


def expected_success(scores: Sequence[float], right: Sequence[bool], depth: int) -> float:
    """The share of the orders with a right answer among the first `depth`."""
    return fmean(any(right[row] for row in order[:depth]) for order in orders(scores))


def expected_first_rank(scores: Sequence[float], right: Sequence[bool]) -> float:
    """The mean rank of the first right answer."""
    return fmean(1 + next(rank for rank, row in enumerate(order) if right[row]) for order in orders(scores))
