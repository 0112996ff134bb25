"""Encoders of some layers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from conftest import ROOT, imported
from random_encoders import BERT, pooled, word_pieces, write
from refusals import refused
from transformers import AutoModel

HERE = ROOT / "examples" / "encoders"


@pytest.fixture
def cut_layers() -> Iterator[ModuleType]:
    with imported(HERE / "cut_layers.py") as module:
        yield module


def test_an_encoder_of_some_layers_reads_as_these_do(cut_layers: ModuleType, tmp_path: Path) -> None:
    """Whatever the other layers say: the states are those of the chosen ones, one after the other."""
    encoder = write(tmp_path, BERT | {"num_hidden_layers": 4}, word_pieces(), pooled("mean"))
    cut_layers.command(encoder, "2,4", tmp_path / "cut")
    whole = AutoModel.from_pretrained(encoder).eval()
    cut = AutoModel.from_pretrained(tmp_path / "cut").eval()
    tokens = torch.tensor([[5, 9, 23, 7]])
    with torch.no_grad():
        states = whole.embeddings(tokens)
        for place in (1, 3):
            output = whole.encoder.layer[place](states)
            states = output[0] if isinstance(output, tuple) else output
        assert torch.allclose(cut(tokens).last_hidden_state, states, atol=1e-5)
        assert not torch.allclose(whole(tokens).last_hidden_state, states, atol=1e-3)


def test_a_layer_that_is_not_there(cut_layers: ModuleType, tmp_path: Path) -> None:
    encoder = write(tmp_path, BERT | {"num_hidden_layers": 4}, word_pieces(), pooled("mean"))
    with refused("up to 4 … 5"):
        cut_layers.command(encoder, "1,5", tmp_path / "cut")
    assert not (tmp_path / "cut").exists()
