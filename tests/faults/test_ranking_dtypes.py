"""Encodings of one dtype, a cache of another: every score is the plain one's, whatever comes from where."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TEXTS, write_checkpoint

from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.encode_corpus import encode_corpus
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
    """Texts of three tokens."""
    values = torch.tensor(numbers).unsqueeze(1)
    tokens = values.repeat_interleave(3, dim=0).expand(-1, 4)
    return QuantizedStates(np.full(len(numbers), 3), {"states": tokens}, {"vector": values.expand(-1, 2)})


@pytest.mark.parametrize("dtype", StateDtype)
def test_a_cache_keeps_its_own_dtype(dtype: StateDtype) -> None:
    cache = EncodingCache(10**6, dtype)
    expected = states_of([1.0, 2.0, 3.0, 4.0]).dequantize(torch.device("cpu"))
    for text, given in zip("abcd", StateDtype, strict=True):
        cache.put([text], QuantizedStates.quantize(expected["abcd".index(text)][None], given))
    found = QuantizedStates.joined(list(cache.find(["a", "b", "c", "d"]).values()))
    dtypes = {value.dtype for name, value in found.tensors().items() if ".scale" not in name}
    assert dtypes == ({torch.int8, torch.uint8} if dtype == StateDtype.int4 else {getattr(torch, dtype)})
    restored = found.dequantize(torch.device("cpu"))
    assert torch.allclose(restored.per_text["vector"], expected.per_text["vector"], rtol=1e-2)
