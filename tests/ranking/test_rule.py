"""The one rule of ranking against a loop over candidates, and copies of an answer, which must not silence it."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import rule as naive
from probabilities import probabilities

from ap_ranker.ranking.rule import (
    EXCESS,
    Calibration,
    Signals,
    Weights,
    margins,
    rank,
    ranked_scores,
    same_answer,
)
from ap_ranker.ranking.typed_rule import TypedSignals
from ap_ranker.text.typed import Kind

WORDS = [
    "The parcel arrives on Monday.",
    "The parcel  arrives on monday",
    "Send it back in a month.",
    "No.",
    "Yes.",
]
"""The first two are one answer."""

values = st.sampled_from([-1.0, -0.25, 0.0, 0.5, 0.7501, 1.0])
known = st.builds(naive.Candidate, values, values, values, st.sampled_from([0.0, 1.5, 30.0]), st.booleans())
candidates = st.lists(st.tuples(known, st.sampled_from(WORDS)), max_size=7)
weights = st.sampled_from([0.0, 0.4, 3.0])


@given(
    candidates,
    weights,
    weights,
    st.sets(st.sampled_from(["wordings", "bm25", "exact", "answers"])),
    st.sampled_from([0.0, 0.25]),
)
def test_the_rule_is_the_loop(
    given_: list[tuple[naive.Candidate, str]], wording: float, bm25: float, unknown: set[str], excess: float
) -> None:
    """Ties and all; without candidates, with one, and without what is unknown; of an entry near to all questions."""
    ones, texts = [one for one, _ in given_], [text for _, text in given_]
    if "wordings" in unknown:
        ones = [one._replace(wording=None) for one in ones]
    if "bm25" in unknown:
        ones = [one._replace(bm25=None) for one in ones]
    if "exact" in unknown:
        ones = [one._replace(exact=False) for one in ones]
    names = ("model", "cosine", "wording", "bm25")
    columns = {name: np.array([getattr(one, name) for one in ones], dtype=float) for name in names}
    signals = Signals(
        columns["model"],
        columns["cosine"],
        None if "wordings" in unknown else columns["wording"],
        None if "bm25" in unknown else columns["bm25"],
        None if "exact" in unknown else np.array([one.exact for one in ones], dtype=bool),
        None if "answers" in unknown else [(text,) for text in texts],
        background_of=lambda row: 1.0 + excess / EXCESS,
    )
    found = rank(signals, Weights(wording, bm25), Calibration(2.0, 3.0, -0.5, {}, background=1.0))
    assert found.probabilities is not None

    def same(one: int, other: int) -> bool:
        return "answers" not in unknown and (texts[one] == texts[other] or {texts[one], texts[other]} == set(WORDS[:2]))

    scores, exact = [naive.score(one, wording, bm25) for one in ones], [one.exact for one in ones]
    order = naive.order(scores, exact)
    assert found.order.tolist() == order
    returned = naive.lowered(scores, exact)
    assert found.scores.tolist() == pytest.approx(returned)
    expected = naive.probabilities(returned, order, same, 2.0, 3.0, -0.5, excess)
    assert found.probabilities.tolist() == pytest.approx(expected)
    for one, other in itertools.pairwise(order):
        tied = (exact[one], scores[one]) == (exact[other], scores[other])
        assert found.levels[other] - found.levels[one] == (0 if tied else 1)
        assert found.probabilities[one] >= found.probabilities[other]
    assert found.levels.dtype.kind == "i"
    assert found.excess == (excess if ones else 0)
    bare = rank(signals, Weights(wording, bm25))
    assert (bare.probabilities, bare.excess) == (None, 0)
    for one, other in ((bare.order, found.order), (bare.scores, found.scores), (bare.levels, found.levels)):
        assert one.tolist() == other.tolist()
    assert ranked_scores(signals, Weights(wording, bm25)).tolist() == found.scores.tolist()


@pytest.mark.parametrize("scores", [[0.2, 0.9], [0.9, 0.2]])
def test_copies_alone_count_less_by_the_best_of_them(scores: list[float]) -> None:
    """In whatever order the retriever gives them."""
    signals = Signals(np.array(scores), answers=[("One answer.",)] * 2, background_of=lambda row: 0.5)
    found = rank(signals, Weights(), Calibration(2.0, 3.0, -0.5, {}, background=0.1))
    excess = EXCESS * (0.5 - 0.1)
    by_hand = 1 / (1 + np.exp(-(2.0 * (0.9 - excess) + 3.0 * (0 - excess) - 0.5)))
    assert found.probabilities is not None
    assert found.probabilities[found.order[0]] == pytest.approx(by_hand)


@given(st.lists(values, max_size=9), st.randoms(use_true_random=False))
def test_ties_are_those_of_the_order_elsewhere(scores: list[float], random: Random) -> None:
    places = list(range(len(scores)))
    random.shuffle(places)
    elsewhere = rank(Signals(np.array([scores[place] for place in places])))
    found = rank(Signals(np.array(scores), ties=np.argsort(places)))
    assert found.order.tolist() == [places[row] for row in elsewhere.order]


def test_the_margin_is_over_the_best_different_answer() -> None:
    """By hand; None of the copies is an answer of its own, however many there are."""
    texts = ["a parcel", "another answer", "A PARCEL!", "a  parcel", "the last"]
    scores = np.array([0.9, 0.6, 0.9, 0.8, 0.1])
    order = np.array([0, 2, 3, 1, 4])
    assert margins(scores, [(text,) for text in texts], order) == pytest.approx([0.3, -0.3, 0.3, 0.2, -0.8])
    assert margins(scores, None, order) == pytest.approx([0.0, -0.3, 0.0, -0.1, -0.8])
    assert margins(np.array([0.9, 0.2]), [("x",), ("X",)], np.array([0, 1])).tolist() == [0.0, 0.0]
    assert margins(np.array([0.9]), [("x",)], np.array([0])).tolist() == [0.0]
    assert margins(np.array([]), None, np.array([], dtype=int)).tolist() == []


LONG = "You may return a bike within thirty days; we collect it from your door, and the refund takes five working days."


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (LONG, True),
        (LONG.upper(), True),
        (LONG.replace(";", " -").replace(".", ""), True),
        (LONG.replace(" ", "\n  "), True),
        (LONG.replace("thirty", "forty"), True),
        (
            "You may keep a bike for thirty days; we ask for a deposit, and the repair takes five working days.",
            False,
        ),
        ("Yes.", False),
        ("", False),
    ],
)
def test_copies_differ_in_case_punctuation_white_space_and_a_word(other: str, same: bool) -> None:
    assert same_answer((LONG,), (other,)) == same_answer((other,), (LONG,)) == same


def test_the_same_question_with_another_answer_is_another_answer() -> None:
    question = "Can I return a bike that I have ridden for a week, and who pays for the transport from my door?"
    yes, no = ((f"{question}\n{answer}", answer) for answer in ("Yes.", "No."))
    assert same_answer((yes[0],), (no[0],)), "their texts alone are near"
    assert not same_answer(yes, no)
    assert not same_answer((question, "Yes."), (question, "No."))
    assert same_answer(yes, (yes[0].upper(), "yes"))


def test_short_answers_to_different_questions_differ() -> None:
    assert not same_answer(("Do you ship to Norway?\nYes.", "Yes."), ("Is there a shop in Bergen?\nYes.", "Yes."))


@pytest.mark.parametrize(
    ("bm25", "weight", "is_used"),
    [(None, 1.0, False), (None, 0.0, False), (2.0, 0.0, False), (2.0, 1.0, True), (0.0, 0.4, True)],
)
def test_when_bm25_is_a_part_of_the_score(bm25: float | None, weight: float, is_used: bool) -> None:
    signals = Signals(np.zeros(1), bm25=None if bm25 is None else np.array([bm25]))
    assert signals.uses_bm25(Weights(bm25=weight)) is is_used


def test_scores_of_half_the_size_are_computed_with_as_exactly() -> None:
    """The model's are float32; a difference of two of them has few digits left."""
    scores = np.array([0.1, 0.7, 0.7000001], dtype=np.float32)
    fit = Calibration(2.0, 3.0, -0.5, {})
    assert probabilities(fit, scores).tolist() == probabilities(fit, scores.astype(np.float64)).tolist()


def by_hand(score: float, lead: float) -> float:
    return 1 / (1 + np.exp(-(2.0 * score + 3.0 * lead - 0.5)))


def test_own_entries_come_first_whatever_the_others_score() -> None:
    """Of what is no question; word for word still before them, and none is more probable than one before it."""
    scores = [0.3, 0.9, 0.2, 0.5, 0.4]
    typed = TypedSignals(Kind.GREETING, list("abcde"), lambda row: row in (2, 3))
    asked: list[int] = []

    def background_of(row: int) -> float:
        asked.append(row)
        return 0.5

    signals = Signals(np.array(scores), typed=typed, background_of=background_of)
    fit = Calibration(2.0, 3.0, -0.5, {})
    ranking = rank(signals, calibration=fit)
    assert ranking.order.tolist() == [3, 2, 1, 4, 0]
    assert (ranking.excess, asked) == (0, []), "without that of the FAQ, none is asked for"
    assert ranking.probabilities is not None
    second = by_hand(0.2, 0.2 - 0.5)  # the others score more than it, or lead by more
    assert ranking.probabilities.tolist() == pytest.approx([second, second, second, by_hand(0.5, 0.5 - 0.2), second])
    assert ranking.scores.tolist() == [0.2, 0.2, 0.2, 0.5, 0.2]
    assert ranking.levels.tolist() == [4, 2, 1, 0, 3], "the order separates none of them"
    lowered = rank(signals, calibration=Calibration(2.0, 3.0, -0.5, {}, background=0.1))
    excess = EXCESS * (0.5 - 0.1)
    assert (lowered.excess, asked) == (pytest.approx(excess), [3])
    assert lowered.probabilities is not None
    assert lowered.probabilities[3] == pytest.approx(by_hand(0.5 - excess, 0.3 - excess))
    exact = Signals(np.array(scores), typed=typed, exact=np.arange(5) == 0)
    assert rank(exact).order.tolist() == [0, 3, 2, 1, 4]


def test_an_excess_lowers_the_best_and_no_candidate_has_one() -> None:
    fit = Calibration(2.0, 3.0, -0.5, {})
    best = by_hand(0.9 - 0.4, 0.1 - 0.4)
    assert fit.probabilities(np.array([0.8, 0.9]), None, order=np.array([1, 0]), excess=0.4).tolist() == pytest.approx(
        [min(by_hand(0.8, -0.1), best), best]
    )
    assert fit.probabilities(np.array([]), None, order=np.array([], dtype=int), excess=0.4).tolist() == []
    assert fit.excess_of(5.0) == 0
    known = Calibration(2.0, 3.0, -0.5, {}, background=1.0)
    assert [known.excess_of(entry) for entry in (0.5, 1.0, 3.0)] == [0, 0, 2 * EXCESS]
