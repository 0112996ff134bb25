"""AnswerSigner, and the secret that several servers share."""

from __future__ import annotations

import stat
from base64 import urlsafe_b64decode, urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.web.signed_answers import AnswerSigner, ShownAnswer, shared_secret

OURS, THEIRS = AnswerSigner(b"a" * 32), AnswerSigner(b"b" * 32)


@given(st.text(), st.text(), st.text(), st.text())
def test_what_was_signed_is_read(question: str, key: str, answer: str, stored: str) -> None:
    shown = ShownAnswer(answer, stored)
    receipt = OURS.sign(question, key, shown)
    assert receipt is not None
    assert receipt.isascii()
    assert OURS.read(question, key, receipt) == shown
    assert THEIRS.read(question, key, receipt) is None
    assert OURS.read(question + "x", key, receipt) is None
    assert OURS.read(question, key + "x", receipt) is None
    assert OURS.read(question + key, "", receipt) in (None, shown if not key else None)


@given(st.data())
def test_no_changed_receipt_is_read(data: st.DataObject) -> None:
    receipt = urlsafe_b64decode(OURS.sign("q", "k", ShownAnswer("a", "b")) or "")
    place = data.draw(st.integers(0, len(receipt) - 1))
    changed = bytearray(receipt)
    changed[place] ^= data.draw(st.integers(1, 255))
    assert OURS.read("q", "k", urlsafe_b64encode(changed).decode()) is None


@given(st.text() | st.binary().map(lambda content: urlsafe_b64encode(content).decode()))
def test_what_is_no_receipt(text: str) -> None:
    assert OURS.read("q", "k", text) is None


def test_servers_that_start_together_share_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "feedback.jsonl.key"
    with ThreadPoolExecutor(16) as servers:
        secrets = set(servers.map(shared_secret, [path] * 64))
    assert len(secrets) == 1
    assert len(secrets.pop()) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_secret(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    assert len(shared_secret(path)) == 32
    assert path.read_bytes() == content
    assert "expected 32 bytes" in caplog.text


def test_no_place_for_a_secret(tmp_path: Path) -> None:
    first, second = (shared_secret(tmp_path / "none" / "key") for _ in range(2))
    assert first != second
    (tmp_path / "folder").mkdir()
    assert len(shared_secret(tmp_path / "folder")) == 32
