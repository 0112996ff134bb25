"""A known wording typed word for word gets its answer, whatever model and threshold say; repetition gains nothing."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import TEXTS, write_checkpoint
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import BM25, LONGEST, MOST_TIMES
from ap_ranker.ranking.checkpoint import (
    TRAINED_FORMS,
    TRAINED_QUESTIONS,
    find_trained,
    read_trained_forms,
    trained_forms,
    trained_lines,
)
from ap_ranker.ranking.decision import Decider
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Calibration, Signals, Weights
from ap_ranker.ranking.wordings import is_exact_match

STORED = [[text] for text in TEXTS[::2]]
STRICT = {"model": Calibration(1.0, 1.0, -1.0, {"0.9": 0.99, "0.99": 0.9999})}


@pytest.mark.parametrize(
    "asked",
    [
        "Where is my parcel?",
        "WHERE   is my\tparcel",
        "where is my parcel ?!",
        "where is my parcel.",
        "Where is my parcel？",
        "Ｗｈｅｒｅ　ｉｓ　ｍｙ　ｐａｒｃｅｌ？",
    ],
)
def test_case_white_space_and_final_punctuation_do_not_count(asked: str) -> None:
    assert is_exact_match(asked, STORED) == [True, False, False]


def test_other_differences_count() -> None:
    for asked in ("Where is my parcel now?", "Where's my parcel?", "", "?", "C++"):
        assert is_exact_match(asked, [*STORED, ["C"], [""], []]) == [False] * 6


scores = st.lists(st.tuples(st.floats(-3, 3, width=32), st.booleans()), min_size=1, max_size=8)


@given(scores, st.sampled_from([None, "precision", "score_threshold"]), st.sampled_from([{}, STRICT]), st.booleans())
def test_the_decision(
    given_: list[tuple[float, bool]], limit: str | None, fits: dict[str, Calibration], scale: bool
) -> None:
    """First the known ones by their scores, never left out; then the others, none of which is more sure than these."""
    decision = Decider("c", Weights(), fits, lambda values: (1 + values.tanh()) / 2)
    values, known = np.array([value for value, _ in given_]), [each for _, each in given_]
    limits = {limit: 0.9} if limit and (fits or limit != "precision") else {}
    plain = decision.answer(Signals(values), scale_score=scale, **limits)[0]  # type: ignore[arg-type]
    everything = dict(decision.answer(Signals(values), scale_score=scale)[0])
    signals = Signals(values, exact=np.array(known))
    answers = decision.answer(signals, scale_score=scale, **limits)[0]  # type: ignore[arg-type]
    first = sorted((row for row, each in enumerate(known) if each), key=lambda row: -values[row])
    others = [row for row, _ in plain if not known[row]]
    kept = len(answers) - len(first)  # a threshold may leave out more of what is less sure
    assert [row for row, _ in answers] == [*first, *others[:kept]]
    assert kept == len(others) or limits
    if not first:
        assert answers == plain
    for row, score in answers:
        # A probability of another one may rise where the lead of the best over it falls.
        assert score >= everything[row] if known[row] else fits or score <= everything[row]
        assert 0 <= score <= 1 or not scale
    assert all(one[1] >= other[1] for one, other in itertools.pairwise(answers))
    if limits == {"score_threshold": 0.9}:
        assert all(score >= 0.9 for _, score in answers)


@pytest.mark.parametrize("name", ["ap-cnn", "ap-transformer"])
@pytest.mark.parametrize("precision", [0.9, 0.99])
def test_every_stored_question_gets_its_answer(name: str, precision: float, tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint(name, tmp_path / "c"), "cpu")
    assert ranker.config is not None
    ranker.config = replace(ranker.config, calibration=STRICT)
    for row, question in enumerate(TEXTS[::2]):
        assert not ranker.rank(question, TEXTS[1::2], precision=precision, scale_score=True)
        for asked in (question, f"  {question.upper().replace(' ', '   ')} "):
            [best] = ranker.rank(asked, TEXTS[1::2], wordings=STORED, precision=precision, scale_score=True)
            assert best.index == row
            assert 0 <= best.score <= 1


def test_two_entries_that_share_it_come_first_in_the_order_of_their_scores(checkpoint: Path) -> None:
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    alone = ranker.score("help", TEXTS).tolist()
    worst, second, *_ = sorted(range(len(TEXTS)), key=alone.__getitem__)
    wordings = [["Help!"] if row in (worst, second) else [] for row in range(len(TEXTS))]
    ranked = ranker.rank("help", TEXTS, wordings=wordings)
    assert [answer.index for answer in ranked[:2]] == [second, worst]
    assert len(ranked) == len(TEXTS)


@pytest.mark.parametrize("name", ["ap-cnn", "ap-transformer", "qa-bilstm"])
def test_a_repeated_question_scores_as_the_question(name: str, tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint(name, tmp_path / "c"), "cpu")
    index = BM25(TEXTS)
    for question in (*TEXTS[::2], "refund", "parcel"):
        for repeated in (f"{question} {question}", f"{question.upper()} " * 7, (f"{question} " * 200)[:1000]):
            assert ranker.score(repeated, TEXTS).tolist() == pytest.approx(
                ranker.score(question, TEXTS).tolist(), abs=1e-5
            )
            assert index.scores(repeated).tolist() == pytest.approx(index.scores(question).tolist(), abs=1e-5)


def test_a_word_among_others_counts_a_few_times_at_most() -> None:
    index = BM25(TEXTS)
    once = index.scores("parcel")
    mixed = " ".join(f"parcel x{n}" for n in range(LONGEST - MOST_TIMES))
    assert index.scores(mixed).tolist() == pytest.approx((MOST_TIMES * once).tolist())
    assert index.scores("parcel or no parcel").tolist() == pytest.approx((2 * once).tolist())  # as in Lucene


def test_a_long_question_scores_as_the_mean_of_its_words() -> None:
    index = BM25(TEXTS)
    words = [word for text in TEXTS for word in dict.fromkeys(re.findall("[a-z]+", text.lower()))][: 2 * LONGEST]
    words = list(dict.fromkeys(words))
    assert len(words) > LONGEST
    naive = sum(index.scores(word) for word in words) / len(words) * LONGEST
    assert index.scores(" ".join(words)).tolist() == pytest.approx(naive.tolist(), abs=1e-5)
    short = words[:LONGEST]
    assert index.scores(" ".join(short)).tolist() == pytest.approx(sum(map(index.scores, short)).tolist(), abs=1e-5)


def test_a_checkpoint_knows_what_it_has_seen(tmp_path: Path) -> None:
    assert find_trained(tmp_path, ["a"]) is None
    lines = trained_lines(["Where is my parcel?", "How much?", "where is my parcel"])
    assert sorted(map(len, lines.splitlines())) == [8, 8]
    assert "parcel" not in lines
    (tmp_path / TRAINED_QUESTIONS).write_text(lines)
    assert find_trained(tmp_path, ["WHERE is my  parcel", "how much!", "how much more?"]) == [True, True, False]


def test_near_copies_of_what_was_learnt_are_recognized_by_hashes(tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    (before / TRAINED_FORMS).write_bytes(trained_forms(["How do I cancel my order?"]))
    (tmp_path / TRAINED_FORMS).write_bytes(trained_forms(["Where can I charge the battery of my bike?"], before))
    forms = read_trained_forms(tmp_path)
    assert forms is not None
    copies = ["Hi, how do I cancle my order? Thanks!", "where can i charge the batery of my bike pls"]
    assert all(map(forms.has, copies))
    assert not any(map(forms.has, ["How do I change my order?", "Where can I charge my phone?"]))
    content = (tmp_path / TRAINED_FORMS).read_bytes()
    assert not [word for word in (b"cancel", b"battery", b"order") if word in content]


def test_damaged_forms_are_refused_by_name(tmp_path: Path) -> None:
    assert read_trained_forms(tmp_path) is None
    (tmp_path / TRAINED_FORMS).write_bytes(b"no forms")
    with pytest.raises(InputError, match=TRAINED_FORMS):
        read_trained_forms(tmp_path)


def test_forms_in_another_order_are_refused_by_name(tmp_path: Path) -> None:
    names = ("own", "variants", "exchanges")
    for order, is_read in (([1, 2, 2], True), ([2, 1], False), ([], True)):
        (tmp_path / TRAINED_FORMS).write_bytes(save(dict.fromkeys(names, np.array(order, dtype=np.uint32))))
        if is_read:
            assert read_trained_forms(tmp_path) is not None
            continue
        with pytest.raises(InputError, match=TRAINED_FORMS):  # no copy would be recognized
            read_trained_forms(tmp_path)
