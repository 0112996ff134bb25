"""What decides between an answer, a maybe and none, and what it must not depend on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TEXTS, write_checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from ap_ranker.ranking.decision import Decider, Decision, check_limits
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import EXCESS, FUSED, MODEL, Basis, Calibration, Signals, Weights
from ap_ranker.ranking.typed_rule import TypedSignals
from ap_ranker.text.typed import Kind

ANSWER, MAYBE, NONE = Outcome

FIT = Calibration(score=4.0, margin=2.0, bias=-2.0, thresholds={"0.9": 0.9}, floor=-0.2, basis=Basis.PRIOR)


def decider(fit: Calibration | None = FIT) -> Decider:
    return Decider("c", Weights(), {} if fit is None else {MODEL: fit}, lambda scores: (1 + scores.tanh()) / 2)


@pytest.mark.parametrize(
    ("scores", "exact", "limits", "outcome", "basis"),
    [
        # p = sigmoid(4 s + 2 m - 2): .79 is reached at s = .7 and m = .27, .80 at m = .3
        ([0.7, 0.39], None, {}, ANSWER, Basis.PRIOR),
        ([0.7, 0.43], None, {}, MAYBE, Basis.PRIOR),
        ([0.7, 0.39], None, {"precision": 0.9}, MAYBE, Basis.PRIOR),
        ([0.9, 0.5], None, {"precision": 0.9}, ANSWER, Basis.PRIOR),
        ([-0.1, -0.9], None, {}, MAYBE, Basis.PRIOR),
        ([-0.3, -0.9], None, {}, NONE, Basis.PRIOR),
        ([-0.3, -0.9], None, {"precision": 0.9}, NONE, Basis.PRIOR),
        ([-0.3, -0.9], [0, 1], {}, ANSWER, Basis.EXACT),
        ([0.2, 0.1], None, {"score_threshold": 0.1}, ANSWER, Basis.PRIOR),  # the owner's own threshold
        ([0.7, 0.1], None, {"score_threshold": 0.99}, MAYBE, Basis.PRIOR),
        ([], None, {}, NONE, Basis.NOTHING),
    ],
)
def test_the_three_outcomes(
    scores: list[float], exact: list[int] | None, limits: dict[str, float], outcome: Outcome, basis: Basis
) -> None:
    signals = Signals(np.array(scores), exact=None if exact is None else np.array(exact, bool))
    _, decision = decider().answer(signals, **limits)  # type: ignore[arg-type]  # of floats
    assert (decision.outcome, decision.basis) == (outcome, basis)
    if scores and exact is None:
        logit = 4 * scores[0] + 2 * (scores[0] - scores[1]) - 2
        assert decision.probability == pytest.approx(1 / (1 + np.exp(-logit)))


EVEN = Calibration(score=1.0, margin=0.0, bias=0.0, thresholds={"0.9": 0.5}, floor=-1.0)
"""A score of 0 has a probability of 1/2, which is the threshold of the target .9, with no rounding anywhere."""


def test_what_equals_a_threshold_reaches_it() -> None:
    """The table of the first page: an answer has p >= t, and nothing is worth showing below the floor."""
    at, below = Signals(np.array([0.0, -0.5])), Signals(np.array([-0.001, -0.5]))
    judge = decider(EVEN)
    assert judge.answer(at, precision=0.9)[0] == [(0, 0.5)]
    assert judge.answer(below, precision=0.9)[0] == []
    for signals, outcome in ((at, ANSWER), (below, MAYBE)):
        for limits in ({"precision": 0.9}, {"score_threshold": 0.5}):
            assert judge.answer(signals, **limits)[1].outcome is outcome  # type: ignore[arg-type]  # of floats
        assert judge.with_precision(judge.answer(signals)[1], 0.9).outcome is outcome
    assert judge.answer(at, score_threshold=0.5)[0] == [(0, 0.5)]
    assert judge.answer(at, score_threshold=0.0, scale_score=False)[0] == [(0, 0.0)]
    for score, outcome in ((-1.0, MAYBE), (-1.001, NONE)):
        assert judge.answer(Signals(np.array([score, -2.0])))[1].outcome is outcome
    for precision, outcome in ((0.5, ANSWER), (0.501, MAYBE)):  # without known targets, the precision itself
        bare = decider(replace(EVEN, thresholds={}))
        assert bare.answer(at, precision=precision)[1].outcome is outcome


def test_without_a_calibration_nothing_but_a_known_question_is_asserted() -> None:
    first = Signals(np.array([9.0, -9.0]))
    assert decider(None).answer(first)[1] == Decision(MAYBE, None, Basis.NOTHING)
    known = replace(first, exact=np.array([False, True]))
    assert decider(None).answer(known)[1] == Decision(ANSWER, None, Basis.EXACT)
    for precision in (0.001, 0.8, 0.999):
        asserted, decision = decider(None).answer(known, precision=precision)
        assert ([row for row, _ in asserted], decision.outcome) == ([1], ANSWER)
        asserted, decision = decider(None).answer(first, precision=precision)
        assert (asserted, decision.outcome) == ([], MAYBE)
        assert len(decider(None).answer(first, precision=precision, offer=True)[0]) == 2
    assert decider(None).answer(first, score_threshold=0.9)[1].outcome is ANSWER
    assert decider(None).answer(first, score_threshold=1.1)[1].outcome is MAYBE


@pytest.mark.parametrize("offer", [False, True])
def test_what_is_offered(offer: bool) -> None:
    """A precision then leaves nothing out; a threshold leaves out what is below it beside an answer alone."""
    answered, maybe = (Signals(np.array(scores)) for scores in ([0.9, 0.5, 0.4], [0.7, 0.43, 0.4]))
    asserted, _ = decider().answer(answered, precision=0.9, offer=offer)
    assert [row for row, _ in asserted] == ([0, 1, 2] if offer else [0])
    returned, decision = decider().answer(maybe, precision=0.9, offer=offer)
    assert decision.outcome is MAYBE
    assert [row for row, _ in returned] == ([0, 1, 2] if offer else [])
    least = decider().answer(answered)[0][0][1]
    asserted, _ = decider().answer(answered, score_threshold=least, offer=offer)
    assert [row for row, _ in asserted] == [0]
    returned, decision = decider().answer(maybe, score_threshold=least, offer=offer)
    assert decision.outcome is MAYBE
    assert [row for row, _ in returned] == ([0, 1, 2] if offer else [])


BOTH = Decider(
    "c",
    Weights(bm25=1.0),
    {MODEL: replace(FIT, floor=0.0), FUSED: replace(EVEN, floor=-5.0, basis=Basis.QUESTIONS)},
    torch.sigmoid,
)


@pytest.mark.parametrize(
    ("score", "exact", "bm25", "expected"),
    [
        (-0.5, False, True, (MAYBE, Basis.QUESTIONS)),
        (-6.0, False, True, (NONE, Basis.QUESTIONS)),
        (-6.0, True, True, (ANSWER, Basis.EXACT)),
        (-0.1, False, False, (NONE, Basis.PRIOR)),
        (0.1, False, False, (MAYBE, Basis.PRIOR)),
        (-0.1, True, False, (ANSWER, Basis.EXACT)),
    ],
)
def test_each_kind_of_score_has_its_own_floor_and_basis(
    score: float, exact: bool, bm25: bool, expected: tuple[Outcome, Basis]
) -> None:
    """And its own probabilities, whatever is decided."""
    signals = Signals(np.array([score]), exact=np.array([exact]), bm25=np.zeros(1) if bm25 else None)
    logit = score if bm25 else 4 * score - 2
    probability = 1 / (1 + math.exp(-logit))
    returned, decision = BOTH.answer(signals)
    assert (decision.outcome, decision.basis, decision.is_fused) == (*expected, bm25)
    assert decision.probability == pytest.approx(probability)
    assert returned == [(0, pytest.approx(probability))]
    assert decision.as_json() == {
        "outcome": {ANSWER: "answer", MAYBE: "maybe", NONE: "none"}[expected[0]],
        "probability": decision.probability,
        "basis": {Basis.QUESTIONS: "questions", Basis.PRIOR: "prior", Basis.EXACT: "known question"}[expected[1]],
        "kind": "question",
        "language": None,
    }


def test_each_kind_of_score_has_its_own_threshold() -> None:
    """Of a target of .9: a probability of 1/2 with BM25's score added, and .9 of the model's alone."""
    for score, bm25, outcome in ((0.1, True, ANSWER), (-0.1, True, MAYBE), (1.0, False, MAYBE), (1.1, False, ANSWER)):
        signals = Signals(np.array([score]), bm25=np.zeros(1) if bm25 else None)
        assert BOTH.answer(signals, precision=0.9)[1].outcome is outcome
        assert BOTH.with_precision(BOTH.answer(signals)[1], 0.9).outcome is outcome


def test_what_is_not_wanted_is_that_of_the_first_entry() -> None:
    """Wherever the retriever gives it."""
    for own, outcome in (([0], MAYBE), ([1], ANSWER)):
        typed = TypedSignals(Kind.NEGATED, ["a", "b"], lambda row, own=own: row in own)
        assert decider(EVEN).answer(Signals(np.array([2.9, 3.0]), typed=typed))[1].outcome is outcome


def test_scores_without_a_calibration_are_from_0_to_1() -> None:
    """Those of the model by its own map; with BM25's added, by the arc tangent: of 1 an eighth of a turn."""
    bare = replace(BOTH, calibrations={})
    scores = np.array([1.0, 0.0, -1.0])
    assert bare.answer(Signals(scores, bm25=np.zeros(3)))[0] == [(0, 0.75), (1, 0.5), (2, 0.25)]
    expected = [(row, pytest.approx(1 / (1 + math.exp(-score)))) for row, score in enumerate(scores)]
    assert bare.answer(Signals(scores))[0] == expected
    assert bare.answer(Signals(scores), scale_score=False)[0] == [(0, 1.0), (1, 0.0), (2, -1.0)]


@pytest.mark.parametrize(
    ("least", "scale_score", "expected"),
    [
        (0.4, False, [(1, 0.6), (0, 0.5)]),
        (0.55, False, [(1, 0.6)]),
        (0.9, False, [(1, 0.9)]),
        (1.5, False, [(1, 1.5)]),
        (0.9, True, [(1, 0.9)]),
        (1.5, True, [(1, 1.0)]),  # no probability is higher
    ],
)
def test_no_threshold_leaves_out_a_known_question(
    least: float, scale_score: bool, expected: list[tuple[int, float]]
) -> None:
    """Its score is raised to the threshold."""
    signals = Signals(np.array([0.5, 0.6, -3.0]), exact=np.array([False, True, False]))
    returned, decision = decider(EVEN).answer(signals, score_threshold=least, scale_score=scale_score)
    assert returned == expected
    assert decision.outcome is ANSWER


@pytest.mark.parametrize(
    ("language", "score", "expected"),
    [
        ("de", 0.0, (MAYBE, Kind.LANGUAGE, "de")),
        ("de", -1.5, (NONE, Kind.LANGUAGE, "de")),
        ("de", 3.0, (ANSWER, Kind.QUESTION, None)),
        (None, 0.0, (MAYBE, Kind.QUESTION, None)),
    ],
)
def test_a_question_in_another_language(
    language: str | None, score: float, expected: tuple[Outcome, Kind, str | None]
) -> None:
    """Is said beside what is not asserted, and decided anew with another precision."""
    judge = decider(replace(EVEN, thresholds={"0.8": 0.9, "0.1": 0.1}))
    decision = judge.answer(Signals(np.array([score]), language=lambda: language))[1]
    assert (decision.outcome, decision.kind, decision.language) == expected
    if expected[0] is NONE:
        assert judge.with_precision(decision, 0.1) == decision
    else:
        asserted = replace(decision, outcome=ANSWER, kind=Kind.QUESTION, language=None)
        assert judge.with_precision(decision, 0.1) == asserted
    known = Signals(np.array([score]), exact=np.array([True]), language=lambda: language)
    assert judge.answer(known)[1].kind is Kind.QUESTION


@pytest.mark.parametrize(
    ("kind", "score", "own", "expected"),
    [
        (Kind.GREETING, 3.0, [], (NONE, Kind.GREETING)),
        (Kind.GREETING, 3.0, [1], (ANSWER, Kind.GREETING)),
        (Kind.GREETING, -1.5, [0], (MAYBE, Kind.GREETING)),
        (Kind.WORD, 3.0, [0, 1], (MAYBE, Kind.WORD)),
        (Kind.WORD, 3.0, [1], (ANSWER, Kind.QUESTION)),
        (Kind.NEGATED, 3.0, [1], (MAYBE, Kind.NEGATED)),
        (Kind.NEGATED, 3.0, [0], (ANSWER, Kind.NEGATED)),
    ],
)
def test_what_is_no_question(kind: Kind, score: float, own: list[int], expected: tuple[Outcome, Kind]) -> None:
    """By the table of `typed_rule.py`; a stricter precision lowers answers, and the language is not asked for."""
    typed = TypedSignals(kind, ["a", "b"], lambda row: row in own)
    signals = Signals(np.array([score, score - 0.1]), typed=typed, language=lambda: "de")
    decision = decider(EVEN).answer(signals)[1]
    assert (decision.outcome, decision.kind, decision.language) == (*expected, None)
    if expected[1] is not Kind.QUESTION:
        outcome = MAYBE if expected[0] is ANSWER else expected[0]
        assert decider(EVEN).with_precision(decision, 0.999) == replace(decision, outcome=outcome)
        assert decider(EVEN).with_precision(decision, 0.1) == decision
    nothing = Signals(np.array([]), typed=TypedSignals(kind, [], lambda row: True))
    assert decider(EVEN).answer(nothing)[1].outcome is NONE
    known = replace(signals, exact=np.array([True, False]))
    assert decider(EVEN).answer(known)[1] == Decision(ANSWER, pytest.approx(1 / (1 + math.exp(-score))), Basis.EXACT)


@pytest.mark.parametrize("kind", [Kind.GREETING, Kind.PERSON, Kind.WORD, Kind.NEGATED, Kind.INCOMPLETE])
@pytest.mark.parametrize("own", [[], [0], [1], [0, 1]])
def test_a_stricter_precision_of_what_is_no_question(kind: Kind, own: list[int]) -> None:
    """As if it had been asked for at first; whatever an entry that comes first scores, no other is more probable."""
    judge = decider()
    for scores in ([0.9, 0.2], [0.2, 0.9], [0.6, 0.59], [-0.3, 0.9], [-0.3, -0.9]):
        signals = Signals(np.array(scores), typed=TypedSignals(kind, ["a", "b"], lambda row: row in own))
        lax = judge.answer(signals, precision=0.3)[1]
        for precision in (0.5, 0.8, 0.9, 0.99):
            returned, strict = judge.answer(signals, precision=precision, offer=True)
            assert judge.with_precision(lax, precision) == strict
            assert returned[0][1] == max(score for _, score in returned)
            assert returned[0][1] == strict.probability


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({}, None),
        ({"score_threshold": -3}, None),
        ({"score_threshold": np.float32(0.5)}, None),
        ({"precision": 0.001}, None),
        ({"precision": 0.999}, None),
        ({"score_threshold": "0.5"}, "0.5"),
        ({"score_threshold": True}, "True"),
        ({"score_threshold": math.nan}, "nan"),
        ({"score_threshold": math.inf}, "inf"),
        ({"score_threshold": -math.inf}, None),
        ({"precision": 0}, "0"),
        ({"precision": 0.0}, "0"),
        ({"precision": 1}, "1"),
        ({"precision": 1.0}, "1"),
        ({"precision": -0.5}, "-0.5"),
        ({"precision": 2.5}, "2.5"),
        ({"precision": math.nan}, "nan"),
        ({"precision": "0.9"}, "'0.9'"),
        ({"precision": False}, "False"),
        ({"precision": [0.5]}, "[0.5]"),
    ],
)
def test_limits_that_are_none(limits: dict[str, Any], error: str | None) -> None:
    """Refused by what would compute with them, too."""
    first = Signals(np.array([0.5]))
    if error is None:
        check_limits(limits.get("score_threshold"), limits.get("precision"))
        assert decider().answer(first, **limits)[0] is not None
        return
    (name,) = limits
    with refused(f"{name} … {error}"):
        check_limits(limits.get("score_threshold"), limits.get("precision"))
    with refused(f"{name} … {error}"):
        decider().answer(first, **limits)


def test_one_limit_at_a_time() -> None:
    with refused("0.5 … 0.9", by=ValueError):
        check_limits(0.5, 0.9)
    with refused("0.25 … 0.75", by=ValueError):
        check_limits(0.25, 0.75)


def test_another_precision_decides_on_the_same_ranking() -> None:
    """As if it had been asked for at first; each kind of score has its own calibration."""
    fused = replace(FIT, thresholds={"0.9": 0.7})
    both = Decider("c", Weights(bm25=1.0), {MODEL: FIT, FUSED: fused}, torch.sigmoid)
    for scores in ([0.7, 0.39], [0.9, 0.5], [-0.1, -0.9], [-0.3, -0.9]):
        for bm25 in (None, np.zeros(2)):
            for exact in (None, np.array([False, True])):
                signals = Signals(np.array(scores), bm25=bm25, exact=exact)
                for limits in ({}, {"score_threshold": 0.5}, {"score_threshold": 2.0}):
                    _, first = both.answer(signals, **limits)  # type: ignore[arg-type]  # of floats
                    _, expected = both.answer(signals, precision=0.9)
                    assert both.with_precision(first, 0.9) == expected
                for precision in (0.01, 0.3, 0.95, 0.999):  # also those that nothing was calibrated for
                    _, expected = both.answer(signals, precision=precision)
                    assert both.with_precision(first, precision) == expected


def test_an_entry_that_is_near_to_everything_must_be_nearer() -> None:
    """Its score counts less, in itself and in its lead, by what it scores beyond its FAQ for other matters."""
    fit = replace(FIT, background=0.1)
    scores = [0.9, 0.5, 0.4]
    grounds = [0.7, 0.9, 0.1]  # of the second and third, which decide nothing
    near, usual = (
        decider(fit).answer(Signals(np.array(scores), background_of=lambda row, of=of: of[row]))
        for of in (grounds, [0.1, *grounds[1:]])
    )
    counted = 0.9 - EXCESS * (0.7 - 0.1)
    assert near[1].probability == pytest.approx(1 / (1 + math.exp(-(4 * counted + 2 * (counted - 0.5) - 2))))
    assert usual[1] == decider(FIT).answer(Signals(np.array(scores)))[1]
    assert (near[1].outcome, usual[1].outcome) == (MAYBE, ANSWER)
    for ranked, _ in (near, usual):  # the order stays, and no other is more probable
        assert [row for row, _ in ranked] == [0, 1, 2]
        assert np.all(np.diff([score for _, score in ranked]) <= 0)
    # 0.0 - 0.25 is below the floor.
    below = Signals(np.array([0.0, -0.5]), background_of=lambda row: 0.1 + 0.25 / EXCESS)
    assert decider(fit).answer(below)[1].outcome is NONE
    assert decider(FIT).answer(below)[1].outcome is MAYBE
    # To an entry that is near to nothing, nothing is added.
    lower = Signals(np.array(scores), background_of=lambda row: -5.0)
    assert decider(fit).answer(lower)[1] == usual[1]
    known = replace(below, exact=np.array([True, False]))
    assert decider(fit).answer(known)[1].outcome is ANSWER


NUMBERS = st.floats(-3, 3).map(lambda number: round(number, 2))
FITS = st.builds(
    Calibration,
    score=st.floats(0, 5),
    margin=st.floats(0, 5),
    bias=st.floats(-5, 5),
    thresholds=st.just({"0.9": 0.9}),
    floor=st.none() | st.floats(-3, 3),
)
ENTRIES = st.lists(st.tuples(NUMBERS, st.sampled_from("abcdefgh")), min_size=2, unique_by=lambda one: one[1])


@given(entries=ENTRIES, fit=FITS, known=st.sets(st.integers(0, 7), max_size=3), data=st.data())
def test_no_decision_depends_on_copies_top_k_or_further_candidates(
    entries: list[tuple[float, str]], fit: Calibration, known: set[int], data: st.DataObject
) -> None:
    """Neither its outcome nor its probability, also of a question that is known, to one entry or to several."""

    def signals_of(rows: list[int]) -> Signals:
        exact = np.array([row in known for row in rows])
        texts = [[entries[row][1] * 9] for row in rows]
        return Signals(np.array([entries[row][0] for row in rows]), exact=exact, answers=texts)

    def decide(signals: Signals, top_k: int | None = None) -> Decision:
        return decider(fit).answer(signals, top_k=top_k)[1]

    rows = list(range(len(entries)))
    whole = signals_of(rows)
    decision = decide(whole)
    best = [row for row, _ in decider(fit).answer(whole, top_k=2)[0]]
    for top_k in (1, 2):
        assert decide(whole, top_k) == decision
    others = [row for row in rows if row not in best]
    kept = data.draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    assert decide(signals_of(sorted([*best, *kept]))) == decision
    copies = data.draw(st.lists(st.sampled_from(rows), max_size=6))
    assert decide(signals_of(data.draw(st.permutations([*rows, *copies])))) == decision


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of random weights that compares wordings and adds BM25's score."""
    fields: dict[str, Any] = {"wording_weight": 0.5, "bm25_weight": 0.1, "calibration": {MODEL: FIT, FUSED: FIT}}
    return write_checkpoint("ap-transformer", tmp_path_factory.mktemp("decision") / "ranker", **fields)


@pytest.mark.parametrize("bm25", [None, [3.0, 0.5, 1.0]])
@pytest.mark.parametrize("question", ["my parcel", "the battery of the bike", "zebra", TEXTS[2]])
def test_a_checkpoint_decides_by_its_two_best(calibrated: Path, question: str, bm25: list[float] | None) -> None:
    ranker = Ranker.from_pretrained(calibrated, "cpu")
    answers, wordings = TEXTS[1::2], [[text] for text in TEXTS[::2]]
    decision = ranker.decide(question, answers, wordings=wordings, bm25_scores=bm25)
    best = [one.index for one in ranker.rank(question, answers, wordings=wordings, bm25_scores=bm25)[:2]]
    for rows in (best, best[::-1], [0, 1, 2, *best], [2, 1, 0, 2]):
        again = ranker.decide(
            question,
            [answers[row] for row in rows],
            wordings=[wordings[row] for row in rows],
            bm25_scores=None if bm25 is None else [bm25[row] for row in rows],
        )
        assert (again.outcome, again.basis) == (decision.outcome, decision.basis)
        assert again.probability == pytest.approx(decision.probability, abs=1e-6)


@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_a_checkpoint_decides_by_its_two_best_whatever_is_known(calibrated: Path, data: st.DataObject) -> None:
    """Some entries have wordings, others none, and the question may be one of them; the two best may have none."""
    ranker = Ranker.from_pretrained(calibrated, "cpu")
    answers = list(dict.fromkeys(TEXTS))
    wordings = data.draw(st.lists(st.sampled_from([(), (), *((text,) for text in TEXTS)]), **sized(len(answers))))
    bm25 = data.draw(st.none() | st.lists(st.sampled_from([0.0, 0.5, 3.0]), **sized(len(answers))))
    question = data.draw(st.sampled_from(["my parcel", "zebra", *TEXTS]))

    def decide(rows: Sequence[int]) -> Decision:
        known = None if bm25 is None else [bm25[row] for row in rows]
        chosen = [wordings[row] for row in rows]
        return ranker.decide(question, [answers[row] for row in rows], wordings=chosen, bm25_scores=known)

    decision = decide(range(len(answers)))
    best = [one.index for one in ranker.rank(question, answers, 2, wordings=wordings, bm25_scores=bm25)]
    further = data.draw(st.lists(st.sampled_from(range(len(answers)))))
    for rows in (best, sorted({*best, *further}), [*best, *further]):
        again = decide(rows)
        assert (again.outcome, again.basis) == (decision.outcome, decision.basis)
        assert again.probability == pytest.approx(decision.probability, abs=1e-6)


def sized(length: int) -> dict[str, int]:
    return {"min_size": length, "max_size": length}
