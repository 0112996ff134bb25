"""P@1, MRR, MAP and nDCG@10 as trec_eval computes them."""

from __future__ import annotations

from collections.abc import Mapping

import ir_measures
import numpy as np
from ir_measures import AP, RR, P, nDCG

MEASURES = {"P@1": P @ 1, "MRR": RR, "MAP": AP, "nDCG@10": nDCG @ 10}

Run = Mapping[str, Mapping[str, float]]
"""Question id -> answer id -> score."""


def measure_each(relevant: Mapping[str, Mapping[str, int]], run: Run) -> dict[str, np.ndarray]:
    """Each measure's (Q,) values, in the order of `relevant`; 0 for questions missing from the run.

    Args:
        relevant: question id -> answer id -> 1 for right answers.
        run: the scores to rank by; equal scores are ordered by answer id, as trec_eval does.
    """
    names = {measure: name for name, measure in MEASURES.items()}
    position = {question: i for i, question in enumerate(relevant)}
    values = {name: np.zeros(len(relevant)) for name in MEASURES}
    for metric in ir_measures.pytrec_eval.iter_calc(MEASURES.values(), relevant, run):
        values[names[metric.measure]][position[metric.query_id]] = metric.value
    return values


def means(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The mean of each measure over the questions."""
    return {name: float(per_question.mean()) for name, per_question in values.items()}
