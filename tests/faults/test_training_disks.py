"""Each command on a disk that is full or may not be written: one message with the place, and nothing half-made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, settings_of, write_checkpoint
from disks import fill, read_only, small_disk_or_skip
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.errors import InputError

ANSWERS = [(word, f"all about the {word}") for word in ("parcel", "refund", "battery", "helmet", "invoice", "account")]
PATTERNS = {
    "train": ("where is my {}", "the {} is gone"),
    "dev": ("a new {} please", "how much is a {}", "send the {}", "which {} fits"),
    "test": ("a {} for me", "take the {} back"),
}
SETTINGS = "model: ap-cnn\noptions: {filters: 4}\nembedding_size: 4\nbatch_size: 4\nepochs: 1\n"

COMMANDS = {
    "train": "train data --config data/settings.yaml --output disk/new",
    "train over another": "train data --config data/settings.yaml --output disk/c --overwrite",
    "tune": "tune data --config data/settings.yaml --space data/space.yaml --trials 1 --output disk/new",
    "compare": "compare data --models ap-cnn:filters=4 --epochs 1 --output disk/new",
    "calibrate": "calibrate disk/c data --precision 0.05",  # which any model reaches: otherwise nothing is written
    "calibrate --json": "calibrate c data --json disk/new.json",
    "evaluate --json": "evaluate c data --json disk/new.json",
    "encode": "encode c data/train.csv --output disk/new",
    "check --json": "check data --json disk/new.json",
    "check --fix": "check data/train.csv --fix disk/new.csv",
    "explain": "explain c --question where --answer here --output disk/new.html",
    "index": "index data/train.csv --pipeline disk.yaml",
}


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "data").mkdir()
    for name, patterns in PATTERNS.items():
        rows = [f"{pattern.format(word)},{answer}\n" for word, answer in ANSWERS for pattern in patterns]
        (tmp_path / "data" / f"{name}.csv").write_text("question,answer\n" + "".join(rows))
    (tmp_path / "data" / "settings.yaml").write_text(SETTINGS)
    (tmp_path / "data" / "space.yaml").write_text("learning_rate: [0.01, 0.02]\n")
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    settings_of(declared)["ranker"]["model"] = "c"
    settings_of(declared)["retriever"]["document_store"]["init_parameters"] = {"path": "disk/s"}
    (tmp_path / "disk.yaml").write_text(yaml.safe_dump(declared))
    write_checkpoint("ap-cnn", tmp_path / "c")
    monkeypatch.chdir(tmp_path)
    with small_disk_or_skip(tmp_path / "disk", 1024) as folder:
        write_checkpoint("ap-cnn", folder / "c")
        yield folder


def content(disk: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in disk.rglob("*")}


def refused(command: str) -> str:
    """The one message; `main` adds nothing to it."""
    result = CliRunner().invoke(app, command.split(), env={"COLUMNS": "400"})
    assert isinstance(result.exception, InputError), (result.output, result.exception)
    return str(result.exception)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_read_only_disk(command: str, disk: Path) -> None:
    before = content(disk)
    with read_only(disk):
        said = refused(COMMANDS[command])
    assert "disk/" in said and "Read-only file system" in said, said
    assert len(said) < 300
    assert content(disk) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk(command: str, disk: Path) -> None:
    fill(disk)
    before = content(disk)
    said = refused(COMMANDS[command])
    assert "disk/" in said, said
    assert any(word in said for word in ("No space left", "incomplete write", "is full", "requested and")), said
    after = content(disk)
    assert {place: after[place] for place in before} == before
    # Databases without a row, and folders without a file.
    allowed = {"disk/new", "disk/new/encodings.sqlite", "disk/s", "disk/s/documents.sqlite", "disk/c.earlier"}
    assert {place.removeprefix(f"{disk.parent}/") for place in after.keys() - before.keys()} <= allowed
    (disk / "filler").unlink()
    result = CliRunner().invoke(app, COMMANDS[command].split())
    assert result.exception is None, (result.output, result.exception)


def test_ask_on_a_read_only_disk(disk: Path) -> None:
    """It writes nothing that must be kept, so it answers."""
    result = CliRunner().invoke(app, ["index", "data/train.csv", "--pipeline", "disk.yaml"])
    assert result.exception is None, result.output
    with read_only(disk):
        result = CliRunner().invoke(app, ["ask", "my parcel", "--pipeline", "disk.yaml"])
    assert result.exception is None and ANSWERS[0][1] in " ".join(result.output.split()), (
        result.output,
        result.exception,
    )
