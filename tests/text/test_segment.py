from __future__ import annotations

import copy
import pickle
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
from ap_ranker.text.languages import SEGMENTERS, Library, Segmenter, check_language, find_segmenter, is_language, stem
from ap_ranker.text.reading import read_words
from ap_ranker.text.tokenizer import WordTokenizer

TEXTS = ["我想买医疗保险，Größe 3G？", "医疗保险 covers 牙科吗?", "牙科保险"]

WORDS = {
    "jieba": "我 想 买 医疗保险",
    "pythainlp": "อยาก ยกเลิก ออเดอร์",
    "sudachipy": "サイズ を 交換 し たい",
    "kiwipiepy": "주문 을 취소 하 고 싶 어요",
}
"""With a space between words as dictionaries have them, and between a Korean word and its endings."""

TYPED = {name: words.replace(" ", "") for name, words in WORDS.items()} | {"kiwipiepy": "주문을 취소하고 싶어요"}

LETTERS = {
    "jieba": "[\u4e00-\u9fff]",
    "pythainlp": "[\u0e01-\u0e3a\u0e40-\u0e4e]",
    "sudachipy": "[\u3041-\u3096\u30a1-\u30fa\u4e00-\u4fff]",
    "kiwipiepy": "[\uac00-\ud7a3\u1100-\u1112]",
}


@pytest.fixture(params=SEGMENTERS)
def name(request: pytest.FixtureRequest) -> str:
    needs(request.param)
    return str(request.param)


def needs(name: str) -> None:
    pytest.importorskip(name, reason=f"missing: the extra {SEGMENTERS[name].extra}")


def forget(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package were not installed."""
    for module in [name, *(one for one in sys.modules if one.startswith(f"{name}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    languages._loaded.cache_clear()


def encoded(tokenizer: WordTokenizer, text: str) -> list[str]:
    return [tokenizer.words[i] for i in tokenizer.encode([text])[0][0]]


def test_no_segmenter() -> None:
    assert find_segmenter(None) is None


def test_unknown_segmenter_lists_the_known_ones() -> None:
    with refused("'spaces' … jieba, pythainlp, sudachipy"):
        WordTokenizer.build(["a"], max_tokens=5, segmenter="spaces")


@pytest.mark.parametrize(("name", "library"), SEGMENTERS.items())
def test_missing_extra_names_the_command(name: str, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(name, monkeypatch)
    with refused(f"{name} … ap-ranker[{library.extra}]"):
        WordTokenizer.build(["a"], max_tokens=5, segmenter=name)


def test_words_are_the_languages(name: str) -> None:
    """Words of other languages, digits and marks stay as they are."""
    text = f"Größe 3G? {TYPED[name]}! Größe"
    tokenizer = WordTokenizer.build([text], max_tokens=50, segmenter=name)
    assert encoded(tokenizer, text) == ["größe", "3g", "?", *WORDS[name].split(), "!", "größe"]
    spans = [text[start:end] for start, end in tokenizer.spans(text)]
    assert spans == ["Größe", "3G", "?", *WORDS[name].split(), "!", "Größe"]


def test_other_scripts_without_spaces_are_characters(name: str) -> None:
    """What no library reads must not become one token of a whole sentence."""
    text = f"{TYPED[name]}ລາວ"
    tokenizer = WordTokenizer.build([text], max_tokens=50, segmenter=name)
    assert encoded(tokenizer, text) == [*WORDS[name].split(), "ລ", "າ", "ວ"]


def test_the_words_of_a_run_are_the_run(name: str) -> None:
    """Whatever it holds, and however long it is: spans count its characters."""
    splits = Segmenter(name)

    @settings(max_examples=100, deadline=None)
    @given(st.from_regex(f"{LETTERS[name]}{{1,30}}", fullmatch=True))
    def check(run: str) -> None:
        assert "".join(word for word, _ in splits.words(run)) == run
        assert splits(run).replace(" ", "") == run
        assert splits(run) == splits(run)

    check()
    long = TYPED[name].replace(" ", "") * 2_000
    words = splits.words(long)
    assert "".join(word for word, _ in words) == long
    assert len(words) > 2_000


def test_threads_do_not_disturb_each_other(name: str) -> None:
    splits = Segmenter(name)
    typed = TYPED[name].replace(" ", "")
    texts = [typed[i % 5 : i % 5 + 3 + i % 7] * (1 + i % 3) for i in range(600)]
    expected = [splits(text) for text in texts]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(splits, texts)) == expected


def test_a_copy_and_a_pickle_are_the_same(name: str) -> None:
    splits = find_segmenter(name)
    assert splits is not None
    assert copy.deepcopy(splits)(TYPED[name]) == pickle.loads(pickle.dumps(splits))(TYPED[name]) == splits(TYPED[name])
    assert len(pickle.dumps(splits)) < 200


def test_it_keeps_quiet_and_leaves_nothing_behind(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is imported for the first time, by a user whose home is not there to write to."""
    code = "import sys; from ap_ranker.text.languages import find_segmenter; find_segmenter(sys.argv[1])(sys.argv[2])"
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    ended = run(code, name, TYPED[name])
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)
    assert list(tmp_path.iterdir()) == []


def test_bm25_reads_thai_as_words_or_pairs() -> None:
    """A word has its pairs of characters as another form; all else is read as without a language."""
    needs("pythainlp")
    read = read_words("ยกเลิกออเดอร์東京 Größe", "thai")
    assert read[:2] == [
        (("ยกเลิก",), ("ยก", "กเ", "เลิ", "ลิก")),
        (("ออเดอร์",), ("ออ", "อเ", "เด", "ดอ", "อร์")),
    ]
    assert read[2:] == read_words("東京 Größe")
    assert all("ยกเลิก" not in form for word in read_words("ยกเลิกออเดอร์") for form in word)


def test_a_text_with_the_thai_word_comes_before_one_with_its_pairs() -> None:
    needs("pythainlp")
    texts = ["มีออเดอร์", "ออ อเ เด ดอ อร์ มี"]
    first, second = BM25(texts).scores("ออเดอร์")
    assert first == second > 0
    first, second = BM25(texts, language="thai").scores("ออเดอร์")
    assert first > second > 0


def test_thai_is_a_language_of_bm25_whose_words_have_no_stems(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_language("thai")
    assert stem("parcels", "thai") == "parcels"
    assert bm25_name("thai") == "BM25, thai words"
    forget("pythainlp", monkeypatch)
    assert BM25(["ยกเลิก"]).scores("ยกเลิก") > 0  # without a language no package counts
    for fails in (lambda: check_language("thai"), lambda: BM25(["a"], language="thai")):
        with refused('pip install "ap-ranker[thai]"'):
            fails()


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
