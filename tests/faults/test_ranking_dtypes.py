"""Encodings of one dtype, a cache of another: every score is the plain one's, whatever comes from where."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from conftest import TEXTS, write_checkpoint
from torch import Tensor

from ap_ranker.ranking.cache import EncodingCache, _Table
from ap_ranker.ranking.encode import encode_corpus
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.ranking.ranker import Ranker

ANSWERS = [*TEXTS, "", "battery", "the original battery " * 9, TEXTS[1]]
TOLERANCE = {StateDtype.float32: 1e-5, StateDtype.float16: 5e-3, StateDtype.int8: 5e-2, StateDtype.int4: 0.3}
"""How far a score may move, as a share of the spread of the scores."""


@pytest.mark.parametrize("name", ["ap-bilstm", "qa-cnn", "hyperqa"])  # token states, a vector, one that is not rounded
@pytest.mark.parametrize(("stored", "cached"), permutations(StateDtype, 2))
def test_unequal_dtypes(name: str, stored: StateDtype, cached: StateDtype, tmp_path: Path) -> None:
    folder = write_checkpoint(name, tmp_path / "c")
    expected = Ranker.from_pretrained(folder, "cpu").score(TEXTS[0], ANSWERS)
    encode_corpus(folder, ANSWERS[::2], tmp_path / "e", dtype=stored, device="cpu")
    ranker = Ranker.from_pretrained(folder, "cpu", cache=EncodingCache(10**7, cached), encodings=tmp_path / "e")
    coarser = (
        max(stored, cached, key=TOLERANCE.__getitem__) if ranker.model.supports_quantization else StateDtype.float32
    )
    tolerance = TOLERANCE[coarser] * (float(expected.max() - expected.min()) + 1)
    for answers in (slice(0, 1), slice(None), slice(None)):  # from disk alone, mixed with new ones, all from the cache
        found = ranker.score(TEXTS[0], ANSWERS[answers])
        assert torch.allclose(found, expected[answers], rtol=0, atol=tolerance)
    assert ranker.cache is not None
    assert ranker.cache.count(ANSWERS) == len(ANSWERS)


def states_of(numbers: list[float]) -> QuantizedStates:
    values = torch.tensor(numbers)
    tokens = values[:, None, None].expand(-1, 3, 4)
    lengths = torch.full((len(numbers),), 3)
    return QuantizedStates(lengths, {"states": tokens}, {"vector": values[:, None].expand(-1, 2)})


@pytest.mark.parametrize("dtype", StateDtype)
def test_a_cache_keeps_its_own_dtype(dtype: StateDtype) -> None:
    cache = EncodingCache(10**6, dtype)
    expected = states_of([1.0, 2.0, 3.0, 4.0]).dequantize(torch.device("cpu"))
    for text, given in zip("abcd", StateDtype, strict=True):
        cache.put([text], QuantizedStates.quantize(expected["abcd".index(text)][None], given))
    found = cache.states(["a", "b", "c", "d"])
    assert found is not None
    dtypes = {value.dtype for name, value in found.tensors().items() if ".scale" not in name}
    assert dtypes == ({torch.int8, torch.uint8} if dtype == StateDtype.int4 else {getattr(torch, dtype)})
    restored = found.dequantize(torch.device("cpu"))
    assert torch.allclose(restored.per_text["vector"], expected.per_text["vector"], rtol=1e-2)


def test_what_could_not_be_written_is_not_there() -> None:
    """An entry shows when its rows are written; a failure on the way costs neither rows nor bytes."""
    cache = EncodingCache(10**6)
    cache.put(["old"], states_of([7.0]))
    rows, pages = cache._rows._next, cache._pages._next
    write = _Table.write

    def fail(table: _Table, at: object, tensors: dict[str, Tensor]) -> None:
        assert cache._entries.keys() == {"old"}  # not before the rows are written
        if "states" in tensors:
            raise MemoryError
        write(table, at, tensors)

    for _ in range(5):
        with patch.object(_Table, "write", fail), pytest.raises(MemoryError):
            cache.put(["x", "y"], states_of([1.0, 2.0]))
    assert cache.count(["x", "y"]) == 0
    assert cache.states(["x"]) is None
    assert cache.info().entries == 1
    before = cache.info().bytes
    cache.put(["x", "y"], states_of([1.0, 2.0]))
    assert (cache._rows._next, cache._pages._next) == (rows + 2, pages + 2)
    assert cache.info().bytes == 3 * before - 2 * (len("old") - len("x"))
    found = cache.states(["y", "old", "x"])
    assert found is not None
    assert found.per_text["vector"][:, 0].tolist() == [2.0, 7.0, 1.0]
