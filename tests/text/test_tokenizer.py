from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.text.tokenizer import PAD, UNKNOWN_TOKEN, TokenBatch, WordTokenizer, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Where's my E-Bike?", ["where", "'", "s", "my", "e", "-", "bike", "?"]),
        ("  tabs\tand\n lines ", ["tabs", "and", "lines"]),
        ("Übergröße café", ["übergröße", "café"]),
        ("保险 Auto覆盖", ["保", "险", "auto", "覆", "盖"]),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_vocabulary_holds_the_training_words_and_the_extra_ones() -> None:
    tokenizer = WordTokenizer.build(["a b b", "B c"], max_tokens=9, extra_words=["zebra", "b", "a_c"])
    assert tokenizer.words[:3] == ["[PAD]", "[UNK]", "b"]
    assert sorted(tokenizer.words[3:]) == ["a", "c", "zebra"]
    assert tokenizer.encode(["B zebra nothing"])[0] == [[2, tokenizer.words.index("zebra"), 1]]


def test_long_texts_are_cut_and_counted() -> None:
    tokenizer = WordTokenizer.build(["a b c"], max_tokens=2)
    ids, cut = tokenizer.encode(["a b c", "a b", "c"])
    assert [len(text) for text in ids] == [2, 2, 1]
    assert cut == 1


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_a_text_without_words_is_one_unknown_word(text: str) -> None:
    tokenizer = WordTokenizer.build(["a"], max_tokens=5)
    assert tokenizer.encode([text])[0] == [[tokenizer.words.index(UNKNOWN_TOKEN)]]


def test_special_tokens_in_a_users_text_are_ordinary_words() -> None:
    tokenizer = WordTokenizer.build(["a"], max_tokens=20)
    assert PAD not in tokenizer.encode(["[PAD] a [PAD]"])[0][0]


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    tokenizer = WordTokenizer.build(["Wo ist mein Paket?", "保险"], max_tokens=7)
    tokenizer.save(tmp_path / "tokenizer.json")
    again = WordTokenizer.load(tmp_path / "tokenizer.json", 7)
    assert again.words == tokenizer.words
    assert again.encode(["mein 保 x?"]) == tokenizer.encode(["mein 保 x?"])


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_any_text_has_tokens_within_the_vocabulary(texts: list[str]) -> None:
    tokenizer = WordTokenizer.build(["some words only"], max_tokens=4)
    ids, _ = tokenizer.encode(texts)
    assert len(ids) == len(texts)
    size = len(tokenizer.words)
    assert all(1 <= len(text) <= 4 and all(0 < i < size for i in text) for text in ids)


@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=9), min_size=1, max_size=6))
def test_a_batch_holds_its_texts(texts: list[list[int]]) -> None:
    batch = TokenBatch.from_lists(texts)
    assert batch.ids.shape == batch.mask.shape == (len(texts), max(map(len, texts)))
    assert [ids[mask].tolist() for ids, mask in zip(batch.ids, batch.mask, strict=True)] == texts
    assert (batch.ids[~batch.mask] == PAD).all()
