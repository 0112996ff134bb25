"""Whether a difference between two rankings may be chance, and whether a model ranks better than BM25."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ap_ranker.errors import extra_for

with extra_for("Training and measuring need", "train"):
    from scipy.stats import permutation_test

LEVEL = 0.05
"""Significance level: a difference in MRR with a p-value of at least this may be chance."""

VERDICTS = {
    "better": "better than BM25",
    "worse": "worse than BM25",
    "equal": "not better than BM25",
    "undecided": "not shown to be better than BM25 (chance may explain the difference)",
}


def randomisation_test(first: np.ndarray, second: np.ndarray, seed: int = 1) -> float:
    """Two-sided p-value of Fisher's paired randomisation test (Smucker, Allan & Carterette 2007)."""
    if len(first) < 2 or np.array_equal(first, second):
        return 1.0  # with one question, the swapped difference is as large as the observed one

    def mean_difference(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        return np.mean(x - y, axis=axis)

    result = permutation_test(
        (first, second),
        mean_difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=9_999,
        batch=500,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for multiple testing (Holm 1979): those below α are significant at α together."""
    order = np.argsort(p_values, kind="stable")
    # The smallest of m p-values is multiplied by m, the next one by m - 1; none may end below one before it.
    multiplied = np.arange(len(order), 0, -1) * np.array(p_values)[order]
    corrected = np.zeros(len(order))
    corrected[order] = np.maximum.accumulate(multiplied).clip(max=1)
    return list(map(float, corrected))


@dataclass(frozen=True)
class Difference:
    """A mean MRR minus BM25's, and the p-value of the paired randomisation test, Holm-corrected if there are two."""

    mrr: float
    p_value: float

    @property
    def verdict(self) -> str:
        """A key of `VERDICTS`."""
        if self.p_value >= LEVEL:
            return "undecided" if self.mrr else "equal"
        return "better" if self.mrr > 0 else "worse"

    def __str__(self) -> str:
        return f"MRR {self.mrr:+.3f}, p = {self.p_value:.4f}"


@dataclass(frozen=True)
class Gain:
    """A model against BM25 on the same questions and candidates."""

    n_questions: int
    model: Difference
    fusion: Difference | None
    only_new: bool = False  # whether near copies of what the model has learnt were left out

    @classmethod
    def over_bm25(
        cls, model: np.ndarray, bm25: np.ndarray, fusion: np.ndarray | None, *, only_new: bool = False
    ) -> Gain:
        """Test a model's and, if there is one, its fusion's (Q,) reciprocal ranks against BM25's."""
        tested = [model] if fusion is None else [model, fusion]
        p_values = holm([randomisation_test(ranks, bm25) for ranks in tested])
        differences: list[Difference] = []
        for ranks, p_value in zip(tested, p_values, strict=True):
            mrr = float(ranks.mean() - bm25.mean())
            differences.append(Difference(mrr, p_value))
        return cls(len(bm25), differences[0], None if fusion is None else differences[1], only_new)

    @property
    def better(self) -> bool:
        """Whether the model or its fusion with BM25 beats BM25 significantly."""
        return "better" in (self.model.verdict, self.fusion and self.fusion.verdict)

    def __str__(self) -> str:
        compared = f"alone {self.model}" + (f"; with BM25's score added {self.fusion}" if self.fusion else "")
        verdict = VERDICTS[self.model.verdict]
        if self.fusion and self.fusion.verdict == self.model.verdict:
            verdict += ", alone and with BM25's score added,"
        elif self.fusion:
            verdict = f"alone {verdict}, with BM25's score added {VERDICTS[self.fusion.verdict]},"
        asked = f"{self.n_questions:,}{' new' if self.only_new else ''} dev questions"
        return f"{verdict[0].upper()}{verdict[1:]} on the {asked} ({compared})."
