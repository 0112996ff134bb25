"""Word vectors of a checkpoint: against counts in plain Python, and as the start of another model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TEXTS, write_checkpoint

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.models.ap import AttentivePoolingCNN
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import split_words
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.find_vectors import find_vectors, vectors_of_checkpoint
from ap_ranker.training.train import train


@pytest.fixture
def bag(pairs: Dataset, tmp_path: Path) -> Path:
    """A checkpoint of bow-idf."""
    train(pairs, pairs, tmp_path / "bag", TrainingConfig("bow-idf", embedding_size=6))
    return tmp_path / "bag"


def test_a_word_of_a_bag_of_words_is_as_long_as_its_idf(bag: Path) -> None:
    vectors, ranker = find_vectors(str(bag), None), Ranker.from_pretrained(bag)
    table = vectors.table(ranker.tokenizer.words, np.random.default_rng(0))
    assert ranker.model.embedding is not None
    learnt = ranker.model.embedding.vectors.weight.detach().double().numpy()
    answers = [set(split_words(text)) for text in TEXTS[1::2]]
    expected = []
    for row, word in enumerate(ranker.tokenizer.words[2:], start=2):
        found = sum(word in answer for answer in answers)
        idf = math.log(1 + (len(answers) - found + 0.5) / (found + 0.5)) if any(map(str.isalnum, word)) else 0.0
        expected.append([idf * number for number in learnt[row]])
    flat = [number for row in expected for number in row]
    mean = sum(flat) / len(flat)
    spread = math.sqrt(sum((number - mean) ** 2 for number in flat) / len(flat))
    np.testing.assert_allclose(table[2:], np.array(expected) * 0.4 / spread, rtol=1e-4, atol=1e-6)
    assert not table[:2].any()  # padding, and unknown words, which a bag of words leaves out


def test_ap_cnn_begins_with_the_scores_of_the_bag(bag: Path, pairs: Dataset, tmp_path: Path) -> None:
    options = {"filters": 6, "copy_words": True, "sharpness": 1e-6}
    config = TrainingConfig("ap-cnn", options, embeddings=str(bag), epochs=1, learning_rate=1e-9)
    first, then = Ranker.from_pretrained(bag), train(pairs, pairs, tmp_path / "cnn", config).ranker
    assert isinstance(then.model, AttentivePoolingCNN)
    with torch.no_grad():  # without the random weights beside the copy
        weight = then.model.encoder.linear.weight
        weight.copy_((weight > 0.5).float())
    for question in [*TEXTS[0::2], "Where is my zzyzx parcel?"]:
        np.testing.assert_allclose(then.score(question, TEXTS[1::2]), first.score(question, TEXTS[1::2]), atol=1e-4)


def test_a_model_begins_with_them_and_its_card_says_so(bag: Path, pairs: Dataset, tmp_path: Path) -> None:
    config = TrainingConfig("qa-cnn", {"filters": 4}, embeddings=str(bag), embedding_size=100, epochs=1)
    ranker = train(pairs, pairs, tmp_path / "checkpoint", config).ranker
    assert ranker.config is not None
    assert ranker.config.embedding_size == 6  # those of the checkpoint decide
    assert f"the checkpoint {bag}" in (tmp_path / "checkpoint" / "README.md").read_text()


def test_a_model_without_word_vectors_has_none_to_give(tmp_path: Path) -> None:
    checkpoint = write_checkpoint("bm25", tmp_path / "bm25")
    with pytest.raises(InputError, match="bm25: expected a checkpoint of a model with word vectors, found bm25"):
        find_vectors(str(checkpoint), None)


def test_vectors_without_numbers_are_refused(bag: Path) -> None:
    ranker = Ranker.from_pretrained(bag)
    assert ranker.model.embedding is not None
    ranker.model.embedding.vectors.weight.data.zero_()
    with pytest.raises(InputError, match="expected word vectors with different numbers"):
        vectors_of_checkpoint(ranker)


def test_a_folder_that_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a GloVe, word2vec or fastText file"):
        find_vectors(str(tmp_path / "nothing"), None)
