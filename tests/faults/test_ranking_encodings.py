"""Encodings that are damaged or another model's: refused when they are opened, with one short error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TEXTS, write_checkpoint
from refusals import absent, refused

from ap_ranker.errors import InputError
from ap_ranker.models.base import States
from ap_ranker.ranking.encode_corpus import encode_corpus
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.stored_encodings import MANIFEST


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("made")
    checkpoint = write_checkpoint("ap-bilstm", folder / "c")
    encode_corpus(checkpoint, TEXTS, folder / "e", dtype=StateDtype.int8, device="cpu")
    return checkpoint, folder / "e"


@pytest.fixture
def shard(made: tuple[Path, Path], tmp_path: Path) -> Path:
    """The only one of a copy."""
    folder = shutil.copytree(made[1], tmp_path / "e")
    return next(path for path in folder.iterdir() if path.is_dir())


def refusal(made: tuple[Path, Path], folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        Ranker.from_pretrained(made[0], "cpu", encodings=folder)
    message = str(caught.value)
    assert str(folder) in message
    assert len(message.splitlines()) <= 3
    assert "ap-ranker encode" in message
    with pytest.raises(InputError):  # nor is anything added to it
        encode_corpus(made[0], ["a new text"], folder, dtype=StateDtype.int8, device="cpu")
    return message


def rewrite(path: Path, change: Callable[[np.ndarray], Any]) -> None:
    np.save(path, change(np.load(path)), allow_pickle=False)


@pytest.mark.parametrize("name", ["keys.npy", "offsets.npy", "token.states.npy", "token.states.scale.npy"])
def test_missing_and_cut_files(made: tuple[Path, Path], shard: Path, name: str) -> None:
    whole = (shard / name).read_bytes()
    for length in (0, 5, 20, len(whole) - 1):
        (shard / name).write_bytes(whole[:length])
        assert "a damaged shard" in refusal(made, shard.parent)
    (shard / name).write_bytes(whole + b"more")
    (shard / name).unlink()
    assert "ap-ranker encode" in refusal(made, shard.parent)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("keys.npy", lambda keys: keys[:, :8]),
        ("keys.npy", lambda keys: keys[:-1]),
        ("keys.npy", lambda keys: keys.reshape(-1)),
        ("keys.npy", lambda keys: keys.astype(np.int64)),
        ("keys.npy", lambda keys: np.array(3)),
        ("offsets.npy", lambda offsets: offsets[:-1]),
        ("offsets.npy", lambda offsets: offsets[::-1]),
        ("offsets.npy", lambda offsets: offsets + 1),
        ("offsets.npy", lambda offsets: np.where(np.arange(len(offsets)) == 2, 10**9, offsets)),
        ("offsets.npy", lambda offsets: np.where(np.arange(len(offsets)) == 2, -5, offsets)),
        ("offsets.npy", lambda offsets: np.where(np.arange(len(offsets)) == 2, offsets[1], offsets)),
        ("offsets.npy", lambda offsets: offsets.astype(float)),
        ("offsets.npy", lambda offsets: offsets[:, None]),
        ("token.states.npy", lambda states: states[:, :-1]),
        ("token.states.npy", lambda states: states[:-1]),
        ("token.states.npy", lambda states: states[:, 0]),
        ("token.states.npy", lambda states: states.astype(np.float16)),
        ("token.states.npy", lambda states: states.astype(str)),
        ("token.states.npy", lambda states: np.float32(3)),
        ("token.states.scale.npy", lambda scale: scale[:, :0]),
        ("token.states.scale.npy", lambda scale: scale.astype(np.float32)),
    ],
)
def test_foreign_arrays(made: tuple[Path, Path], shard: Path, name: str, change: Callable[[np.ndarray], Any]) -> None:
    rewrite(shard / name, change)
    refusal(made, shard.parent)


def test_more_fields_than_the_model_has(made: tuple[Path, Path], shard: Path) -> None:
    np.save(shard / "text.vector.npy", np.zeros((len(TEXTS), 3), np.float32))
    assert not absent("token.states int8[12] … token.states.scale float16[1]", refusal(made, shard.parent))


def test_a_header_that_promises_too_much(made: tuple[Path, Path], shard: Path) -> None:
    content = (shard / "keys.npy").read_bytes()
    for shape in (b"(10**9,", b"(9999999999999, 16)", b"(True, 16)", b"(-6, 16)"):
        start = content.index(b"(")
        (shard / "keys.npy").write_bytes(
            content[:start] + shape.ljust(content.index(b")") - start + 1) + content[content.index(b")") + 1 :]
        )
        refusal(made, shard.parent)


def test_pickled_and_zipped_arrays(made: tuple[Path, Path], shard: Path) -> None:
    np.save(shard / "keys.npy", np.array([{"a": 1}]), allow_pickle=True)
    refusal(made, shard.parent)
    np.savez(shard / "keys.npz", a=np.zeros(3))
    (shard / "keys.npz").rename(shard / "keys.npy")
    refusal(made, shard.parent)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"null", b"[" * 100_000, b"\xff",
        b'{"format_version": 1}',
        b'{"format_version": 2, "model": 1, "fingerprint": 2, "dtype": "int8"}',
        b'{"format_version": 2, "model": "m", "fingerprint": [], "dtype": "int8"}',
        b'{"format_version": 2, "model": "m", "fingerprint": "f", "dtype": ["int8"]}',
        b'{"format_version": 2, "model": "m", "fingerprint": "f", "dtype": "int8", "more": 1}',
        b'{"format_version": {}}',
    ],
)  # fmt: skip
def test_a_damaged_description(made: tuple[Path, Path], shard: Path, content: bytes) -> None:
    (shard.parent / MANIFEST).write_bytes(content)
    with refused(MANIFEST) as caught:
        Ranker.from_pretrained(made[0], "cpu", encodings=shard.parent)
    assert len(str(caught.value).splitlines()) <= 3


def test_states_that_a_dtype_cannot_hold_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half precision ends at 65,504: what is beyond would be read as infinite, and its text never be ranked."""
    folder = write_checkpoint("qa-cnn", tmp_path / "c")
    encode = Ranker.encode_answers

    def large(ranker: Ranker, tokens: Any) -> Any:
        states = encode(ranker, tokens)
        return States(states.mask, per_text={"vector": states.per_text["vector"] + 1e6})

    monkeypatch.setattr(Ranker, "encode_answers", large)
    with refused("float16 … --dtype float32"):
        encode_corpus(folder, TEXTS, tmp_path / "e", device="cpu")
    assert encode_corpus(folder, TEXTS, tmp_path / "f", dtype=StateDtype.float32, device="cpu") == len(TEXTS)


def test_good_ones_are_opened(made: tuple[Path, Path], shard: Path) -> None:
    found = Ranker.from_pretrained(made[0], "cpu", encodings=shard.parent).score(TEXTS[0], TEXTS)
    expected = Ranker.from_pretrained(made[0], "cpu").score(TEXTS[0], TEXTS)
    assert torch.allclose(found, expected, atol=0.05)
    assert json.loads((shard.parent / MANIFEST).read_text())["dtype"] == "int8"
