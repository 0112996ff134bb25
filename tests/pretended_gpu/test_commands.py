"""Each command that takes `--device` runs on a GPU."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pretended_cuda
import pytest
import typer
from command_line import run
from conftest import write_checkpoint

from ap_ranker.cli.main import app

COMMANDS = {
    "train": "data --output new --config settings.yaml",
    "evaluate": "known data",
    "calibrate": "known data/dev.csv --answers data/train.csv",
    "distill": "known data --output student --config settings.yaml",
    "tune": "data --space space.yaml --output search --trials 1 --config settings.yaml",
    "compare": "data --models ap-bilstm:hidden=4 --output runs --config shared.yaml",
    "explain": "known --question 'where is my parcel' --answer 'All about your parcel.' --output page.html",
    "encode": "known data/train.csv --output states",
}

TOPICS = ("parcel", "refund", "battery", "helmet", "brake", "lease", "bike", "lock")
FORMS = {"train": "where is my {}", "dev": "the {} is gone", "test": "help with a {}"}


def taking_device(command: Any, name: str = "") -> Iterator[str]:
    """All commands with that option, also of groups."""
    for part, inner in getattr(command, "commands", {}).items():
        yield from taking_device(inner, f"{name} {part}".strip())
    if any("--device" in option.opts for option in command.params):
        yield name


def test_these_are_all() -> None:
    assert set(taking_device(typer.main.get_command(app))) == COMMANDS.keys()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with data, settings and a checkpoint."""
    (tmp_path / "data").mkdir()
    for split, form in FORMS.items():
        rows = [
            f"{start}{form.format(topic)},All about your {topic}." for topic in TOPICS for start in ("", "hi ", "so ")
        ]
        (tmp_path / "data" / f"{split}.csv").write_text("\n".join(["question,answer", *rows]) + "\n")
    shared = "embedding_size: 8\nepochs: 1\n"
    (tmp_path / "shared.yaml").write_text(shared)
    (tmp_path / "settings.yaml").write_text(f"model: ap-bilstm\noptions: {{hidden: 4}}\n{shared}")
    (tmp_path / "space.yaml").write_text("learning_rate: [0.01]\n")
    write_checkpoint("ap-bilstm", tmp_path / "known")
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed, compute = [], pretended_cuda.compute

    def counted(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        computed.append(operator)
        return compute(operator, args, kwargs)

    monkeypatch.setattr(pretended_cuda, "compute", counted)
    ended = run(name, *shlex.split(COMMANDS[name]), "--device", "cuda", folder=place)
    assert ended.code == 0, ended.errors + ended.output
    assert computed
