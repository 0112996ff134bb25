"""`ap-ranker tune` as a user runs it, in this process: torch need not be loaded for each mistake."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from refusals import assert_refusal
from typer.testing import CliRunner, Result

from ap_ranker.cli.main import app

PAIRS = "question,answer\n" + "".join(
    f"{pattern.format(topic)},All about your {topic} [and more].\n"
    for topic in ("parcel", "refund", "battery", "helmet")
    for pattern in ("where is my {}", "the {} is gone", "help with a {}")
)


@pytest.fixture
def place(tmp_path: Path, diverging: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command runs; a learning rate may be so high that training diverges at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "my faq.csv").write_text(PAIRS)
    (tmp_path / "base.yaml").write_text(
        "model: ap-cnn\noptions: {filters: 8}\nembedding_size: 8\nepochs: 1\noptimizer: sgd\n"
    )
    (tmp_path / "options.yaml").write_text("options: {filters: 8}\n")
    (tmp_path / "space.yaml").write_text("learning_rate: [1.0e-9, 0.02, 10.0]\noptions.dropout: [0.0, 0.1]\n")
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def tune(*arguments: object) -> Result:
    common = ("--space", "space.yaml", "--config", "base.yaml", "--output", "out", "--device", "cpu")
    return run("tune", "my faq.csv", *common, *arguments)


def test_tune_and_go_on_and_train_anew(place: Path) -> None:
    first = tune("--trials", 2, "--seed", 3)
    assert first.exit_code == 0, first.output
    assert [line.split()[:2] for line in first.stdout.splitlines() if line.startswith("trial")] == [
        ["trial", "1"],
        ["trial", "2"],
    ]
    second = tune("--trials", 9, "--seed", 3)
    assert second.exit_code == 0, second.output
    lines = [line for line in second.stdout.splitlines() if line.startswith("trial")]
    assert [int(line.split()[1]) for line in lines] == list(range(3, 10))
    for line in lines:
        assert ("The model has diverged" in line) == ("learning_rate 10" in line)
        assert "options.dropout 0" in line
    assert "│  BM25 │" in second.stdout
    assert sum(line.startswith("│") for line in second.stdout.splitlines()) == 6  # the five best and BM25
    assert "9 trials: " in second.stdout
    command = shlex.split(second.stdout.splitlines()[-1])
    assert command[:3] == ["ap-ranker", "train", "my faq.csv"]
    assert "seed: 3" in Path("out/best.yaml").read_text()
    trained = run(*command[1:], "--device", "cpu")
    assert trained.exit_code == 0, trained.output
    again, kept = (Path("out", name, "model.safetensors").read_bytes() for name in ("trained", "checkpoint"))
    assert again == kept
    assert tune("--trials", 9, "--seed", 3).exit_code == 0  # the trained one is in nobody's way


def test_the_train_command_names_what_the_search_was_given(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ap-ranker", "tune", "my faq.csv", "..."])
    (place / "dev.csv").write_text(PAIRS)
    (place / "v.txt").write_text("parcel 1 2 3\nrefund 4 5 6\n")
    result = tune("--trials", 1, "--dev", "dev.csv", "--embeddings", "v.txt", "--match", "answer")
    assert result.exit_code == 0, result.output
    assert "```bash\nap-ranker tune 'my faq.csv' ...\n```" in Path("out/checkpoint/README.md").read_text()
    expected = "train 'my faq.csv' --dev dev.csv --config out/best.yaml --output out/trained"
    assert result.stdout.splitlines()[-1] == f"ap-ranker {expected}"
    settings = Path("out/best.yaml").read_text()
    assert "match: answer" in settings
    assert "embeddings: v.txt" in settings


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--space", "nowhere.yaml"], "nowhere.yaml"),
        (["--space", "options.yaml"], "options.yaml, options … options.NAME"),
        (["--config", "space.yaml"], "space.yaml … learning_rate"),
        (["--embeddings", "no.txt"], "no.txt"),
        (["--dev", "no.csv"], "no.csv"),
        (["--device", "cuda:99"], "cuda:99"),
        (["--output", "."], "search … folder"),
    ],
)
def test_mistakes(place: Path, arguments: list[str], facts: str) -> None:
    result = tune(*arguments)
    assert_refusal(facts, result.exception)
    assert not (place / "out").exists()


def test_another_space_is_another_search(place: Path) -> None:
    assert tune("--trials", 1).exit_code == 0
    (place / "space.yaml").write_text("learning_rate: [0.02]\n")
    result = tune("--trials", 2)
    assert_refusal("out … space learning_rate", result.exception)


def test_without_optuna(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("optuna", "optuna.distributions"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("search_space", "tune"):
        monkeypatch.delitem(sys.modules, f"ap_ranker.training.{name}", raising=False)
    result = tune()
    assert_refusal('pip install "ap-ranker[tune]"', result.exception)


def test_one_process_only(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = tune()
    assert_refusal("2 … torchrun", result.exception)
