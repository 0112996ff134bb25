"""Numbers in fewer bits, beside a loop over bytes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.models.base import States
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype

CPU = torch.device("cpu")


def states_of(size: int, seed: int) -> States:
    """Three texts of 4, 1 and 2 tokens."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(4) < torch.tensor([4, 1, 2]).unsqueeze(1)
    tokens = torch.randn(3, 4, size, generator=generator) * mask.unsqueeze(2)
    return States(mask, {"states": tokens}, {"pooled": torch.randn(3, 6, generator=generator)})


@given(half=st.integers(1, 40), seed=st.integers(0, 2**31))
def test_four_bits_are_those_of_a_loop_over_bytes(half: int, seed: int) -> None:
    size = 2 * half
    states = states_of(size, seed)
    quantized = QuantizedStates.quantize(states, StateDtype.int4)
    packed, scales = quantized.per_token["states"], quantized.per_token["states.scale"]
    assert (packed.dtype, packed.shape) == (torch.uint8, (7, size // 2))
    restored = quantized.dequantize(CPU).per_token["states"]
    for row, place in enumerate(states.mask.nonzero().tolist()):
        wanted, scale = states.per_token["states"][tuple(place)].double().tolist(), float(scales[row])
        assert scale == pytest.approx(max(map(abs, wanted)) / 7, rel=1e-3)
        for at, byte in enumerate(packed[row].tolist()):
            for number, bits in ((at, byte % 16), (at + half, byte // 16)):
                signed = bits - 16 if bits >= 8 else bits
                assert float(restored[(*place, number)]) == pytest.approx(signed * scale, rel=1e-5)
                assert abs(signed * scale - wanted[number]) <= 0.51 * scale + 1e-6
    assert not restored[~states.mask].any()


def test_bytes_of_a_token_and_of_a_text() -> None:
    """Of 64 numbers a token's state takes 32 bytes and two of its scale, a text's six one byte each and two."""
    assert QuantizedStates.quantize(states_of(64, 0), StateDtype.int4).nbytes == 7 * (32 + 2) + 3 * (6 + 2)


def test_an_odd_number_of_numbers_takes_8_bits() -> None:
    states = states_of(5, 0)
    fewer, more = (QuantizedStates.quantize(states, dtype) for dtype in (StateDtype.int4, StateDtype.int8))
    assert fewer.per_token["states"].equal(more.per_token["states"])
    assert fewer.converted(StateDtype.int4, CPU).per_token["states"] is fewer.per_token["states"]
