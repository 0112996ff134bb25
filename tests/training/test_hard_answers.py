"""Which answers are hard to tell from the right one, by a loop over all; and that a training learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from conftest import write_encoder
from refusals import refused
from small_runs import of_topics

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.training import wrong_answers
from ap_ranker.training.batches import Batches
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train
from ap_ranker.training.wrong_answers import HardWrongAnswers

WORDS = ["parcel", "refund", "card", "dog", "box", "key", "door", "map"]


class Encoder:
    """Vectors that a seed draws, the same for a text every time."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def embed_questions(self, texts: Sequence[str]) -> torch.Tensor:
        vectors = [np.random.default_rng([self._seed, *text.encode()]).normal(size=3) for text in texts]
        return torch.tensor(np.array([vector / np.linalg.norm(vector) for vector in vectors]))

    embed_answers = embed_questions


def faq(seed: int) -> Dataset:
    drawing = np.random.default_rng(seed)
    answers, questions = [], []  # none of them equal or nearly equal
    for row in range(12):
        answers.append(
            Answer(str(row), f"{' '.join(drawing.choice(WORDS, 3, replace=False))} {'abcdefghijkl'[row] * 9}")
        )
    for row in range(8):
        positives = drawing.choice(12, 1 + row % 2, replace=False).tolist()
        text = f"{' '.join(drawing.choice(WORDS, 2, replace=False))} {'abcdefghijkl'[row] * 8}"
        questions.append(Question(str(row), text, tuple(positives)))
    return Dataset("d", answers, questions)


@pytest.mark.parametrize("seed", range(20))
def test_hard_answers_are_those_of_a_loop_over_all(seed: int) -> None:
    data = faq(seed)
    untrained: Any = Encoder(seed)
    now: Any = Encoder(seed + 100)
    found = HardWrongAnswers(data, untrained, None, most=3).found_by(now)
    index = BM25(data.answer_texts)
    for question, rows in zip(data.questions, found, strict=True):

        def cosines(encoder: Any, question: Question = question) -> list[float]:
            return (encoder.embed_answers(data.answer_texts) @ encoder.embed_questions([question.text])[0]).tolist()

        before = cosines(untrained)
        least = max(before[row] for row in question.positives) - 0.05
        wrong = {row for row in range(12) if before[row] < least} - set(question.positives)
        by_words = index.scores(question.text)
        by_meaning = np.array(cosines(now))
        with_a_word = [row for row in np.argsort(-by_words, kind="stable").tolist() if by_words[row] > 0]
        in_turn = chain.from_iterable(zip_longest(with_a_word, np.argsort(-by_meaning).tolist()))
        distinct = [row for row in dict.fromkeys(in_turn) if row is not None and row in wrong]
        assert rows == distinct[:6]


DATA = of_topics("where is my {}?", "the {} is gone", "help with {} please")


def test_a_training_learns_from_the_hard_answers_of_each_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the model as it is then, and drawn into the batches."""
    monkeypatch.setattr(wrong_answers, "NEARLY_RIGHT", -3.0)  # a tiny encoder finds all of them nearly as good
    encoder = write_encoder(tmp_path / "encoder", [*DATA.answer_texts, *DATA.question_texts])
    found: list[list[list[int]]] = []
    columns: list[int] = []
    find, make = HardWrongAnswers.found_by, Batches.__call__

    def watched(hard: HardWrongAnswers, ranker: Any) -> list[list[int]]:
        assert not ranker.model.training or not found
        found.append(find(hard, ranker))
        return found[-1]

    def made(batches: Batches, pairs: Sequence[tuple[int, int]]) -> dict[str, torch.Tensor]:
        batch = make(batches, pairs)
        columns.append(len(batch["answer_ids"]))
        (question, _) = pairs[0]
        assert batches.hard_rows[question]
        return batch

    options = {"encoder": str(encoder), "size": 6}
    settings: dict[str, Any] = {
        "epochs": 2,
        "batch_size": 1,
        "encoder_learning_rate": 0.01,
        "group_answers": False,
        "max_tokens": 24,
    }
    with patch.object(HardWrongAnswers, "found_by", watched), patch.object(Batches, "__call__", made):
        config = TrainingConfig("ap-transformer", options, hard_answers=2, **settings)
        train(DATA, DATA, tmp_path / "c", config, device="cpu")
    assert len(found) == 2
    assert found[0] != found[1], "the model has learnt meanwhile"
    assert set(columns) <= {1, 2, 3} and max(columns) == 3


def test_where_there_are_none_it_is_said(tmp_path: Path) -> None:
    with refused("hard_answers … listwise"):
        train(DATA, DATA, tmp_path / "c", TrainingConfig("qa-cnn", objective="listwise", hard_answers=4), device="cpu")
    with refused("hard_answers … ap-cnn"):
        train(DATA, DATA, tmp_path / "c", TrainingConfig("ap-cnn", hard_answers=4), device="cpu")
