from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TEXTS, write_checkpoint
from naive import SMALL
from refusals import absent, refused

from ap_ranker.ranking import checkpoint as module
from ap_ranker.ranking.checkpoint import find_checkpoint, load_checkpoint
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.reading import READING_VERSION


def test_saved_and_loaded_it_scores_the_same(name: str, tmp_path: Path) -> None:
    first = Ranker.from_pretrained(write_checkpoint(name, tmp_path / "a"), "cpu")
    second = Ranker.from_pretrained(write_checkpoint(name, tmp_path / "b"), "cpu")
    moved = tmp_path / "moved"
    (tmp_path / "a").rename(moved)
    third = Ranker.from_pretrained(moved, "cpu")
    scores = first.score("Where is it?", TEXTS)
    assert torch.equal(scores, second.score("Where is it?", TEXTS))
    assert torch.equal(scores, third.score("Where is it?", TEXTS))


def test_folder_holds_what_it_should_and_nothing_pickled(checkpoint: Path) -> None:
    assert {file.name for file in checkpoint.iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "README.md",
    }
    config = json.loads((checkpoint / "config.json").read_text())
    assert (config["model"], config["format_version"]) == ("ap-cnn", 1)


def test_a_failed_write_leaves_the_old_checkpoint_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "c")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(module, "save_file", fail)
    with refused("disk full"):
        write_checkpoint("qa-cnn", folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("read", ["read_checkpoint_config", "read_shapes", "load_weights", "check_finite"])
@pytest.mark.parametrize("later", ["qa-bilstm", "qa-cnn"])
def test_a_checkpoint_that_is_replaced_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str, later: str
) -> None:
    """Training ends after any of its files was read: what is loaded is the new one, whole, and not parts of both."""
    folder = write_checkpoint("qa-cnn", tmp_path / "c")
    options = {**SMALL[later], "filters": SMALL[later]["filters"] + 1} if later == "qa-cnn" else None
    new = write_checkpoint(later, tmp_path / "new", options)
    expected = Ranker.from_pretrained(new, "cpu").score("Where is it?", TEXTS)
    original = getattr(module, read)

    def replaced(*arguments: Any) -> Any:
        found = original(*arguments)
        if new.exists():
            shutil.rmtree(folder)
            new.rename(folder)
        return found

    monkeypatch.setattr(module, read, replaced)
    ranker = Ranker.from_pretrained(folder, "cpu")
    assert ranker.name == later
    assert torch.equal(ranker.score("Where is it?", TEXTS), expected)


def test_a_new_checkpoint_replaces_the_old_one(tmp_path: Path) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "c")
    write_checkpoint("qa-bilstm", folder)
    assert load_checkpoint(folder)[0].model == "qa-bilstm"
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("config.json", b"{", ""),
        (
            "config.json",
            b'{"format_version": 1, "model": "ap-transformer"}',
            "version 4 … 1 … ap-ranker train DATA --model ap-transformer --output … --overwrite",
        ),
        ("config.json", b'{"format_version": 5, "model": "ap-transformer"}', "version 4 … 5"),
        ("config.json", b'{"format_version": 99}', "version 1 … 99"),
        ("config.json", b'{"format_version": 1, "model": "ap-cnn"}', "options"),
        ("config.json", b'{"model_type": "bert", "hidden_size": 384}', "an encoder … ap-ranker init … --encoder"),
        ("model.safetensors", b"junk", "ap-cnn"),
        ("tokenizer.json", b"junk", ""),
    ],
)
def test_damaged_files_are_named(checkpoint: Path, tmp_path: Path, name: str, content: bytes, facts: str) -> None:
    folder = shutil.copytree(checkpoint, tmp_path / "damaged")
    (folder / name).write_bytes(content)
    with refused(f"{folder / name} … {facts}"):
        Ranker.from_pretrained(folder, "cpu")


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "c")
    config = json.loads((folder / "config.json").read_text())
    config["options"]["filters"] = 13
    (folder / "config.json").write_text(json.dumps(config))
    with refused("ap-cnn"):
        Ranker.from_pretrained(folder, "cpu")


def test_not_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with refused("config.json … notes.txt"):
        find_checkpoint(tmp_path)
    with refused("no/such/place … ap-ranker train"):
        find_checkpoint("no/such/place")
    with refused("somebody/model"):  # offline: the hub cannot help
        find_checkpoint("somebody/model")


def test_a_checkpoint_of_a_tokenizer_that_is_gone(tmp_path: Path) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "c")
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("segmenter") is None
    (folder / "config.json").write_text(json.dumps(config))
    load_checkpoint(folder)
    (folder / "config.json").write_text(json.dumps(config | {"segmenter": "jieba"}))
    with refused("config.json … segmenter … 'jieba'"):
        load_checkpoint(folder)


def test_a_checkpoint_of_another_reading_says_how_to_renew_it(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "older"
    shutil.copytree(checkpoint, folder)
    load_checkpoint(folder)
    assert not caplog.messages
    config = json.loads((folder / "config.json").read_text())
    assert config["reading_version"] == READING_VERSION
    del config["reading_version"]
    (folder / "config.json").write_text(json.dumps(config))
    load_checkpoint(folder)
    [message] = caplog.messages
    assert not absent(f"ap-ranker train DATA --model ap-cnn --output {folder} --overwrite", message)
    config["reading_version"] = READING_VERSION + 1
    (folder / "config.json").write_text(json.dumps(config))
    with refused("reading_version"):
        load_checkpoint(folder)
