"""Against trec_eval itself (through pytrec_eval), the definitions, and every order of tied candidates."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from naive import measures as naive

from ap_ranker.evaluation.metrics import Levels, means, measure, measure_each


def test_definitions() -> None:
    questions = [([0.9, 0.1], [1, 0], 1), ([3.0, 2.0, 1.0, 0.5], [0, 1, 0, 1], 2), ([1.0], [0], 1)]
    measures = means(measure_each(questions))
    assert measures["P@1"] == pytest.approx((1 + 0 + 0) / 3)
    assert measures["MRR"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert measures["MAP"] == pytest.approx((1 + (1 / 2 + 2 / 4) / 2 + 0) / 3)
    ideal = 1 / log2(2) + 1 / log2(3)
    assert measures["nDCG@10"] == pytest.approx((1 + (1 / log2(3) + 1 / log2(5)) / ideal + 0) / 3)


TREC_EVAL = {"P@1": "P_1", "MRR": "recip_rank", "MAP": "map", "nDCG@10": "ndcg_cut_10"}


@given(st.permutations(range(14)), st.lists(st.booleans(), min_size=1, max_size=14), st.integers(0, 2))
def test_as_trec_eval_where_there_are_no_ties(order: list[int], right: list[bool], missing: int) -> None:
    """Right answers that are no candidates count, too."""
    scores = [float(each) for each in order[: len(right)]]
    truth = {f"a{row}": int(hit) for row, hit in enumerate(right)} | {f"missing{i}": 1 for i in range(missing)}
    if not any(truth.values()):
        return
    measures = {"P.1", "recip_rank", "map", "ndcg_cut.10"}
    run = {"q": {f"a{row}": score for row, score in enumerate(scores)}}
    expected = pytrec_eval.RelevanceEvaluator({"q": truth}, measures).evaluate(run)["q"]
    found = measure(scores, right, sum(truth.values()))
    assert found == pytest.approx({ours: expected[theirs] for ours, theirs in TREC_EVAL.items()})


tied = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6)


@given(tied, st.integers(0, 2))
def test_tied_candidates_count_at_their_mean_over_every_order(candidates: list[tuple[int, bool]], missing: int) -> None:
    scores, right = zip(*candidates, strict=True)
    n_right = sum(right) + missing
    assert measure(scores, right, n_right) == pytest.approx(naive.expected(scores, right, n_right))
    levels = Levels.of(scores, right)
    for depth in range(1, 8):
        assert levels.success(depth) == pytest.approx(naive.expected_success(scores, right, depth))
    if any(right):
        assert levels.first_rank() == pytest.approx(naive.expected_first_rank(scores, right))
    else:
        assert levels.first_rank() is None


@pytest.mark.parametrize("place", [0, 7, 167])
def test_where_the_right_one_stands_among_equals_does_not_matter(place: int) -> None:
    right = np.arange(168) == place
    found = measure(np.zeros(168), right, 1)
    harmonic = sum(1 / rank for rank in range(1, 169)) / 168
    assert found["P@1"] == pytest.approx(1 / 168)
    assert [found["MRR"], found["MAP"]] == pytest.approx([harmonic, harmonic])


def test_thousands_of_equals_and_no_candidates() -> None:
    right = np.arange(30_000) % 3 == 0
    assert measure(np.zeros(30_000), right, 10_000)["P@1"] == pytest.approx(1 / 3)
    assert Levels.of(np.zeros(30_000), right).success(2) == pytest.approx(1 - (2 / 3) ** 2, abs=1e-4)
    assert measure([], [], 3) == {"P@1": 0, "MRR": 0, "MAP": 0, "nDCG@10": 0}


def test_every_grade_above_0_is_right() -> None:
    """As trec_eval counts by default: the labels of a judged list are numbers, of which none counts twice."""
    graded = measure([3.0, 2.0, 2.0, 1.0], [0, 2, 1, 3], 3)
    assert graded == measure([3.0, 2.0, 2.0, 1.0], [False, True, True, True], 3)
