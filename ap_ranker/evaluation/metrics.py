"""P@1, MRR, MAP and nDCG@10 as trec_eval computes them."""

from __future__ import annotations

from collections.abc import Mapping

import ir_measures
from ir_measures import AP, RR, P, nDCG

MEASURES = {"P@1": P @ 1, "MRR": RR, "MAP": AP, "nDCG@10": nDCG @ 10}

Run = Mapping[str, Mapping[str, float]]
"""Question id -> answer id -> score."""


def measure(relevant: Mapping[str, Mapping[str, int]], run: Run) -> dict[str, float]:
    """Means over all questions of `relevant`; one whose answers are not in the run counts as zero.

    Args:
        relevant: question id -> answer id -> 1 for right answers.
        run: the scores to rank by; equal scores are ordered by answer id, as trec_eval does.
    """
    results = ir_measures.pytrec_eval.calc_aggregate(MEASURES.values(), relevant, run)
    return {name: float(results[m]) for name, m in MEASURES.items()}
