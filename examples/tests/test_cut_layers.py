"""Encoders of some layers, or of some numbers of each state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from conftest import ROOT, imported
from random_encoders import BERT, MPNET, pooled, word_pieces, write
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


@pytest.fixture
def cut_width(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(HERE)
    with imported(HERE / "cut_width.py") as module:
        yield module


def test_the_largest_numbers_heads_and_units_remain(cut_width: ModuleType, tmp_path: Path) -> None:
    """Planted: the numbers that are scaled, a head of each layer, and units that write more than the others."""
    encoder = write(tmp_path, MPNET, word_pieces(), pooled("mean"))
    whole = AutoModel.from_pretrained(encoder)
    per_head = MPNET["hidden_size"] // MPNET["num_attention_heads"]
    numbers = [*range(1, MPNET["hidden_size"], 2)]
    head = slice(per_head, 2 * per_head)
    units = [*range(0, MPNET["intermediate_size"], 2)]
    with torch.no_grad():
        whole.embeddings.LayerNorm.weight[numbers] = 5.0
        for layer in whole.encoder.layer:
            layer.attention.attn.o.weight[:, head] *= 100.0
            layer.output.dense.weight[:, units] *= 100.0
    whole.save_pretrained(encoder)
    cut_width.command(encoder, len(numbers), tmp_path / "cut")
    cut, loading = AutoModel.from_pretrained(tmp_path / "cut", output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["mismatched_keys"]
    assert torch.equal(cut.embeddings.word_embeddings.weight, whole.embeddings.word_embeddings.weight[:, numbers])
    for smaller, layer in zip(cut.encoder.layer, whole.encoder.layer, strict=True):
        written = layer.output.dense.weight[numbers][:, units]
        assert torch.equal(smaller.output.dense.weight, written)
        heads = smaller.attention.attn.o.weight.reshape(len(numbers), -1, per_head)
        planted = layer.attention.attn.o.weight[numbers, head]
        assert any(torch.equal(heads[:, place], planted) for place in range(heads.shape[1]))


def test_an_encoder_with_all_its_numbers_reads_as_before(cut_width: ModuleType, tmp_path: Path) -> None:
    encoder = write(tmp_path, MPNET, word_pieces(), pooled("mean"))
    cut_width.command(encoder, MPNET["hidden_size"], tmp_path / "cut")
    tokens = torch.tensor([[5, 9, 23, 7]])
    with torch.no_grad():
        before = AutoModel.from_pretrained(encoder).eval()(tokens).last_hidden_state
        after = AutoModel.from_pretrained(tmp_path / "cut").eval()(tokens).last_hidden_state
    assert torch.equal(before, after)


def test_numbers_that_are_no_whole_heads(cut_width: ModuleType, tmp_path: Path) -> None:
    encoder = write(tmp_path, MPNET, word_pieces(), pooled("mean"))
    with refused("multiple … found 3"):
        cut_width.command(encoder, 3, tmp_path / "cut")
    assert not (tmp_path / "cut").exists()
