"""Against trec_eval itself (through pytrec_eval) and against the definitions, written out."""

from __future__ import annotations

from math import log2

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.evaluation.metrics import means, measure_each

RELEVANT = {"q1": {"a": 1}, "q2": {"b": 1, "d": 1}, "q3": {"e": 1}}
RUN = {"q1": {"a": 0.9, "b": 0.1}, "q2": {"a": 3.0, "b": 2.0, "c": 1.0, "d": 0.5}, "q3": {"a": 1.0}}


def test_definitions() -> None:
    measures = means(measure_each(RELEVANT, RUN))
    assert measures["P@1"] == pytest.approx((1 + 0 + 0) / 3)
    assert measures["MRR"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert measures["MAP"] == pytest.approx((1 + (1 / 2 + 2 / 4) / 2 + 0) / 3)
    ideal = 1 / log2(2) + 1 / log2(3)
    assert measures["nDCG@10"] == pytest.approx((1 + (1 / log2(3) + 1 / log2(5)) / ideal + 0) / 3)


runs = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-3, 3).map(float), min_size=1),
    min_size=3,
)


@given(runs)
def test_as_trec_eval(run: dict[str, dict[str, float]]) -> None:
    """Ties and all."""
    names = {"P@1": "P_1", "MRR": "recip_rank", "MAP": "map", "nDCG@10": "ndcg_cut_10"}
    reference = pytrec_eval.RelevanceEvaluator(RELEVANT, {"P.1", "recip_rank", "map", "ndcg_cut.10"}).evaluate(run)
    for ours, theirs in names.items():
        mean = sum(question[theirs] for question in reference.values()) / len(RELEVANT)
        assert means(measure_each(RELEVANT, run))[ours] == pytest.approx(mean)
