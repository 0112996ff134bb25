"""Tests whether a model ranks better than BM25, alone or with BM25's score added."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ap_ranker.evaluation.significance import holm, randomisation_test

LEVEL = 0.05
"""Significance level: a difference in MRR with a p-value of at least this may be chance."""

VERDICTS = {
    "better": "better than BM25",
    "worse": "worse than BM25",
    "equal": "not better than BM25",
    "undecided": "not shown to be better than BM25 (chance may explain the difference)",
}
"""Verdict -> its words."""


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

    @property
    def better(self) -> bool:
        """Whether the model is significantly better."""
        return self.verdict == "better"

    def __str__(self) -> str:
        return f"MRR {self.mrr:+.3f}, p = {self.p_value:.4f}"


@dataclass(frozen=True)
class Gain:
    """A model against BM25 on the same questions and candidates.

    Attributes:
        n_questions: number of questions.
        model: the difference by the model's own scores.
        fusion: the difference with BM25's score added; `None` if that does not help.
    """

    n_questions: int
    model: Difference
    fusion: Difference | None

    @property
    def better(self) -> bool:
        """Whether the model or its fusion with BM25 beats BM25 significantly."""
        return self.model.better or (self.fusion is not None and self.fusion.better)

    def __str__(self) -> str:
        compared = f"alone {self.model}" + (f"; with BM25's score added {self.fusion}" if self.fusion else "")
        verdict = VERDICTS[self.model.verdict]
        if self.fusion and self.fusion.verdict == self.model.verdict:
            verdict += ", alone and with BM25's score added,"
        elif self.fusion:
            verdict = f"alone {verdict}, with BM25's score added {VERDICTS[self.fusion.verdict]},"
        return f"{verdict[0].upper()}{verdict[1:]} on the {self.n_questions:,} dev questions ({compared})."

    def facts(self) -> dict[str, Any]:
        """For `config.json`."""
        return {"better_than_bm25": self.better, **asdict(self)}


def gain_over_bm25(model: np.ndarray, bm25: np.ndarray, fusion: np.ndarray | None) -> Gain:
    """Test a model's and, if there is one, its fusion's (Q,) reciprocal ranks against BM25's."""
    tested = [model] if fusion is None else [model, fusion]
    p_values = holm([randomisation_test(ranks, bm25) for ranks in tested])
    differences = [Difference(float(ranks.mean() - bm25.mean()), p) for ranks, p in zip(tested, p_values, strict=True)]
    return Gain(len(bm25), differences[0], differences[1] if fusion is not None else None)
