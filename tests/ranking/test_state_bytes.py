"""States that documents carry: every model's come back as they were, and nothing else gets into a cache."""

from __future__ import annotations

import copy
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
import torch
from conftest import TEXTS, write_checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from ap_ranker.models.registry import MODELS
from ap_ranker.ranking import loaded_checkpoints, state_bytes
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.state_bytes import StateSealer

ANSWERS = TEXTS[1::2]


def emptied(folder: Path, dtype: StateDtype | None = None) -> Ranker:
    """A ranker of a process that has encoded nothing."""
    loaded_checkpoints._loaded.clear()
    ranker = Ranker.from_pretrained(folder, "cpu")
    ranker.use_cache(10**6, dtype)
    return ranker


def counts(ranker: Ranker) -> tuple[int, int]:
    """Texts encoded, and texts whose states came with documents."""
    assert ranker.cache is not None
    info = ranker.cache.info()
    return info.encoded, info.fetched


@pytest.mark.parametrize("name", sorted(MODELS))
def test_states_of_every_model_travel(name: str, tmp_path: Path) -> None:
    folder = write_checkpoint(name, tmp_path / "checkpoint")
    sealed = emptied(folder).sealed_states(ANSWERS)
    assert all(isinstance(field, str) for field in sealed)
    expected = emptied(folder).score(TEXTS[0], ANSWERS)
    ranker = emptied(folder)
    assert ranker.take_states(ANSWERS, sealed) == 0
    assert torch.allclose(ranker.score(TEXTS[0], ANSWERS), expected, rtol=0, atol=1e-6)
    assert counts(ranker) == (0, len(ANSWERS))


@pytest.mark.parametrize(("dtype", "encoded"), [("float32", 3), ("float16", 3), ("int8", 0), ("int4", 0)])
def test_a_ranker_takes_no_fewer_bits_than_it_reads(tmp_path: Path, dtype: str, encoded: int) -> None:
    """`ap-transformer` is sealed in int8."""
    folder = write_checkpoint("ap-transformer", tmp_path / "checkpoint")
    sealed = emptied(folder).sealed_states(ANSWERS)
    ranker = emptied(folder, StateDtype(dtype))
    assert ranker.take_states(ANSWERS, sealed) == encoded
    expected = emptied(folder, StateDtype(dtype)).score(TEXTS[0], ANSWERS)
    assert torch.allclose(ranker.score(TEXTS[0], ANSWERS), expected, rtol=0, atol=0.2 if dtype == "int4" else 1e-6)
    assert counts(ranker) == (encoded, 3 - encoded)


def test_large_states_do_not_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "checkpoint")
    monkeypatch.setattr(state_bytes, "MOST_BYTES", 40)  # ten ids
    sealed = emptied(folder).sealed_states([TEXTS[1], "parcel"])
    assert sealed[0] is None
    assert sealed[1] is not None


def test_states_that_their_dtype_cannot_represent_do_not_travel(tmp_path: Path) -> None:
    ranker = emptied(write_checkpoint("qa-cnn", tmp_path / "checkpoint"))
    with torch.inference_mode():
        [[_, states]] = ranker._reader._kept_states(ANSWERS, 8)
    for value in (float("nan"), float("inf"), 1e30):
        damaged = QuantizedStates(states.lengths, {}, {"vector": states.per_text["vector"].clone()})
        damaged.per_text["vector"][1, 0] = value
        sealed = ranker._sealer.seal(ANSWERS, damaged, StateDtype.float32)
        assert [field is None for field in sealed] == [False, True, False]


@pytest.mark.parametrize("token", [-1, 10**6])
def test_ids_of_no_token_are_not_taken(tmp_path: Path, token: int) -> None:
    """With a seal that fits, as another writer can make it."""
    ranker = emptied(write_checkpoint("ap-cnn", tmp_path / "checkpoint"))
    sealer = copy.copy(ranker._sealer)
    sealer._largest_id = 2**31 - 1
    ids = torch.tensor([3, token], dtype=torch.int32)
    if token < 0:
        sealer._is_usable = lambda states: True  # type: ignore[method-assign]
    [field] = sealer.seal(["parcel"], QuantizedStates(torch.tensor([2]).numpy(), {"ids": ids}, {}), StateDtype.float32)
    assert field is not None
    assert ranker.take_states(["parcel"], [field]) == 1
    assert counts(ranker) == (0, 0)


@pytest.fixture(scope="module")
def sealer_and_field(tmp_path_factory: pytest.TempPathFactory) -> tuple[StateSealer, str]:
    folder = write_checkpoint("ap-transformer", tmp_path_factory.mktemp("checkpoints") / "tiny")
    ranker = emptied(folder)
    [field] = ranker.sealed_states([TEXTS[1]])
    assert field is not None
    return ranker._sealer, field


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_whatever_is_in_a_field(sealer_and_field: tuple[StateSealer, str], data: st.DataObject) -> None:
    """It is the states of the text, or nothing."""
    sealer, field = sealer_and_field
    content = b64decode(field)
    place = data.draw(st.integers(0, len(content)))
    kept = data.draw(st.integers(place, len(content)))
    mutated = content[:place] + data.draw(st.binary(max_size=8)) + content[kept:]
    anything = st.one_of(
        st.text(), st.integers(), st.none(), st.lists(st.text()), st.dictionaries(st.text(), st.text())
    )
    for value in (b64encode(mutated).decode(), data.draw(anything)):
        opened = sealer.open([TEXTS[1]], [value])
        assert bool(opened) == (value == field)
