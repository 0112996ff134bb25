"""Encoders in checkpoints: stored in half precision, or named with a hash instead of being copied."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TEXTS, write_encoder
from refusals import refused
from safetensors.torch import load_file, save_file

from ap_ranker.ranking.checkpoint import CONFIG, WEIGHTS
from ap_ranker.ranking.priors import encoder_key
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.untrained import write_untrained


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    return write_encoder(tmp_path / "encoder", max_position_embeddings=256)


def scores(folder: Path) -> np.ndarray:
    ranker = Ranker.from_pretrained(folder, "cpu")
    return np.stack([ranker.score(question, TEXTS).numpy() for question in TEXTS])


def test_matrices_are_stored_in_half_precision(encoder: Path, tmp_path: Path) -> None:
    write_untrained(tmp_path / "c", TEXTS, options={"encoder": str(encoder)})
    stored, source = load_file(tmp_path / "c" / WEIGHTS), load_file(encoder / "model.safetensors")
    for name, value in stored.items():
        is_matrix = name.startswith("encoder.backbone.") and value.dim() > 1
        assert value.dtype == (torch.float16 if is_matrix else torch.float32)
    loaded = Ranker.from_pretrained(tmp_path / "c", "cpu").model.state_dict()
    assert {value.dtype for value in loaded.values()} == {torch.float32}
    exact = {name: source[name.removeprefix("encoder.backbone.")] for name in loaded if "backbone" in name}
    assert encoder_key(loaded) == encoder_key(exact)  # so that a prior is found again


def test_cut_texts_of_the_whole_faq_are_counted_once(
    encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A sample of 100 texts is read, too; a search over the checkpoint counts for itself."""
    texts = [f"parcel {i} " + "where is it " * (200 if i < 78 else 1) for i in range(133)]
    options = {"encoder": str(encoder)}
    write_untrained(tmp_path / "quiet", texts, options=options)
    assert "longer than" not in caplog.text
    write_untrained(tmp_path / "loud", texts, options=options, warn_of_cuts=True)
    assert [text.split(" texts")[0] for text in caplog.messages if "longer than" in text] == ["78 of 133"]


def test_what_half_precision_cannot_hold_stays(encoder: Path, tmp_path: Path) -> None:
    weights = load_file(encoder / "model.safetensors")
    name = next(name for name, value in weights.items() if value.dim() > 1)
    weights[name][0, 0] = 1e5
    save_file(weights, encoder / "model.safetensors", {"format": "pt"})
    write_untrained(tmp_path / "c", TEXTS, options={"encoder": str(encoder)})
    assert torch.equal(load_file(tmp_path / "c" / WEIGHTS)[f"encoder.backbone.{name}"], weights[name])


def test_a_linked_encoder_is_not_copied(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_untrained("copied", TEXTS, options={"encoder": "encoder"})
    write_untrained("linked", TEXTS, options={"encoder": "encoder", "linked": True})
    assert not any(name.startswith("encoder.backbone.") for name in load_file(tmp_path / "linked" / WEIGHTS))
    monkeypatch.chdir("/")  # the checkpoint is loaded from elsewhere
    np.testing.assert_allclose(scores(tmp_path / "linked"), scores(tmp_path / "copied"), atol=0.02)


def test_a_missing_or_changed_encoder_is_said(encoder: Path, tmp_path: Path) -> None:
    write_untrained(tmp_path / "c", TEXTS, options={"encoder": str(encoder), "linked": True})
    shutil.move(encoder, tmp_path / "elsewhere")
    with refused(f"{CONFIG} … {encoder} … none … --link-encoder"):
        Ranker.from_pretrained(tmp_path / "c", "cpu")
    write_encoder(encoder, max_position_embeddings=255)
    with refused(f"{CONFIG} … {encoder} … another version … --link-encoder"):
        Ranker.from_pretrained(tmp_path / "c", "cpu")
    (encoder / "modules.json").write_text("{")
    with refused(f"{CONFIG} … {encoder} … none … --link-encoder"):
        Ranker.from_pretrained(tmp_path / "c", "cpu")
    shutil.rmtree(encoder)
    shutil.move(tmp_path / "elsewhere", encoder)
    assert np.isfinite(scores(tmp_path / "c")).all()


def test_a_damaged_hash_or_architecture(encoder: Path, tmp_path: Path) -> None:
    write_untrained(tmp_path / "c", TEXTS, options={"encoder": str(encoder), "linked": True})
    config = json.loads((tmp_path / "c" / CONFIG).read_text())
    for change, facts in (
        ({"encoder_hash": "0"}, "encoder_hash"),
        ({"encoder_hash": None}, "weights"),
        ({"encoder": config["encoder"] | {"num_hidden_layers": 10**6}}, "layers"),
    ):
        (tmp_path / "c" / CONFIG).write_text(json.dumps(config | change))
        with refused(facts):
            Ranker.from_pretrained(tmp_path / "c", "cpu")
