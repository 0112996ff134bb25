"""Receipts: read by every server with the same secret, for the same question and answer, for a day."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("itsdangerous", reason="the extra serve is not installed")

from ap_ranker.web.signed_answers import MAX_AGE, MAX_CHARACTERS, AnswerSigner, ShownAnswer

OURS, AGAIN, THEIRS = AnswerSigner(b"a" * 32), AnswerSigner(b"a" * 32), AnswerSigner(b"b" * 32)


@given(st.text(), st.text(), st.text(), st.text())
def test_what_was_signed_is_read(question: str, key: str, answer: str, stored: str) -> None:
    shown = ShownAnswer(answer, stored)
    receipt = OURS.sign(question, key, shown)
    assert receipt is not None
    assert receipt.isascii()
    assert AGAIN.read(question, key, receipt) == shown
    assert THEIRS.read(question, key, receipt) is None
    assert OURS.read(question + "x", key, receipt) is None
    assert OURS.read(question, key + "x", receipt) is None
    assert OURS.read(question + key, "", receipt) in (None, shown if not key else None)


@given(st.data())
def test_no_changed_receipt_is_read(data: st.DataObject) -> None:
    receipt = OURS.sign("q", "k", ShownAnswer("a", "b")) or ""
    place = data.draw(st.integers(0, len(receipt) - 2))  # some of the last character's bits are none of the signature
    same = {"-": "-+", "_": "_/"}.get(receipt[place], receipt[place])  # as the two alphabets of base64 write it
    other = data.draw(st.characters(codec="ascii").filter(lambda character: character not in same))
    assert OURS.read("q", "k", receipt[:place] + other + receipt[place + 1 :]) is None
    assert OURS.read("q", "k", receipt[:place]) is None


@given(st.text())
def test_what_is_no_receipt(text: str) -> None:
    assert OURS.read("q", "k", text) is None


def test_an_old_receipt_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    receipt, started = OURS.sign("q", "k", ShownAnswer("a", "b")) or "", time.time()
    for age, valid in ((MAX_AGE - 60, True), (MAX_AGE + 60, False)):
        monkeypatch.setattr(time, "time", lambda age=age: started + age)
        assert (OURS.read("q", "k", receipt) is not None) == valid


def test_a_receipt_has_a_maximum_length() -> None:
    incompressible = "".join(map(chr, range(0x4E00, 0x4E00 + 20_000)))
    assert len(OURS.sign("q", "k", ShownAnswer("x" * 10_000_000, "")) or "") < MAX_CHARACTERS
    assert OURS.sign("q", "k", ShownAnswer(incompressible * 20, "")) is None or len(incompressible) < 20_000
