"""The words of Thai, which has no spaces between them, for BM25; models of words read its characters."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from forked import run
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from ap_ranker.ranking.bm25 import BM25, bm25_name
from ap_ranker.text import languages
from ap_ranker.text.languages import check_language, is_language, stem, thai_words
from ap_ranker.text.reading import read_words
from ap_ranker.text.tokenizer import WordTokenizer

WORDS = ["อยาก", "ยกเลิก", "ออเดอร์"]
TYPED = "".join(WORDS)


@pytest.fixture
def library() -> None:
    pytest.importorskip("pythainlp", reason="missing: the extra thai")


@pytest.mark.usefixtures("library")
def test_words_are_those_of_the_dictionary() -> None:
    """What is not Thai stays as it is."""
    assert thai_words(f"東京{TYPED}ລາວ") == [("東京", False), *((word, True) for word in WORDS), ("ລາວ", False)]


@pytest.mark.usefixtures("library")
@settings(max_examples=100, deadline=None)
@given(st.from_regex("[\u0e01-\u0e3a\u0e40-\u0e4e]{1,30}", fullmatch=True))
def test_the_words_of_a_run_are_the_run(run: str) -> None:
    assert "".join(word for word, _ in thai_words(run)) == run


@pytest.mark.usefixtures("library")
def test_a_long_run() -> None:
    long = TYPED * 2_000
    words = thai_words(long)
    assert "".join(word for word, _ in words) == long
    assert len(words) > 2_000


@pytest.mark.usefixtures("library")
def test_threads_do_not_disturb_each_other() -> None:
    texts = [TYPED[i % 5 : i % 5 + 3 + i % 7] * (1 + i % 3) for i in range(600)]
    expected = [thai_words(text) for text in texts]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(thai_words, texts)) == expected


@pytest.mark.usefixtures("library")
def test_it_keeps_quiet_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is imported for the first time, by a user whose home is not there to write to."""
    code = "import sys; from ap_ranker.text.languages import thai_words; thai_words(sys.argv[1])"
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    ended = run(code, TYPED)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("library")
def test_bm25_reads_thai_as_words_or_pairs() -> None:
    """A word has its pairs of characters as another form; all else is read as without a language."""
    read = read_words("ยกเลิกออเดอร์東京 Größe", "thai")
    assert read[:2] == [
        (("ยกเลิก",), ("ยก", "กเ", "เลิ", "ลิก")),
        (("ออเดอร์",), ("ออ", "อเ", "เด", "ดอ", "อร์")),
    ]
    assert read[2:] == read_words("東京 Größe")
    assert all("ยกเลิก" not in form for word in read_words("ยกเลิกออเดอร์") for form in word)


@pytest.mark.usefixtures("library")
def test_a_text_with_the_thai_word_comes_before_one_with_its_pairs() -> None:
    texts = ["มีออเดอร์", "ออ อเ เด ดอ อร์ มี"]
    first, second = BM25(texts).scores("ออเดอร์")
    assert first == second > 0
    first, second = BM25(texts, language="thai").scores("ออเดอร์")
    assert first > second > 0


def test_thai_is_a_language_of_bm25_whose_words_have_no_stems(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_language("thai")
    assert stem("parcels", "thai") == "parcels"
    assert bm25_name("thai") == "BM25, thai words"
    for module in ["pythainlp", *(one for one in sys.modules if one.startswith("pythainlp."))]:
        monkeypatch.setitem(sys.modules, module, None)
    languages._thai_library.cache_clear()
    assert BM25(["ยกเลิก"]).scores("ยกเลิก") > 0  # without a language no package counts
    for fails in (lambda: check_language("thai"), lambda: BM25(["a"], language="thai")):
        with refused('pip install "ap-ranker[thai]"'):
            fails()


def test_each_character_is_a_word_of_the_models() -> None:
    tokenizer = WordTokenizer.build(["牙科保险"], max_tokens=5)
    assert [tokenizer.words[i] for i in tokenizer.encode(["保险牙"])[0][0]] == ["保", "险", "牙"]
