"""A ranker that is copied or pickled, as multiprocessing and Haystack do, ranks the same with a model of its own."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import TEXTS, make_model, write_checkpoint

from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.encode_corpus import encode_corpus
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import WordTokenizer

QUESTION = "Where is my parcel?"

Copy = Callable[[Ranker], Ranker]


def pickled(ranker: Ranker) -> Ranker:
    found: Ranker = pickle.loads(pickle.dumps(ranker))
    return found


@pytest.fixture(params=[copy.deepcopy, pickled], ids=["copied", "pickled"])
def copied(request: pytest.FixtureRequest) -> Copy:
    found: Copy = request.param
    return found


@pytest.mark.parametrize(
    "max_bytes", [pytest.param(None, id="no cache", marks=pytest.mark.slow), pytest.param(10**7, id="cache")]
)
def test_a_copy_ranks_the_same(name: str, max_bytes: int | None, copied: Copy, tmp_path: Path) -> None:
    """Also of a ranker that has ranked before, which then holds packed weights, locks and known questions."""
    cache = None if max_bytes is None else EncodingCache(max_bytes)
    ranker = Ranker.from_pretrained(write_checkpoint(name, tmp_path / "c"), "cpu", cache=cache)
    expected = [ranker.rank(QUESTION, TEXTS, scale_score=True) for _ in ("cold", "warm")]
    other = copied(ranker)
    assert [other.rank(QUESTION, TEXTS, scale_score=True) for _ in ("cold", "warm")] == expected
    assert copied(other).rank(QUESTION, TEXTS, scale_score=True) == expected[0]
    if ranker.cache is not None and other.cache is not None:
        assert other.cache.info() == ranker.cache.info()
        assert (other.cache.max_bytes, other.cache.dtype) == (ranker.cache.max_bytes, ranker.cache.dtype)


def test_a_copy_has_weights_of_its_own(copied: Copy, tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c"), "cpu")
    expected = ranker.score(QUESTION, TEXTS)
    other = copied(ranker)
    with torch.no_grad():
        for weights in other.model.parameters():
            weights.mul_(1.5).add_(0.1)
    other.model.train()  # and its packed weights are none of the old ones afterwards
    assert not torch.allclose(other.score("Which battery?", TEXTS), ranker.score("Which battery?", TEXTS))
    assert torch.equal(ranker.score(QUESTION, TEXTS), expected)


def test_a_copy_reads_the_same_encodings(copied: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_checkpoint("ap-transformer", tmp_path / "c")
    encode_corpus(folder, TEXTS, tmp_path / "encodings", dtype=StateDtype.float32)
    ranker = Ranker.from_pretrained(folder, "cpu", encodings=tmp_path / "encodings")
    expected = ranker.score(QUESTION, TEXTS)
    other = copied(ranker)
    monkeypatch.setattr(other.model, "encode_answers", None)
    assert torch.equal(other.score(QUESTION, TEXTS), expected)
    assert len(pickle.dumps(ranker.encodings)) < 1000


def test_wordings_are_found_by_a_copy(copied: Copy, tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c"), "cpu")
    assert ranker.config is not None
    object.__setattr__(ranker.config, "wording_weight", 0.5)
    wordings = [[text.upper()] for text in TEXTS]
    expected = ranker.rank(QUESTION, TEXTS, wordings=wordings)
    assert copied(ranker).rank(QUESTION, TEXTS, wordings=wordings) == expected


def test_a_ranker_without_a_checkpoint(tokenizer: WordTokenizer, copied: Copy) -> None:
    ranker = Ranker(make_model("ap-cnn", tokenizer.words), tokenizer)
    assert torch.equal(copied(ranker).score(QUESTION, TEXTS), ranker.score(QUESTION, TEXTS))


def test_a_ranker_is_copied_while_others_ask_it(copied: Copy, tmp_path: Path) -> None:
    cache = EncodingCache(10**7)
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c"), "cpu", cache=cache)
    expected, done = ranker.score(QUESTION, TEXTS), threading.Event()

    def ask() -> None:
        for number in range(10**6):
            ranker.score(f"Where is parcel {number}?", [*TEXTS, str(number)])
            if done.is_set():
                return

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for _ in range(20):
            assert torch.equal(copied(ranker).score(QUESTION, TEXTS), expected)
    finally:
        done.set()
        thread.join()
