"""Encodings that a dtype cannot hold, and those of another precision than the checkpoint's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TEXTS, write_checkpoint
from refusals import refused

from ap_ranker.models.base import States
from ap_ranker.ranking.encode_corpus import encode_corpus
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker


def test_states_that_a_dtype_cannot_hold_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half precision ends at 65,504: what is beyond would be read as infinite, and its text never be ranked."""
    folder = write_checkpoint("qa-cnn", tmp_path / "c")
    encode = Ranker.encode_answers

    def large(ranker: Ranker, tokens: Any) -> Any:
        states = encode(ranker, tokens)
        return States(states.mask, per_text={"vector": states.per_text["vector"] + 1e6})

    monkeypatch.setattr(Ranker, "encode_answers", large)
    with refused("float16 … --dtype float32"):
        encode_corpus(folder, TEXTS, tmp_path / "e", device="cpu")
    assert encode_corpus(folder, TEXTS, tmp_path / "f", dtype=StateDtype.float32, device="cpu") == len(TEXTS)


def test_encodings_in_8_bits(tmp_path: Path) -> None:
    folder = write_checkpoint("ap-bilstm", tmp_path / "c")
    encode_corpus(folder, TEXTS, tmp_path / "e", dtype=StateDtype.int8, device="cpu")
    found = Ranker.from_pretrained(folder, "cpu", encodings=tmp_path / "e").score(TEXTS[0], TEXTS)
    expected = Ranker.from_pretrained(folder, "cpu").score(TEXTS[0], TEXTS)
    assert torch.allclose(found, expected, atol=0.05)
