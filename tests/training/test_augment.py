"""Questions made of the training questions and of the sentences of answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import TEXTS, write_encoder

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import split_words
from ap_ranker.text.word_vectors import WordVectors
from ap_ranker.training.augment import (
    EXCHANGED,
    JOINED,
    LEFT_OUT,
    augmented_questions,
    find_neighbours,
    with_answer_sentences,
)
from ap_ranker.training.config import FEW_PAIRS, TrainingConfig
from ap_ranker.training.distill import distill
from ap_ranker.training.teacher import Teacher
from ap_ranker.training.train import train


def asked(*texts: str) -> Dataset:
    return Dataset("asked", [Answer("0", "Refund.")], [Question(str(i), text, (0,)) for i, text in enumerate(texts)])


WORDS = [f"w{i}" for i in range(40)]


def test_words_are_exchanged_and_left_out_as_often_as_said() -> None:
    made = augmented_questions(asked(" ".join(WORDS)), 2_000, {word: [f"x{word}"] for word in WORDS}, 1)
    tokens = [token for text in made for token in text.split()]
    assert 1_990 < len(made) <= 2_000
    assert np.mean([token.startswith("x") for token in tokens]) == pytest.approx(EXCHANGED / (1 - LEFT_OUT), abs=0.01)
    alone = [text for text in made if len(set(text.replace("x", "").split())) == len(text.split())]  # no joined ones
    longest = np.mean([len(text.split()) for text in alone if len(text.split()) > len(WORDS) / 2])
    assert longest == pytest.approx(len(WORDS) * (1 - LEFT_OUT), rel=0.05)


def test_some_begin_as_one_question_and_end_as_another() -> None:
    first, second = "a b c d e f", "u v w x y z"
    made = augmented_questions(asked(first, second), 3_000, {}, 1)
    both = sum(bool(set(text.split()) & set(first)) and bool(set(text.split()) & set(second)) for text in made)
    assert 0 < both / 3_000 < JOINED
    assert all(set(text.split()) <= set(first.split() + second.split()) for text in made)


def test_a_word_without_neighbours_stays_and_nothing_is_empty() -> None:
    made = augmented_questions(asked("one"), 50, {"one": []}, 1)
    assert set(made) == {"one", "one one"}
    assert augmented_questions(asked(), 50, {}, 1) == []
    assert augmented_questions(asked("\u200b"), 50, {}, 1) == []


def test_the_seed_decides() -> None:
    data = asked(*TEXTS)
    assert augmented_questions(data, 20, {}, 1) == augmented_questions(data, 20, {}, 1)
    assert augmented_questions(data, 20, {}, 1) != augmented_questions(data, 20, {}, 2)


def test_neighbours_are_the_nearest_words_by_cosine() -> None:
    words = ["bike", "bicycle", "cycle", "refund", "Bikes", "42"]
    matrix = np.array([[9, 0, 0], [1, 0.1, 0], [1, 1, 0], [0, 0, 1], [2, 0.1, 0], [5, 0, 0]], dtype=np.float32)
    near = find_neighbours(asked("bike refund"), WordVectors(words, matrix), most=100)
    assert near["bike"] == ["bikes", "bicycle", "cycle"]  # not itself, not the refund, no number
    assert near["refund"] == []
    few = find_neighbours(asked("bike refund"), WordVectors(words, matrix), most=2)
    assert few["bike"] == ["bicycle"]


@pytest.mark.parametrize(
    ("setting", "questions", "expected"),
    [(None, 3, 30), (None, 2_000, 8_000), (None, 20_000, 0), (5, 3, 5), (0, 3, 0), (5, 20_000, 5)],
)
def test_how_many_are_made(setting: int | None, questions: int, expected: int) -> None:
    assert TrainingConfig("ap-cnn", augmented_questions=setting).questions_to_make(questions) == expected
    assert TrainingConfig("ap-transformer").questions_to_make(3) == 0


def test_a_student_learns_from_them(pairs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = {"encoder": str(write_encoder(tmp_path / "encoder")), "size": 4}
    train(pairs, pairs, tmp_path / "teacher", TrainingConfig("ap-transformer", options, epochs=0, max_tokens=20))
    taught: list[list[str]] = []

    class Seen(Teacher):
        def __init__(self, rankers: list[Ranker], questions: list[str]) -> None:
            super().__init__(rankers, questions)
            taught.append(self.questions)

    monkeypatch.setattr("ap_ranker.training.distill.Teacher", Seen)
    config = TrainingConfig("bow-idf", embedding_size=4, epochs=1, augmented_questions=30)
    distill(tmp_path / "teacher", pairs, pairs, tmp_path / "student", config, questions=["Where is it?"])
    [questions] = taught
    card = (tmp_path / "student" / "README.md").read_text()
    assert f"for these and {len(questions)} questions without labels" in card
    assert questions[0] == "Where is it?"
    assert 10 < len(questions) <= 31
    known = {word for text in TEXTS for word in split_words(text)} | set(
        Ranker.from_pretrained(tmp_path / "teacher").tokenizer.words
    )
    assert all(set(text.split()) <= known for text in questions[1:])


def test_sentences_of_right_answers_become_questions() -> None:
    answers = [
        Answer("a", "How do I?\nOpen it. Then wait 1.5 hours!  Done"),
        Answer("b", "Only one sentence."),
        Answer("c", "Nobody. Asked."),
        Answer("d", "打开它。等一等。"),
    ]
    data = Dataset("d", answers, [Question("1", "how do i?", (0, 1)), Question("2", "q", (3,))])
    added = with_answer_sentences(data).questions[2:]
    assert [(q.text, q.positives) for q in added] == [
        ("Open it.", (0,)),
        ("Then wait 1.5 hours!", (0,)),
        ("Done", (0,)),
        ("打开它。", (3,)),
        ("等一等。", (3,)),
    ]


def test_only_few_pairs_need_them() -> None:
    assert TrainingConfig("ap-cnn").learns_from_sentences(FEW_PAIRS - 1)
    assert not TrainingConfig("ap-cnn").learns_from_sentences(FEW_PAIRS)
    assert TrainingConfig("ap-cnn", answer_sentences=True).learns_from_sentences(FEW_PAIRS)
    assert not TrainingConfig("ap-cnn", answer_sentences=False).learns_from_sentences(1)
    assert not TrainingConfig(model="ap-transformer").learns_from_sentences(1)
    assert TrainingConfig(model="ap-transformer", answer_sentences=True).learns_from_sentences(1)
