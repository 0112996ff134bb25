from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from naive import SMALL
from transformers import TrainerCallback

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.vectors import read_vectors
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train

TOPICS = ["parcel", "refund", "battery", "helmet", "invoice", "account", "brake", "lease"]
DATA = Dataset(
    "tiny",
    [Answer(topic, f"all about the {topic}s we know") for topic in TOPICS],
    [
        Question(f"{topic}-{i}", pattern.format(topic), (row,))
        for row, topic in enumerate(TOPICS)
        for i, pattern in enumerate(["where is my {}?", "the {} is gone", "help with {} please"])
    ],
)


def settings(name: str, dropout: float = 0.1, **other: Any) -> TrainingConfig:
    return TrainingConfig(name, {**SMALL[name], "dropout": dropout}, batch_size=8, embedding_size=8, **other)


def weights(ranker: Ranker) -> dict[str, torch.Tensor]:
    return ranker.model.state_dict()


def same(first: Ranker, second: Ranker) -> bool:
    a, b = weights(first), weights(second)
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_learns_a_tiny_set_by_heart(name: str, tmp_path: Path) -> None:
    config = settings(name, 0.0, epochs=40, patience=40, learning_rate=0.02)
    result = train(DATA, DATA, tmp_path / "c", config, device="cpu")
    assert result.dev["P@1"] == 1.0
    loaded = Ranker.from_pretrained(tmp_path / "c", "cpu")
    assert same(loaded, result.ranker)
    assert evaluate(loaded, DATA).model == result.dev
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_same_seed_same_weights(tmp_path: Path) -> None:
    runs = [
        train(DATA, DATA, tmp_path / str(i), settings("ap-cnn", epochs=2, negatives=3, seed=seed), device="cpu")
        for i, seed in enumerate([1, 1, 2])
    ]
    assert same(runs[0].ranker, runs[1].ranker)
    assert not same(runs[0].ranker, runs[2].ranker)


class StopAfter(TrainerCallback):
    """A run that is killed when an epoch's state has been saved."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if round(state.epoch) == self.epoch:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["ap-cnn", "qa-bilstm"])
def test_a_resumed_run_ends_with_the_weights_of_an_unbroken_one(name: str, tmp_path: Path) -> None:
    config = settings(name, epochs=4, negatives=3)
    unbroken = train(DATA, DATA, tmp_path / "unbroken", config, device="cpu")
    with pytest.raises(KeyboardInterrupt):
        train(DATA, DATA, tmp_path / "broken", config, device="cpu", callbacks=(StopAfter(2),))
    assert not (tmp_path / "broken").exists()
    resumed = train(DATA, DATA, tmp_path / "broken", config, device="cpu", resume=True)
    assert same(resumed.ranker, unbroken.ranker)
    assert resumed.best_epoch == unbroken.best_epoch


def test_the_objective_of_the_settings_is_the_one_in_force(tmp_path: Path) -> None:
    runs = [
        train(DATA, DATA, tmp_path / objective, settings("ap-cnn", objective=objective, epochs=1), device="cpu")
        for objective in ("softmax", "hinge")
    ]
    assert not same(runs[0].ranker, runs[1].ranker)


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Nothing to resume.*c.training"):
        train(DATA, DATA, tmp_path / "c", settings("ap-cnn"), device="cpu", resume=True)


def test_the_best_epoch_is_kept(tmp_path: Path) -> None:
    """The dev set is the training set with wrong answers: learning makes it worse, so an early epoch is the best."""
    wrong = [replace(q, positives=((q.positives[0] + 1) % len(TOPICS),)) for q in DATA.questions]
    config = settings("ap-cnn", epochs=30, patience=3, learning_rate=0.02)
    result = train(DATA, replace(DATA, questions=wrong), tmp_path / "c", config, device="cpu")
    assert result.best_epoch < 10


def test_word_vectors_are_taken_and_frozen_if_wished(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("parcel 1 2 3\nzebra 4 5 6\n")
    vectors = read_vectors(tmp_path / "v.txt")
    config = settings("ap-cnn", epochs=1, freeze_embeddings=True)
    ranker = train(DATA, DATA, tmp_path / "c", config, vectors=vectors, device="cpu").ranker
    for word, vector in (("parcel", [1, 2, 3]), ("zebra", [4, 5, 6])):
        row = ranker.tokenizer.words.index(word)
        assert weights(ranker)["embedding.vectors.weight"][row].tolist() == vector


def test_the_card_tells_the_dev_numbers_and_the_cut_texts(tmp_path: Path) -> None:
    result = train(DATA, DATA, tmp_path / "c", settings("ap-cnn", epochs=1, max_tokens=3), device="cpu")
    card = (tmp_path / "c" / "README.md").read_text()
    for measure, value in result.dev.items():
        assert f"| {measure} | {value:.3f} | {result.bm25[measure]:.3f} |" in card
    assert "8 of the 8 answers were" in card


def test_nothing_to_learn_from(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected questions with a right answer"):
        train(Dataset("d", DATA.answers, [Question("1", "q", ())]), DATA, tmp_path / "c", settings("ap-cnn"))
