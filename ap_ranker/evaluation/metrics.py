"""P@1, MRR, MAP and nDCG@10 as trec_eval computes them; tied candidates count at their expected value.

Where candidates have equal scores, each measure is its mean over all orders of these, in closed form (McSherry &
Najork, ECIR 2008): whatever stands first in a file gains nothing by it. A level is a set of n candidates with equal
scores, r of them right, t candidates above it, a of these right, out of R right answers in all:

    P(right at place i of the level)          = r / n
    P(none right at the first m places)       = C(n - r, m) / C(n, m)
    E[right ones before place i | right at i] = a + (i - 1) (r - 1) / (n - 1)

and, in the best level with a right answer, where p(m) is P(none right at the first m places):

    E[1 / rank of the first right one]        = sum over i = 1 ... n of (p(i - 1) - p(i)) / (t + i)
    E[rank of the first right one]            = t + (n + 1) / (r + 1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

MEASURES = ("P@1", "MRR", "MAP", "nDCG@10")

NDCG_DEPTH = 10
"""The number of candidates that nDCG counts, from the first one."""


@dataclass(frozen=True)
class Levels:
    """A ranking as its G levels of equal scores, the best first.

    (G,) `sizes` are n of each level, `right_counts` r, and `counts_above` t.
    """

    sizes: NDArray[np.int64]
    right_counts: NDArray[np.int64]
    counts_above: NDArray[np.int64]

    @classmethod
    def of(cls, scores: ArrayLike, right: ArrayLike) -> Levels:
        """The levels of (N,) scores, of which `right` tells the right answers."""
        _, level = np.unique(-np.asarray(scores, dtype=np.float64), return_inverse=True)
        sizes = np.bincount(level)
        right_counts = np.bincount(level, weights=np.asarray(right, dtype=bool)).astype(np.int64)
        return cls(sizes, right_counts, np.cumsum(sizes) - sizes)

    @property
    def _first(self) -> tuple[int, int, int]:
        """n, r and t of the best level with a right answer; zeros if there is none."""
        if not self.right_counts.any():
            return 0, 0, 0
        level = (self.right_counts > 0).argmax()
        return self.sizes[level], self.right_counts[level], self.counts_above[level]

    def success(self, depth: int) -> float:
        """The probability that a right answer is among the first `depth`; 0 without one."""
        n, r, t = self._first
        n_places = max(0, depth - t)  # of the level
        return float(1 - np.prod(_none_right(n, r)[:n_places]))

    def reciprocal_rank(self) -> float:
        """The expected value of one over the rank of the first right answer; 0 without one."""
        n, r, t = self._first
        if not r:
            return 0.0
        none_before = np.concatenate([[1.0], np.cumprod(_none_right(n, r))])
        first_here = none_before[:-1] - none_before[1:]
        return float((first_here / (t + np.arange(1, n + 1))).sum())

    def first_rank(self) -> float | None:
        """The expected rank of the first right answer, from 1; `None` without one."""
        n, r, t = self._first
        if not r:
            return None
        return float(t + (n + 1) / (r + 1))

    def average_precision(self, n_right: int) -> float:
        """The expected average precision, given the number of right answers, found or not; 0 without any."""
        if not n_right:
            return 0.0
        level, rank = self._places()
        n = self.sizes[level]
        r = self.right_counts[level]
        place = rank - self.counts_above[level]
        right_above = (np.cumsum(self.right_counts) - self.right_counts)[level]
        right_before = right_above + (place - 1) * (r - 1) / np.maximum(n - 1, 1)
        return float((r / n * (1 + right_before) / rank).sum() / n_right)

    def ndcg(self, n_right: int, depth: int) -> float:
        """The expected nDCG of the first `depth`, given the number of right answers, found or not; 0 without any."""
        if not n_right:
            return 0.0
        level, rank = self._places()
        gains = (self.right_counts / self.sizes)[level][:depth]
        ranks_at_best = np.arange(1, min(n_right, depth) + 1)
        ideal = (1 / np.log2(ranks_at_best + 1)).sum()
        return float((gains / np.log2(rank[:depth] + 1)).sum() / ideal)

    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The level of each of the N ranks, and the ranks, from 1."""
        level = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return level, np.arange(1, len(level) + 1)


def _none_right(n: int, r: int) -> NDArray[np.float64]:
    """(n,) the probability that place i of a level holds no right answer if none of the places before it does."""
    left = np.arange(n, 0, -1)
    return np.maximum(left - r, 0) / left


def measure(scores: ArrayLike, right: ArrayLike, n_right: int) -> dict[str, float]:
    """Each measure of one question: of (N,) scores, which are right, and its number of right answers, found or not."""
    levels = Levels.of(scores, right)
    values = (
        levels.success(1),
        levels.reciprocal_rank(),
        levels.average_precision(n_right),
        levels.ndcg(n_right, NDCG_DEPTH),
    )
    return dict(zip(MEASURES, values, strict=True))


def measure_each(questions: Iterable[tuple[ArrayLike, ArrayLike, int]]) -> dict[str, NDArray[np.float64]]:
    """Each measure's (Q,) values, given the arguments of `measure` for Q questions."""
    values_of: dict[str, list[float]] = {name: [] for name in MEASURES}
    for scores, right, n_right in questions:
        for name, value in measure(scores, right, n_right).items():
            values_of[name].append(value)
    return {name: np.array(values) for name, values in values_of.items()}


def means(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The mean of each measure over the questions."""
    return {name: float(per_question.mean()) for name, per_question in values.items()}
