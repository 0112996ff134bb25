"""The known words that an unknown one is read as, against a plain reading of the three rules."""

from __future__ import annotations

import random
import time

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from naive.nearest import plainly

from ap_ranker.data.reader import read_dataset
from ap_ranker.text import nearest_word
from ap_ranker.text.nearest_word import NearestWords
from ap_ranker.text.tokenizer import UNKNOWN_TOKEN, WordTokenizer, split_words

KNOWN = ["the", "number", "head", "plate", "languages", "rust", "return", "lamp", "account", "oil", "12v", "amount"]


@pytest.fixture
def tokenizer() -> WordTokenizer:
    return WordTokenizer.build([" ".join(KNOWN)], max_tokens=20)


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("rusting", ["rust"]),
        ("accounts", ["account"]),
        ("langauges", ["languages"]),
        ("lnguagse", ["languages"]),  # two changes, eight letters
        ("retrun", ["return"]),
        ("RETRUN", ["return"]),
        ("acount", ["account"]),  # "amount" is as near, but comes later
        ("headlamp", ["head", "lamp"]),
        ("numberplate", ["number", "plate"]),
        ("lamq", [UNKNOWN_TOKEN]),  # too short: it may be many words
        ("oiling", [UNKNOWN_TOKEN]),
        ("raturm", [UNKNOWN_TOKEN]),  # two changes, six letters
        ("eturn", [UNKNOWN_TOKEN]),  # another first letter
        ("14v", [UNKNOWN_TOKEN]),
        ("zebra", [UNKNOWN_TOKEN]),
    ],
)
def test_an_unknown_word_is_read_as_the_nearest_one(tokenizer: WordTokenizer, word: str, known: list[str]) -> None:
    [ids, alone], _ = tokenizer.encode([f"the {word} 12v", "the 12v"])
    assert [tokenizer.words[row] for row in ids] == ["the", *known, "12v"]
    assert [tokenizer.words[row] for row in alone] == ["the", "12v"]


def test_the_parts_of_a_compound_have_spans_of_their_own(tokenizer: WordTokenizer) -> None:
    text = "The Headlamp, the langauges"
    assert [text[start:end] for start, end in tokenizer.spans(text)] == ["The", "Head", "lamp", ",", "the", "langauges"]


WORDS = st.text("abc", min_size=1, max_size=11)


@given(known=st.lists(WORDS, unique=True, max_size=30), word=WORDS)
def test_as_the_rules_say(known: list[str], word: str) -> None:
    if word not in known:
        assert list(NearestWords(known).read(word)) == plainly(word, known)


def test_what_is_no_word_takes_no_time() -> None:
    words = NearestWords(["abcd"])
    began = time.perf_counter()
    assert words.read("abc" * 100_000) == ()
    assert words.read("abcd" + "é" * 47) == ()
    assert words.read("abcd" + "é" * 3) == ("abcd",)
    assert time.perf_counter() - began < 1  # each way to divide it would be tried: minutes


def test_a_full_memory_of_words_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_word, "KEPT", 2)
    words = NearestWords(KNOWN)
    unknown = ["retrun", "acount", "rusting", "retrun", "zebra", "acount"]
    assert [words.read(word) for word in unknown] == [
        ("return",),
        ("account",),
        ("rust",),
        ("return",),
        (),
        ("account",),
    ]


def test_most_typing_errors_in_the_example_are_read_as_the_word_meant() -> None:
    """Two neighbours exchanged within a word of eight letters or more."""
    words = {
        word for answer in read_dataset(ROOT / "examples" / "faq", "train").answers for word in split_words(answer.text)
    }
    known = sorted(words)
    vocabulary, rng = NearestWords(known), random.Random(1)
    meant = [word for word in known if word.isalpha() and len(word) >= 8]
    typed = []
    for word in meant:
        place = rng.randrange(1, len(word) - 1)
        typed.append(word[:place] + word[place + 1] + word[place] + word[place + 2 :])
    pairs = [(word, vocabulary.read(error)) for word, error in zip(meant, typed, strict=True) if error not in words]
    assert len(pairs) > 300
    assert sum(read == (word,) for word, read in pairs) > 0.9 * len(pairs)
