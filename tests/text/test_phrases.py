from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from ap_ranker.text.phrases import phrase_words
from ap_ranker.text.tokenizer import WordTokenizer, split_words
from ap_ranker.text.word_vectors import WordVectors

FILLERS = [f"word{i}" for i in range(2000)]
PHRASES = [["new", "york"], ["new", "york", "times"], ["stock", "exchange"], ["new", "york", "stock", "exchange"]]
PHRASES += [["credit", "card"], ["card", "number"], ["per", "se"]]
NOISE = ["new", "card", "number", "times", "per", "_", "?", ".", "-", "保", "险"]


def sentence(rng: random.Random, phrases: list[list[str]]) -> str:
    words: list[str] = []
    for _ in range(rng.randint(1, 6)):
        words += rng.choice([rng.choices(FILLERS, k=5), rng.choice(phrases), [rng.choice(NOISE)]])
    return " ".join(words).capitalize()


def corpus(seed: int) -> list[str]:
    rng = random.Random(seed)
    phrases = rng.sample(PHRASES, 4)
    return [sentence(rng, phrases) for _ in range(300)]


def decode_all(tokenizer: WordTokenizer, texts: list[str]) -> list[list[str]]:
    words = tokenizer.words
    return [[words[i] for i in ids] for ids in tokenizer.encode(texts)[0]]


def decode(tokenizer: WordTokenizer, text: str) -> list[str]:
    return decode_all(tokenizer, [text])[0]


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("new_york", ["new", "york"]),
        ("a_b_c", ["a", "b", "c"]),
        ("_", []),
        ("__", []),
        ("_a", []),
        ("a__b", []),
        ("ab", []),
    ],
)
def test_what_is_a_phrase(token: str, words: list[str]) -> None:
    assert phrase_words(token) == words


@pytest.mark.parametrize("seed", range(8))
def test_texts_are_joined_as_gensim_joins_them(seed: int) -> None:
    """Both passes, on the texts that were learnt from and on others; joins over punctuation marks cannot occur."""
    gensim = pytest.importorskip("gensim.models.phrases", reason="the extra phrases is not installed")
    texts = corpus(seed)
    tokenizer = WordTokenizer.build(texts, max_tokens=99, phrases=True)
    runs, run = [], []
    for text in texts:
        for word in [*split_words(text), "."]:
            if word.isalnum():
                run.append(word)
            elif run:
                runs.append(run)
                run = []
    bigrams = gensim.Phrases(runs)
    trigrams = gensim.Phrases(bigrams[runs])
    rng = random.Random(seed + 100)
    others = [sentence(rng, [*PHRASES, ["york", "new"], ["york", "times"]]) for _ in range(200)]
    known = set(tokenizer.words)
    words = [[word if word in known else "[UNK]" for word in split_words(text)] for text in texts + others]
    expected = [list(trigrams[bigrams[text]]) for text in words]
    assert expected != words
    assert decode_all(tokenizer, texts + others) == expected


def test_trigrams_and_the_bigrams_inside_them() -> None:
    """Every "new york" and "york times" here became part of "new york times"; alone, they are still joined."""
    pytest.importorskip("gensim", reason="the extra phrases is not installed")
    tokenizer = WordTokenizer.build(["New York Times", *FILLERS[:300]] * 10, max_tokens=9, phrases=True)
    assert decode(tokenizer, "The New York Times, word1") == ["[UNK]", "new_york_times", "[UNK]", "word1"]
    assert {"new_york", "york_times", "new_york_times"} <= set(tokenizer.words)
    assert decode(tokenizer, "new york word2 times") == ["new_york", "word2", "times"]
    assert decode(tokenizer, "new, york times") == ["new", "[UNK]", "york_times"]
    assert decode(tokenizer, "new_york") == ["new", "[UNK]", "york"]


def test_a_text_is_cut_after_its_phrases_are_joined() -> None:
    pytest.importorskip("gensim", reason="the extra phrases is not installed")
    tokenizer = WordTokenizer.build(["new york", *FILLERS[:300]] * 10, max_tokens=2, phrases=True)
    assert decode(tokenizer, "new york new york") == ["new_york", "new_york"]
    assert tokenizer.encode(["new york new york", "new york new york new"])[1] == 1


def test_saved_and_loaded_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gensim", reason="the extra phrases is not installed")
    texts = corpus(3)
    tokenizer = WordTokenizer.build(texts, max_tokens=50, phrases=True, extra_words=["zebra"])
    tokenizer.save(tmp_path / "tokenizer.json")
    monkeypatch.setitem(sys.modules, "gensim.models.phrases", None)  # not needed any more
    again = WordTokenizer.load(tmp_path / "tokenizer.json", 50)
    assert again.words == tokenizer.words
    assert again.encode(texts) == tokenizer.encode(texts)
    assert any(phrase_words(word) for text in decode_all(again, texts) for word in text)


def test_phrases_of_the_word_vectors_are_no_phrases_of_the_texts() -> None:
    tokenizer = WordTokenizer.build(["new york"], max_tokens=9, extra_words=["new_york", "_", "paris"])
    assert tokenizer.words == ["[PAD]", "[UNK]", "new", "york", "_", "paris"]
    assert decode(tokenizer, "new york") == ["new", "york"]


def test_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models.phrases", None)
    with refused('pip install "ap-ranker[phrases]"'):
        WordTokenizer.build(["a b"], max_tokens=5, phrases=True)


def test_vectors_of_phrases() -> None:
    vectors = WordVectors(["new", "York", "New_York", "card"], np.array([[1, 2], [3, 6], [7, 8], [5, 5]], np.float32))
    vocabulary = ["[PAD]", "new_york", "new_card", "card_xyzzy", "no_idea", "idea"]
    table = vectors.table(vocabulary, np.random.default_rng(0))
    noise = vectors.table(["[PAD]", "?", "?", "?", "!", "!"], np.random.default_rng(0))
    assert table[:4].tolist() == [[0, 0], [7, 8], [3, 3.5], [5, 5]]
    np.testing.assert_array_equal(table[4:], noise[4:])
