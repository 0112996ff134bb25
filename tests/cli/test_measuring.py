"""What a user measures who has one spreadsheet: the whole FAQ, and questions that training did not see."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from command_line import run
from conftest import ROOT
from random_encoders import BERT, pooled, word_pieces, write
from refusals import absent
from test_documentation import commands

from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import DEV
from ap_ranker.ranking.checkpoint import TRAINED_QUESTIONS, read_checkpoint_config
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.question_keys import question_key

SETTINGS = "model: qa-cnn\noptions: {filters: 8}\nembedding_size: 8\nepochs: 1\n"
TOPICS = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A FAQ in which every entry has its own answer, and questions of users about some of them."""
    letters = [chr(97 + n // 26) + chr(97 + n % 26) * 3 for n in range(TOPICS)]
    entries = [(f"{name} where may it be found?", f"The {name} is here, on page {name}.") for name in letters]
    users = [
        (f"{name} {name} lost, what now", answer.upper()) for name, (_, answer) in zip(letters, entries, strict=True)
    ]
    for file, rows in (("FAQ", entries), ("QUESTIONS", users[:30])):
        with (tmp_path / f"{file}.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows([("question", "answer"), *rows])
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    return tmp_path


def ok(*arguments: object, folder: Path) -> str:
    result = run(*arguments, folder=folder)
    assert result.code == 0, result.errors
    return " ".join(result.output.split())


def test_questions_that_training_sets_aside_calibrate_it(folder: Path) -> None:
    (folder / "settings.yaml").write_text(SETTINGS + "dev_share: 0.5\n")
    ok("train", "FAQ.csv", "--config", "settings.yaml", "--output", "c", folder=folder)
    dev, training = read_dataset(folder / "c", "dev"), read_dataset(folder / "FAQ.csv", "train")
    assert len(dev.questions) == TOPICS // 2
    seen = Ranker.from_pretrained(folder / "c", "cpu").seen_in_training([q.text for q in training.questions])
    aside = {question.text for question in dev.questions}
    assert seen == [question.text not in aside for question in training.questions]
    assert "FAQ" not in (folder / "c" / TRAINED_QUESTIONS).read_text()

    printed = ok("calibrate", "c", "--precision", "0.9", folder=folder)
    assert f"Candidates: {TOPICS} per question." in printed
    assert "seen in training" not in printed
    assert set(read_checkpoint_config(folder / "c").calibration) >= {"model"}
    assert not absent("more questions", ok("calibrate", "c", folder=folder))
    (folder / "FAQ.csv").rename(folder / "moved.csv")
    lost = run("calibrate", "c", folder=folder)
    assert (lost.code, "--answers FAQ.csv" in lost.errors) == (2, True)
    again = ok("calibrate", "c", "--answers", "moved.csv", "--precision", "0.9", folder=folder)
    assert f"Candidates: {TOPICS} per question." in again


@pytest.mark.slow
def test_no_questions_are_kept_if_the_user_has_them(folder: Path) -> None:
    ok("train", "FAQ.csv", "--dev", "QUESTIONS.csv", "--config", "settings.yaml", "--output", "c", folder=folder)
    assert not (folder / "c" / DEV).exists()
    result = run("calibrate", "c", folder=folder)
    assert (result.code, absent("dev.jsonl … ap-ranker calibrate", result.errors)) == (2, [])


def test_questions_seen_in_training_are_named_and_left_out_beside(folder: Path) -> None:
    ok("train", "QUESTIONS.csv", "--answers", "FAQ.csv", "--config", "settings.yaml", "--output", "c", folder=folder)
    aside = {question_key(question.text) for question in read_dataset(folder / "c", "dev").questions}
    options = ("--answers", "FAQ.csv", "--json", "r.json")
    printed = ok("evaluate", "c", "QUESTIONS.csv", *options, folder=folder)
    assert f"Candidates: all {TOPICS} answers." in printed
    numbers = json.loads((folder / "r.json").read_text())
    assert numbers["n_known"] == 30 - len(aside) > 0
    assert f"{numbers['n_known']} of the 30 questions were seen in training" in printed
    new = [row for row in csv.DictReader((folder / "QUESTIONS.csv").open()) if question_key(row["question"]) in aside]
    with (folder / "new.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("question", "answer"), *((row["question"], row["answer"]) for row in new)])
    ok("evaluate", "c", "new.csv", *options, folder=folder)
    alone = json.loads((folder / "r.json").read_text())
    assert alone["n_known"] == 0
    assert alone["new"]["model"] is None
    for row in ("model", "bm25"):
        assert numbers["new"][row] == pytest.approx(alone[row])
    assert not absent(f"{len(new)} … new.csv", ok("evaluate", "c", "new.csv", folder=folder))


def test_what_init_writes_has_learnt_from_no_question(folder: Path) -> None:
    encoder = write(folder / "encoder", BERT | {"max_position_embeddings": 256}, word_pieces(), pooled("mean"))
    ok("init", "--documents", "FAQ.csv", "--encoder", encoder, "--output", "c", folder=folder)
    assert Ranker.from_pretrained(folder / "c", "cpu").seen_in_training(["Where is it?", "?"]) == [False, False]
    assert "seen in training" not in ok("evaluate", "c", "QUESTIONS.csv", "--answers", "FAQ.csv", folder=folder)


@pytest.mark.slow
def test_the_commands_of_the_readme_measure_new_questions_against_the_whole_faq(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty folder, with one spreadsheet, as they stand."""
    monkeypatch.setattr("ap_ranker.search.default_pipelines.DEFAULTS", ROOT / "pipelines")  # as in a wheel
    data = read_dataset(ROOT / "examples" / "faq", "dev")
    pairs = [(q.text, data.answers[q.positives[0]].text.split("\n")[1]) for q in data.answerable[:140]]
    with (tmp_path / "FAQ.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("question", "answer"), *pairs])
    every = {words[0]: words for words in commands(ROOT / "README.md")}
    first = [every[name] for name in ("split", "train", "evaluate", "ask")]
    outputs = []
    for words in first:
        result = run(*words, folder=tmp_path)
        assert result.code == 0, result.errors
        outputs.append(" ".join(result.output.split()))
    answers = {answer for _, answer in pairs}
    assert f"Candidates: all {len(answers)} answers." in outputs[2]
    assert "Warning" not in outputs[2]
    [folder] = [path.parent for path in tmp_path.rglob("test.csv")]
    asked = [question.text for question in read_dataset(folder, "test").questions]
    assert len(asked) >= 20
    assert f"{len(asked)} questions of" in outputs[2]
    assert Ranker.from_pretrained(tmp_path / "checkpoints" / "faq").seen_in_training(asked) == [False] * len(asked)
    assert "1. 0." in outputs[3]
