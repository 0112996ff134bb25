"""Encoded once, ranked ever after: the cache, the packed states and the encoded corpus, all against plain encoding."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from conftest import TEXTS, exact_ranker, write_checkpoint
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from ap_ranker.models.base import States
from ap_ranker.models.registry import MODELS
from ap_ranker.ranking import encode_corpus as module
from ap_ranker.ranking.cache import OVERHEAD, EncodingCache
from ap_ranker.ranking.encode_corpus import encode_corpus
from ap_ranker.ranking.fingerprint import fingerprint
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.stored_encodings import Encodings

ANSWERS = [*TEXTS, "", "battery", "the original battery " * 9, TEXTS[1]]
TOLERANCE = {StateDtype.float32: 1e-6, StateDtype.float16: 5e-3, StateDtype.int8: 5e-2, StateDtype.int4: 0.3}
"""How far a score may move, as a share of the spread of the scores; float32 differs by the order of additions."""

CPU = torch.device("cpu")


KINDS = {"ap-bilstm", "ap-cnn", "ap-transformer", "qa-cnn"}  # vectors of tokens, their ids, both, a vector of a text

each_model_and_dtype = pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=[] if StateDtype.float32 == dtype or name in KINDS else pytest.mark.slow)
        for name in sorted(MODELS)
        for dtype in StateDtype
    ],
)
"""Every model as it is, and every precision of each kind of states."""


def plain_and(ranker: Ranker, other: Ranker) -> tuple[torch.Tensor, torch.Tensor]:
    return ranker.score(TEXTS[0], ANSWERS), other.score(TEXTS[0], ANSWERS)


def close(found: torch.Tensor, expected: torch.Tensor, dtype: StateDtype) -> bool:
    spread = float(expected.max() - expected.min()) + 1
    return torch.allclose(found, expected, rtol=0, atol=TOLERANCE[dtype] * spread)


@each_model_and_dtype
def test_cached_scores_are_the_plain_ones(name: str, dtype: StateDtype, tmp_path: Path) -> None:
    """Cold, warm and half warm, for every model."""
    folder = write_checkpoint(name, tmp_path / "c")
    plain = exact_ranker(folder)
    cached = Ranker.from_pretrained(folder, "cpu", cache=EncodingCache(10**7, dtype))
    expected = plain.score(TEXTS[0], ANSWERS)
    assert close(cached.score(TEXTS[0], ANSWERS[:3]), expected[:3], dtype)
    for _ in range(2):
        assert close(cached.score(TEXTS[0], ANSWERS), expected, dtype)


def test_float32_keeps_states_as_they_are(name: str, tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint(name, tmp_path / "c"), "cpu")
    with torch.no_grad():
        states = ranker.encode_answers(ranker.tokenize(ANSWERS))
    restored = QuantizedStates.quantize(states, StateDtype.float32).dequantize(CPU)
    assert torch.equal(restored.mask, states.mask)
    for kept, expected in ((restored.per_token, states.per_token), (restored.per_text, states.per_text)):
        assert kept.keys() == expected.keys()
        assert all(torch.equal(value, expected[name]) for name, value in kept.items())


def test_lower_dtype_takes_fewer_bytes() -> None:
    states = States(torch.ones(3, 5, dtype=torch.bool), {"states": torch.randn(3, 5, 64)})
    sizes = [sum(v.nbytes for v in QuantizedStates.quantize(states, dtype).tensors().values()) for dtype in StateDtype]
    assert sizes == [3 * 5 * 64 * 4, 3 * 5 * 64 * 2, 3 * 5 * (64 + 2), 3 * 5 * (32 + 2)]


def test_a_cache_without_room_only_rounds(tmp_path: Path) -> None:
    """What `ap-ranker evaluate --dtype` measures."""
    folder = write_checkpoint("ap-bilstm", tmp_path / "c")
    plain, rounding = (
        Ranker.from_pretrained(folder, "cpu", cache=c) for c in (None, EncodingCache(0, StateDtype.int8))
    )
    [(rows, states)], [(_, rounded)] = (list(ranker.answer_states(ANSWERS[:5])) for ranker in (plain, rounding))
    assert sorted(rows) == [0, 1, 2, 3, 4]
    expected = QuantizedStates.quantize(states, StateDtype.int8).dequantize(CPU)
    assert torch.equal(rounded.per_token["states"], expected.per_token["states"])
    assert not torch.equal(rounded.per_token["states"], states.per_token["states"])
    assert rounding.cache is not None
    assert rounding.cache.info().entries == rounding.cache.info().bytes == 0


def test_each_answer_is_encoded_once(checkpoint: Path) -> None:
    ranker = Ranker.from_pretrained(checkpoint, "cpu", cache=EncodingCache(10**7))
    assert ranker.cache is not None
    with patch.object(ranker, "encode_answers", wraps=ranker.encode_answers) as encode:
        ranker.score("Where is it?", ANSWERS)
        ranker.score("And the helmet?", ANSWERS[::-1])
        edited = [*ANSWERS[1:], "Open the tracking link in our letter to see where your parcel is."]
        ranker.score("Where is it?", edited)
    assert sum(len(call.args[0]) for call in encode.call_args_list) == len(set(ANSWERS)) + 1
    info = ranker.cache.info()
    assert info.hits + info.misses == 2 * len(set(ANSWERS)) + len(set(edited))  # one that comes twice is one text
    assert info.misses == len(set(ANSWERS)) + 1
    assert info.entries == len(set(ANSWERS)) + 1


def states_of(numbers: list[int]) -> QuantizedStates:
    """Text n has 1 to 17 tokens, each state n, and a vector of n."""
    lengths = np.array([1 + number % 3 * 8 for number in numbers])
    values = torch.tensor(numbers, dtype=torch.float32).unsqueeze(1)
    tokens = values.repeat_interleave(torch.from_numpy(lengths), dim=0).expand(-1, 2)
    return QuantizedStates(lengths, {"states": tokens}, {"vector": values.expand(-1, 3)})


def size_of(number: int) -> int:
    return int(states_of([number]).lengths[0]) * 2 * 4 + 3 * 4 + sys.getsizeof(str(number)) + 3 * OVERHEAD


BATCH = st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True)


@given(st.lists(st.tuples(st.booleans(), BATCH), max_size=40), st.integers(0, 6))
def test_the_least_recently_used_goes_first(steps: list[tuple[bool, list[int]]], room: int) -> None:
    """Against a list that is searched and sorted by hand, with batches that may not fit at once."""
    limit = room * (3 * OVERHEAD + 150)
    cache = EncodingCache(limit)
    model: list[int] = []
    for write, numbers in steps:
        texts = list(map(str, numbers))
        if write:
            cache.put(texts, states_of(numbers))
            for number in numbers:
                if number not in model and size_of(number) <= limit:
                    model.append(number)
                while sum(map(size_of, model)) > limit:
                    model.pop(0)
        else:
            found = cache.find(texts)
            here = [number for number in numbers if number in model]
            assert [numbers[row] for row in found] == here
            for number, states in zip(here, found.values(), strict=True):
                model.append(model.pop(model.index(number)))
                expected = states_of([number]).tensors()
                assert all(torch.equal(value, expected[name]) for name, value in states.tensors().items())
    assert cache.info().bytes == sum(map(size_of, model)) <= limit
    assert cache.info().entries == len(model)


def test_a_cached_text_keeps_no_others_memory() -> None:
    """What was encoded together is not evicted together."""
    [one, _] = states_of([1, 2]).split()
    assert all(value.untyped_storage().nbytes() == value.nbytes for value in one.tensors().values())


def test_a_cache_under_threads(checkpoint: Path) -> None:
    """Small enough to forget all the time; every thread still gets the plain scores."""
    plain = Ranker.from_pretrained(checkpoint, "cpu")
    cached = Ranker.from_pretrained(checkpoint, "cpu", cache=EncodingCache(6_000))
    expected = {text: plain.score(text, ANSWERS) for text in TEXTS}
    wrong: list[str] = []

    def work(text: str) -> None:
        for _ in range(20):
            if not torch.allclose(cached.score(text, ANSWERS), expected[text], atol=1e-5):
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(text,)) for text in TEXTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cached.cache is not None
    assert cached.cache.info().bytes <= 6_000


# --- a corpus on disk ---


@each_model_and_dtype
def test_an_encoded_corpus_scores_as_plain_encoding(
    name: str, dtype: StateDtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 3)
    folder = write_checkpoint(name, tmp_path / "c")
    assert encode_corpus(folder, ANSWERS, tmp_path / "e", dtype=dtype, device="cpu") == len(set(ANSWERS))
    warm = Ranker.from_pretrained(folder, "cpu", encodings=tmp_path / "e")
    with patch.object(warm, "encode_answers") as encode:
        found = warm.score(TEXTS[0], ANSWERS)
        encode.assert_not_called()
    assert close(found, exact_ranker(folder).score(TEXTS[0], ANSWERS), dtype)


def test_texts_that_are_not_in_the_corpus_are_encoded(checkpoint: Path, tmp_path: Path) -> None:
    encode_corpus(checkpoint, ANSWERS[:4], tmp_path / "e", dtype=StateDtype.float32, device="cpu")
    warm = Ranker.from_pretrained(checkpoint, "cpu", encodings=tmp_path / "e", cache=EncodingCache(10**6))
    plain, found = plain_and(Ranker.from_pretrained(checkpoint, "cpu"), warm)
    assert torch.allclose(found, plain, atol=1e-6)


def test_an_interrupted_run_goes_on_and_a_changed_corpus_costs_its_changes(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    output = tmp_path / "e"

    def stop(done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_corpus(checkpoint, ANSWERS, output, device="cpu", on_progress=stop)
    assert len(Encodings.open(output, fingerprint(checkpoint))) == 4
    assert encode_corpus(checkpoint, ANSWERS, output, device="cpu") == len(set(ANSWERS)) - 4
    assert encode_corpus(checkpoint, ANSWERS, output, device="cpu") == 0
    assert encode_corpus(checkpoint, [*ANSWERS, "a new entry"], output, device="cpu") == 1
    assert len(Encodings.open(output, fingerprint(checkpoint))) == len(set(ANSWERS)) + 1


def test_what_a_killed_process_began_to_write_is_taken_back(checkpoint: Path, tmp_path: Path) -> None:
    encode_corpus(checkpoint, ANSWERS, tmp_path / "e", device="cpu")
    with closing(sqlite3.connect(tmp_path / "e" / "encodings.sqlite")) as database:
        database.execute("PRAGMA cache_size = 1")  # it writes before the end
        database.execute("UPDATE states SET length = 1000")
        rows = [(str(row).encode(), bytes(100_000)) for row in range(50)]
        database.executemany("INSERT INTO states VALUES (?, 1, ?)", rows)
        shutil.copytree(tmp_path / "e", tmp_path / "killed")
    assert (tmp_path / "killed" / "encodings.sqlite-journal").stat().st_size
    found = Encodings.open(tmp_path / "killed", fingerprint(checkpoint))
    assert len(found) == len(set(ANSWERS))
    assert 1000 not in found.lengths(ANSWERS)


def test_processes_of_torchrun_are_sent_to_the_index(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with refused("2 … torchrun … ap-ranker index … --part 1/4"):
        encode_corpus(checkpoint, ANSWERS, tmp_path / "e", device="cpu")
    assert not (tmp_path / "e").exists()


def test_another_checkpoints_encodings_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    encode_corpus(checkpoint, ANSWERS, tmp_path / "e", device="cpu")
    other = write_checkpoint("qa-cnn", tmp_path / "other")
    with refused("ap-cnn"):
        Ranker.from_pretrained(other, "cpu", encodings=tmp_path / "e")
    with refused("ap-cnn"):
        encode_corpus(other, ANSWERS, tmp_path / "e", device="cpu")
    with refused("int8 … float16"):
        encode_corpus(checkpoint, ANSWERS, tmp_path / "e", device="cpu", dtype=StateDtype.int8)


def test_damaged_and_foreign_folders(checkpoint: Path, tmp_path: Path) -> None:
    def opened(folder: Path) -> None:
        Ranker.from_pretrained(checkpoint, "cpu", encodings=folder)

    with refused("ap-ranker encode"):
        opened(tmp_path / "nowhere")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with refused("mine"):
        encode_corpus(checkpoint, ANSWERS, tmp_path / "mine", device="cpu")
    encode_corpus(checkpoint, ANSWERS, tmp_path / "e", device="cpu")
    file = tmp_path / "e" / "encodings.sqlite"
    for content in (b"", b"no database", file.read_bytes()[:100]):
        file.write_bytes(content)
        with refused("damaged … ap-ranker encode"):
            opened(tmp_path / "e")


def test_a_fingerprint_is_of_what_decides_the_states(checkpoint: Path, tmp_path: Path) -> None:
    other = write_checkpoint("ap-cnn", tmp_path / "same")
    assert fingerprint(other) == fingerprint(checkpoint)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"training": {"seed": 3}}))
    assert fingerprint(other) == fingerprint(checkpoint)
    (other / "config.json").write_text(json.dumps(config | {"max_tokens": 3}))
    assert fingerprint(other) != fingerprint(checkpoint)
