"""Encoders of some layers, and what an encoder is worth on dev questions of a toy FAQ."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from conftest import ROOT, imported
from random_encoders import BERT, pooled, word_pieces, write
from refusals import refused
from transformers import AutoModel

from ap_ranker.ranking.checkpoint import is_checkpoint

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


FIRST = ("when", "how", "where", "why", "who", "which")


def write_faq(folder: Path, words: tuple[str, ...]) -> Path:
    """An entry for each word, with six questions; the last one is a test question."""
    folder.mkdir(parents=True)
    entries = [f"{number},about a {word}?,All that we know of your {word}." for number, word in enumerate(words)]
    (folder / "answers.csv").write_text("\n".join(["aid,question,answer", *entries]) + "\n")
    lines: list[str] = []
    for number, word in enumerate(words):
        for place, first in enumerate(FIRST):
            split = "test" if place == len(FIRST) - 1 else "train"
            lines.append(f"{split},{first} {word} {place * 7},{number}")
    (folder / "questions.csv").write_text("\n".join(["split,question,answer_ids", *lines]) + "\n")
    return folder


def test_dev_questions_of_what_is_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same command trains nothing again; a start is another run."""
    data = tmp_path / "data"
    write_faq(data / "openstreetmap", ("parcel", "battery", "repair", "return"))
    encoder = write(tmp_path, BERT | {"max_position_embeddings": 256}, word_pieces(), pooled("mean"))
    output = tmp_path / "out"
    path = list(sys.path)
    with imported(HERE / "dev_quality.py") as dev_quality:
        dev_quality.command(["openstreetmap"], output, data, encoder=str(encoder))
        first = capsys.readouterr().out.splitlines()[-1]
        trained = output / f"openstreetmap-{encoder.name}"
        assert is_checkpoint(trained)
        dev_quality.command(["openstreetmap"], output, data, encoder=str(encoder))
        again = capsys.readouterr().out.splitlines()[-1]
        dev_quality.command(["openstreetmap"], output, data, encoder=str(encoder), start=trained)
    name, bm25, mrr, _ = (cell.strip() for cell in first.strip("|").split("|"))
    assert name == "openstreetmap"
    assert 0 < float(bm25) <= 1
    assert 0 < float(mrr) <= 1
    assert again.split("|")[:4] == first.split("|")[:4]
    assert is_checkpoint(output / f"openstreetmap-{encoder.name}-{trained.name}")
    sys.path[:] = path
