"""A run that begins with a checkpoint: its weights, its words, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import exact_ranker, write_checkpoint, write_encoder
from naive import SMALL
from refusals import refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.models.registry import MODELS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.initialize import initialize_from, settings_of_start
from ap_ranker.training.train import train

OTHER = Dataset(
    "other",
    [Answer("0", "Your parcel waits at the kiosk."), Answer("1", "Charge the battery at night.")],
    [Question("0", "Where does my parcel wait?", (0,)), Question("1", "When do I charge?", (1,))],
)


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"ap-transformer"}))
def test_every_model_begins_with_the_checkpoints_weights(name: str, tmp_path: Path) -> None:
    start = exact_ranker(write_checkpoint(name, tmp_path / "start"))
    config = settings_of_start(TrainingConfig(name), start)
    model, tokenizer, inputs = initialize_from(
        start, OTHER, config, config.model_options, torch.device("cpu"), lambda *_: None
    )
    assert inputs.max_tokens == 20
    assert set(start.tokenizer.words) | {"kiosk", "charge", "night"} <= set(tokenizer.words)
    if model.embedding is None or start.model.embedding is None:
        return
    rows = {word: row for row, word in enumerate(tokenizer.words)}
    old, new = (each.embedding.vectors.weight.detach() for each in (start.model, model))
    for row, word in enumerate(start.tokenizer.words):
        np.testing.assert_array_equal(new[rows[word]], old[row], err_msg=word)
    if model.statistics is None:  # then nothing else differs, and known words score as before
        known = ["Where is my parcel?"], ["Open the tracking link in your e-mail to see where your parcel is."]
        now = Ranker(model.eval(), tokenizer)
        assert now.score(known[0][0], known[1]).item() == pytest.approx(
            start.score(known[0][0], known[1]).item(), abs=1e-5
        )


def test_letters_have_rows_of_their_own(tmp_path: Path) -> None:
    """BiMPM's alphabet: the same letters keep their vectors; with others it is another architecture."""
    start = exact_ranker(write_checkpoint("bimpm", tmp_path / "start", SMALL["bimpm"] | {"characters": True}))
    config = settings_of_start(TrainingConfig("bimpm"), start)

    def begin(text: str) -> torch.Tensor:
        data = Dataset("d", [Answer("0", text)], [Question("0", text, (0,))])
        found = initialize_from(start, data, config, config.model_options, torch.device("cpu"), lambda *_: None)[0]
        return found.state_dict()["spelling.embedding.weight"]

    assert torch.equal(begin("parcel"), start.model.state_dict()["spelling.embedding.weight"])
    with refused("same architecture … spelling.embedding.weight"):
        begin("Ж")


def test_training_goes_on_from_them(pairs: Dataset, tmp_path: Path) -> None:
    config = TrainingConfig("ap-cnn", SMALL["ap-cnn"], embedding_size=8, epochs=30, patience=30, learning_rate=0.02)
    train(pairs, pairs, tmp_path / "first", config)
    start = Ranker.from_pretrained(tmp_path / "first")
    still = TrainingConfig("ap-cnn", epochs=1, learning_rate=1e-9)
    result = train(pairs, pairs, tmp_path / "second", still, start=start)
    texts = [answer.text for answer in pairs.answers]
    for question in pairs.questions:
        np.testing.assert_allclose(
            result.ranker.score(question.text, texts), start.score(question.text, texts), atol=1e-5
        )
    assert result.ranker.config is not None
    assert result.ranker.config.options == start.config.options  # type: ignore[union-attr]
    assert str(tmp_path / "first") in (tmp_path / "second" / "README.md").read_text()


def test_what_the_first_one_has_learnt_the_second_one_knows(pairs: Dataset, tmp_path: Path) -> None:
    """Its questions are not new: they are easy for the second, too."""
    train(pairs, pairs, tmp_path / "first", TrainingConfig("ap-cnn", SMALL["ap-cnn"], embedding_size=8, epochs=1))
    start = Ranker.from_pretrained(tmp_path / "first")
    train(OTHER, OTHER, tmp_path / "second", TrainingConfig("ap-cnn", epochs=1), start=start)
    asked = [question.text for question in (*pairs.questions, *OTHER.questions)]
    second = Ranker.from_pretrained(tmp_path / "second")
    assert second.seen_in_training([*asked, "Is this new?"]) == [True] * len(asked) + [False]


def test_a_pretrained_encoder_keeps_what_it_learnt(pairs: Dataset, tmp_path: Path) -> None:
    options = {"encoder": str(write_encoder(tmp_path / "encoder")), "size": 4}
    train(pairs, pairs, tmp_path / "first", TrainingConfig("ap-transformer", options, epochs=2, max_tokens=20))
    start = Ranker.from_pretrained(tmp_path / "first")
    result = train(OTHER, OTHER, tmp_path / "second", TrainingConfig("ap-transformer", epochs=0), start=start)
    learnt, now = start.model.state_dict(), result.ranker.model.state_dict()
    for name in set(learnt) - {name for name in learnt if name.startswith("statistics")}:
        torch.testing.assert_close(now[name], learnt[name])
    assert now["statistics.documents"] == 2


@pytest.mark.parametrize(
    ("effort", "expected"),
    [("auto", (True, 1)), ("quick", (True, 0)), ("normal", (False, 0)), ("best", (False, 0))],
)
def test_how_much_of_it_learns_is_said_anew(effort: Any, expected: tuple[bool, int], tmp_path: Path) -> None:
    """The weights do not decide it: `--best` of a checkpoint whose last layers learnt trains all of them."""
    options = {"encoder": str(write_encoder(tmp_path / "encoder")), "size": 4, "frozen": True, "trained_layers": 1}
    config = TrainingConfig("ap-transformer", options, epochs=1, max_tokens=20)
    train(OTHER, OTHER, tmp_path / "start", config, device="cpu")
    start = Ranker.from_pretrained(tmp_path / "start")
    again = TrainingConfig("ap-transformer", epochs=1, effort=effort)
    config_of = train(OTHER, OTHER, tmp_path / "new", again, start=start, device="cpu").ranker.config
    assert config_of is not None
    assert (config_of.options["frozen"], config_of.options["trained_layers"]) == expected


def test_another_architecture_is_refused(checkpoint: Path) -> None:
    start = Ranker.from_pretrained(checkpoint)
    with refused("qa-cnn … ap-cnn"):
        settings_of_start(TrainingConfig("qa-cnn"), start)
    larger = settings_of_start(TrainingConfig("ap-cnn", {"filters": 9}), start)
    with refused("tiny … [9, 9] … [12, 12]"):
        initialize_from(start, OTHER, larger, larger.model_options, torch.device("cpu"), lambda *_: None)
    with refused("--start … --embeddings"):
        settings_of_start(replace(TrainingConfig("ap-cnn"), embeddings="encoder"), start)


def test_from_the_command_line(faq: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    run = ["train", str(faq), "--dev", str(faq), "--epochs", "1"]
    assert CliRunner().invoke(app, [*run, "--model", "qa-cnn", "--output", str(first)]).exit_code == 0
    result = CliRunner().invoke(app, [*run, "--start", str(first), "--output", str(second)])
    assert result.exit_code == 0, result.output
    assert "Wrote" in result.output
    config = json.loads((second / "config.json").read_text())
    assert (config["model"], config["training"]["start"]) == ("qa-cnn", str(first))
