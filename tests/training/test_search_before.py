"""The verdict of a training: compared with the search before, on questions that neither has learnt from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import write_checkpoint

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.ranking.checkpoint import CONFIG, read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.search_before import SearchBefore
from ap_ranker.training.teacher import Teacher
from ap_ranker.training.train import TrainingResult, train

WORDS = ["parcel", "refund", "battery", "helmet", "invoice", "account", "brake", "lease", "light", "wheel", "saddle"]
ANSWERS = [Answer(str(row), f"all that we know of the {word}") for row, word in enumerate(WORDS)]
LEARNT = ["where is my {}", "the {} is gone", "help with a {}", "tell me of the {}"]
FIRST, SECOND = ["my {} never came", "is a {} broken"], ["could you mend one {} today", "who sells any {} here"]


def asked(patterns: list[str]) -> Dataset:
    texts = [(pattern.format(word), row) for row, word in enumerate(WORDS) for pattern in patterns]
    return Dataset("d", ANSWERS, [Question(str(n), text, (row,)) for n, (text, row) in enumerate(texts)])


def trained(folder: Path, dev: list[str], before: Ranker, rate: float = 0.01, epochs: int = 12) -> TrainingResult:
    options = {"filters": 16, "dropout": 0.0}
    config = TrainingConfig("qa-cnn", options, epochs=epochs, learning_rate=rate, embedding_size=16, batch_size=16)
    return train(asked(LEARNT), asked(dev), folder, config, before=before, device="cpu")


@pytest.fixture
def random_search(tmp_path: Path) -> Ranker:
    """One that knows nothing, and has learnt nothing."""
    write_checkpoint("qa-cnn", tmp_path / "random")
    config = read_checkpoint_config(tmp_path / "random")
    write_checkpoint_config(tmp_path / "random", replace(config, training={"epochs": 0}))
    return Ranker.from_pretrained(tmp_path / "random", "cpu")


def test_a_training_is_compared_with_the_search_before(random_search: Ranker, tmp_path: Path) -> None:
    """First it gains nearly everything; then one that learns nothing would take its place."""
    gaining = trained(tmp_path / "c", FIRST, random_search)
    assert gaining.verdict is not None
    assert gaining.verdict.recommended
    assert gaining.verdict.n_questions == len(FIRST) * len(WORDS)
    assert gaining.verdict.mrr_after > gaining.verdict.mrr_before + 0.3
    assert read_checkpoint_config(tmp_path / "c").verdict == gaining.verdict
    assert gaining.verdict.explained() in " ".join((tmp_path / "c" / "README.md").read_text().split())

    live = Ranker.from_pretrained(tmp_path / "c", "cpu")
    losing = trained(tmp_path / "d", SECOND, live, rate=1e-9, epochs=1)
    assert losing.verdict is not None
    assert not losing.verdict.recommended
    assert losing.verdict.before == str(tmp_path / "c")
    assert losing.verdict.utility_before > losing.verdict.utility_after  # BM25 alone finds them, but is less sure
    assert (tmp_path / "d" / CONFIG).is_file()  # it is written in any case

    chosen = SearchBefore.of(live).new_to_it([question.text for question in asked(FIRST).questions])
    assert not chosen.any()  # they have chosen its epoch


def test_an_earlier_checkpoint_has_no_verdict(random_search: Ranker, tmp_path: Path) -> None:
    path = tmp_path / "random" / CONFIG
    values = json.loads(path.read_text())
    del values["verdict"]
    path.write_text(json.dumps(values))
    assert read_checkpoint_config(tmp_path / "random").verdict is None


def test_judged_candidates_have_no_search_to_compare(tmp_path: Path) -> None:
    questions = [
        replace(each, candidates=(0, 1, 2), labels=(1, 0, 0), positives=(0,)) for each in asked(FIRST).questions
    ]
    data = Dataset("d", ANSWERS, questions, judged=True)
    config = TrainingConfig("qa-cnn", {"filters": 8}, epochs=1, embedding_size=8)
    assert train(data, data, tmp_path / "c", config, device="cpu").verdict is None


@pytest.mark.parametrize("role", ["start", "teacher"])
def test_what_a_start_or_a_teacher_has_learnt_is_not_new(role: str, random_search: Ranker, tmp_path: Path) -> None:
    """The dev questions are those that the earlier model has learnt from, beside two it never saw."""
    config = TrainingConfig("qa-cnn", {"filters": 8}, epochs=1, embedding_size=8, batch_size=16)
    earlier = train(asked(LEARNT), asked(FIRST), tmp_path / "earlier", config, before=random_search, device="cpu")
    ranker = Ranker.from_pretrained(tmp_path / "earlier", "cpu")
    new = [Question("n1", "what about a rusty saddle", (10,)), Question("n2", "does the lease ever end", (7,))]
    dev = replace(asked(LEARNT), questions=[*asked(LEARNT).questions, *new])
    models = {role: Teacher(ranker) if role == "teacher" else ranker}
    later = train(asked(SECOND), dev, tmp_path / "later", config, before=random_search, device="cpu", **models)
    assert earlier.dev.near is not None and not earlier.dev.near.all()
    assert later.dev.near is not None
    texts = [question.text for question in dev.questions]
    assert [text for text, is_known in zip(texts, later.dev.near, strict=True) if not is_known] == [
        question.text for question in new
    ]
