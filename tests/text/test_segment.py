from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ap_ranker.errors import InputError
from ap_ranker.text.segment import find_segmenter
from ap_ranker.text.tokenizer import WordTokenizer

TEXTS = ["我想买医疗保险，Größe 3G？", "医疗保险 covers 牙科吗?", "牙科保险"]


def test_no_segmenter() -> None:
    assert find_segmenter(None) is None


def test_unknown_segmenter_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="Unknown segmenter 'spaces': expected one of jieba"):
        WordTokenizer.build(["a"], max_tokens=5, segmenter="spaces")


def test_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(InputError, match=r'pip install "ap-ranker\[chinese\]"'):
        WordTokenizer.build(["a"], max_tokens=5, segmenter="jieba")


def test_words_are_jiebas(capfd: pytest.CaptureFixture[str]) -> None:
    """Only Chinese characters go to it, and it keeps quiet."""
    jieba = pytest.importorskip("jieba", reason="the extra chinese is not installed")
    tokenizer = WordTokenizer.build(TEXTS, max_tokens=50, segmenter="jieba")
    ids = tokenizer.encode([TEXTS[0]])[0][0]
    assert [tokenizer.words[i] for i in ids] == [*jieba.lcut("我想买医疗保险"), ",", "größe", "3g", "?"]
    assert "医疗保险" in tokenizer.words or {"医疗", "保险"} <= set(tokenizer.words)
    assert tokenizer.encode(["牙科保险xyzzy"])[0][0] == [*map(tokenizer.words.index, ["牙科", "保险"]), 1]
    assert "".join(capfd.readouterr()) == ""


def test_by_default_each_character_is_a_word() -> None:
    tokenizer = WordTokenizer.build(["牙科保险"], max_tokens=5)
    assert [tokenizer.words[i] for i in tokenizer.encode(["保险牙"])[0][0]] == ["保", "险", "牙"]


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    pytest.importorskip("jieba", reason="the extra chinese is not installed")
    tokenizer = WordTokenizer.build(TEXTS, max_tokens=50, segmenter="jieba")
    tokenizer.save(tmp_path / "tokenizer.json")
    again = WordTokenizer.load(tmp_path / "tokenizer.json", 50, "jieba")
    assert again.words == tokenizer.words
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS)
    assert 1 not in again.encode(TEXTS)[0][0]


def test_phrases_of_chinese_words() -> None:
    pytest.importorskip("jieba", reason="the extra chinese is not installed")
    pytest.importorskip("gensim", reason="the extra phrases is not installed")
    texts = ["牙科保险", *(f"word{i}" for i in range(200))] * 10
    tokenizer = WordTokenizer.build(texts, max_tokens=9, segmenter="jieba", phrases=True)
    assert [tokenizer.words[i] for i in tokenizer.encode(["牙科保险"])[0][0]] == ["牙科_保险"]
