"""Texts that a program may hold but no file in UTF-8: they are read all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import TEXTS, write_checkpoint

from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.encode_corpus import encode_corpus
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import split_words

BROKEN = "where \ud800 is \udfff\ud83d my parcel"
"""Lone halves of surrogate pairs, as the JSON "\\ud800" has them."""


@pytest.mark.parametrize("name", ["ap-cnn", "ap-transformer", "bm25"])
def test_lone_surrogates_are_question_marks(name: str, tmp_path: Path) -> None:
    folder = write_checkpoint(name, tmp_path / "c")
    ranker = Ranker.from_pretrained(folder, "cpu")
    whole = BROKEN.replace("\ud800", "?").replace("\udfff", "?").replace("\ud83d", "?")
    assert ranker.score(BROKEN, [*TEXTS, BROKEN]).tolist() == ranker.score(whole, [*TEXTS, whole]).tolist()
    assert ranker.tokenizer.spans(BROKEN) == ranker.tokenizer.spans(whole)
    assert encode_corpus(folder, [BROKEN, whole], tmp_path / "e", device="cpu") == 2
    assert split_words(BROKEN) == split_words(whole)
    assert BM25([BROKEN, "other"]).scores(BROKEN).tolist() == BM25([whole, "other"]).scores(whole).tolist()
