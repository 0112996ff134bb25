"""What `ap-ranker train` says at its end, in process: a run takes a second."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write_encoder
from refusals import refused
from typer.testing import CliRunner, Result

from ap_ranker.cli.main import app
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.wordings import with_wordings
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.ranking.checkpoint import read_checkpoint_config
from ap_ranker.ranking.ranker import Ranker

WORDS = ["parcel", "refund", "battery", "helmet", "invoice", "account", "brake", "lease"]
ANSWERS = ["north", "south", "east", "west", "up", "down", "left", "right"]


def rows(patterns: list[str]) -> str:
    """Questions without a word of their answers: BM25 knows nothing, a model can learn them by heart."""
    pairs = [(pattern.format(word), ANSWERS[row]) for row, word in enumerate(WORDS) for pattern in patterns]
    return "question,answer\n" + "".join(f"{question},go {answer} now\n" for question, answer in pairs)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.csv").write_text(rows(["where is my {}", "the {} is gone", "help with a {}"]))
    (tmp_path / "dev.csv").write_text(rows(["my {} where is it", "is a {} gone"]))
    options = "model: qa-cnn\noptions: {filters: 32, dropout: 0.0}\nembedding_size: 16\nbatch_size: 8\n"
    (tmp_path / "learn.yaml").write_text(options + "epochs: 20\nlearning_rate: 0.02\n")
    (tmp_path / "nothing.yaml").write_text("model: bm25\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(*arguments: object) -> Result:
    command = ["train", ".", *map(str, arguments), "--device", "cpu"]
    return CliRunner().invoke(app, command, catch_exceptions=False, env={"COLUMNS": "300"})


def test_a_model_that_beats_bm25(folder: Path) -> None:
    result = train("--config", "learn.yaml", "--output", "c", "--must-beat-bm25")
    assert result.exit_code == 0, result.output
    gain = read_checkpoint_config(folder / "c").training["dev_gain"]
    assert gain["better_than_bm25"] is True
    dev = with_wordings(read_dataset(folder, "dev"), read_dataset(folder, "train"))
    report = evaluate(Ranker.from_pretrained(folder / "c", "cpu"), dev)
    assert gain["n_questions"] == report.n_questions == 16
    # By epochs that other questions have chosen: those of this checkpoint chose its own.
    assert gain["model"]["mrr"] == pytest.approx(report.model["MRR"] - report.bm25["MRR"], abs=0.1)
    sentence = f"Better than BM25 on the 16 dev questions (alone MRR {gain['model']['mrr']:+.3f}, p = "
    assert sentence in result.output
    assert sentence in (folder / "c" / "README.md").read_text()


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--must-beat-bm25",), 3)])
def test_a_model_that_does_not(folder: Path, options: tuple[str, ...], code: int) -> None:
    """BM25 itself. The checkpoint is there in any case."""
    result = train("--config", "nothing.yaml", "--output", "c", *options)
    assert result.exit_code == code, result.output
    sentence = "Not better than BM25 on the 16 dev questions (alone MRR +0.000, p = 1.0000)."
    assert f"Warning: {sentence}" in result.output
    assert sentence in (folder / "c" / "README.md").read_text()
    assert read_checkpoint_config(folder / "c").training["dev_gain"]["better_than_bm25"] is False
    assert len(Ranker.from_pretrained(folder / "c", "cpu").rank("is it?", ["yes", "no"])) == 2


@pytest.mark.parametrize("resumed", [False, True])
def test_what_is_stopped_can_be_resumed(folder: Path, monkeypatch: pytest.MonkeyPatch, resumed: bool) -> None:
    def stop(**arguments: object) -> None:
        Path(f"{arguments['output']}.training").mkdir(exist_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr("ap_ranker.training.train.train", stop)
    monkeypatch.setattr("sys.argv", ["ap-ranker", "train", "my data", *["--resume"] * resumed])
    result = train("--config", "nothing.yaml", "--output", "c", *["--resume"] * resumed)
    assert result.exit_code == 130
    assert "ap-ranker train 'my data' --resume\n" in result.output


def test_an_encoder_by_its_name(folder: Path) -> None:
    """Beside the options of the configuration file; a model without one refuses it."""
    encoder = write_encoder(folder / "tiny")
    (folder / "transformer.yaml").write_text("model: ap-transformer\noptions: {size: 4}\nmax_tokens: 20\n")
    prompts = ("--question-prompt", "is it?", "--answer-prompt", "yes", "--link-encoder")
    result = train("--config", "transformer.yaml", "--encoder", encoder, "--epochs", "0", "--output", "c", *prompts)
    assert result.exit_code == 0, result.output
    config = read_checkpoint_config(folder / "c")
    assert (config.options["encoder"], config.options["size"]) == (str(encoder), 4)
    assert config.encoder is not None
    assert len(config.encoder["sentence"]["answer_prompt"]) == 1
    assert config.encoder_hash
    with refused("qa-cnn … encoder"):
        train("--model", "qa-cnn", "--encoder", encoder, "--output", "d")
