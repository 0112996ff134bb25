"""Where tokens stand in a text, whatever its script: the characters of a span, read alone, are the token again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter

import regex
from hypothesis import example, given
from hypothesis import strategies as st
from naive.nearest import plainly
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from ap_ranker.text.reading import plain
from ap_ranker.text.tokenizer import Span, SubwordTokenizer, WordTokenizer, split_words, symbols_apart

# Letters that change their number when lower-cased or stripped, marks that vanish, scripts without spaces.
PARTS = [
    "İ",
    "ẞ",
    "ﬁ",
    "Å",
    "A\u030a",
    "e\u0301",
    "\u0301",
    "\x00",
    "\u200b",
    "\ufeff",
    "\u00a0",
    "\t",
    "\n",
    " ",
    "  ",
]
PARTS += [
    "New",
    "york",
    "TIMES",
    "_",
    "'",
    "?",
    "e-Mail",
    "保险",
    "我想买医疗保险",
    "𠀀",
    "ｗｉｄｅ",
    "가격",
    "🚲",
    "👩🏽‍🔧",
    "ไทย",
]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PARTS), max_size=12).map("".join))


def words_only(max_tokens: int = 999) -> WordTokenizer:
    return WordTokenizer.build(["new york times ? e - mail 保 险 i̇ å"], max_tokens=max_tokens)


def is_symbol(word: str) -> bool:
    return not word.isascii() and regex.fullmatch(r"\p{S}+", word) is not None  # Python's table of Unicode is older


def parts(word: str, tokenizer: WordTokenizer) -> list[str]:
    """The two words of an unknown compound, none of an unknown symbol, or the word."""
    if is_symbol(word):
        return []
    known = tokenizer.words[2:]
    read = [] if word in known else plainly(word, known)
    return read if len(read) == 2 else [word]


def distinct(spans: list[Span]) -> list[Span]:
    """The words of one character, such as ½, share its span."""
    return [span for span, _ in groupby(spans)]


def by_span(spans: list[Span], tokens: Sequence[object]) -> list[list[object]]:
    return [[token for _, token in group] for _, group in groupby(zip(spans, tokens, strict=True), key=itemgetter(0))]


@given(TEXTS)
def test_a_words_span_is_the_word_and_between_spans_is_none(text: str) -> None:
    tokenizer = words_only()
    [ids], _ = tokenizer.encode([text])
    spans = tokenizer.spans(text)
    assert len(spans) == len(ids)
    words = [part for word in split_words(text) for part in parts(word, tokenizer)]
    if not words:
        assert spans == [(0, 0)]
        return
    read = [[word for word in split_words(text[start:end]) if not is_symbol(word)] for start, end in distinct(spans)]
    assert read == by_span(spans, words)
    assert [tokenizer.encode([text[start:end]])[0][0] for start, end in distinct(spans)] == by_span(spans, ids)
    edges = [0, *(place for span in distinct(spans) for place in span), len(text)]
    assert edges == sorted(edges)
    between = [split_words(text[end:start]) for end, start in zip(edges[0::2], edges[1::2], strict=True)]
    assert all(map(is_symbol, chain(*between)))


@given(TEXTS, st.integers(1, 4))
def test_a_cut_texts_spans_end_where_it_was_cut(text: str, limit: int) -> None:
    assert words_only(limit).spans(text) == words_only().spans(text)[:limit]


# --- subwords ---

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "parcel",
    "##s",
    "e",
    "##e",
    "a",
    "##a",
    "?",
    "i",
    "new",
    "york",
    "##york",
]


def word_pieces(max_tokens: int = 999) -> SubwordTokenizer:
    tokenizer = Tokenizer(models.WordPiece({word: row for row, word in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return SubwordTokenizer(tokenizer, max_tokens)


@example("0\U0001f100", 30)  # a sign that is read as "0.": half of it belongs to the number before it
@given(TEXTS, st.integers(3, 30))
def test_a_subwords_span_is_its_letters(text: str, limit: int) -> None:
    tokenizer = word_pieces(limit)
    [ids], _ = tokenizer.encode([text])
    spans = tokenizer.spans(text)
    assert len(spans) == len(ids)
    assert spans[0] == (0, 0)
    assert spans[-1][0] == spans[-1][1] == spans[-2][1]
    assert all(0 <= start < end <= len(text) for start, end in spans[1:-1])
    shared: set[int] = set()  # signs that are read as several, of which two words have a part
    for (_, end), (start, _) in pairwise(distinct(spans)):
        if end > start:
            assert end == start + 1
            assert len(plain(text[start])) > 1
            shared.add(start)
    bert = normalizers.BertNormalizer(handle_chinese_chars=False)
    for (start, end), tokens in zip(distinct(spans[1:-1]), by_span(spans[1:-1], ids[1:-1]), strict=True):
        pieces = [PIECES[token] for token in tokens]
        if "[UNK]" not in pieces and len(pieces) == 1 and shared.isdisjoint(range(start, end)):
            assert bert.normalize_str(plain(text[start:end])) == pieces[0].removeprefix("##")


def test_subwords() -> None:
    text = "Áéa PARCELS, é?"
    found = [text[start:end] for start, end in word_pieces().spans(text)]
    assert found == ["", "Á", "é", "a", "PARCEL", "S", ",", "é", "?", ""]
    assert [text[start:end] for start, end in word_pieces(5).spans(text)] == ["", "Á", "é", "a", ""]


@given(TEXTS)
def test_the_bytes_of_a_character_share_its_span(text: str) -> None:
    """Encoders such as RoBERTa read bytes; with no merges each byte is a token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: row for row, word in enumerate(["[PAD]", "[UNK]", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    spans = SubwordTokenizer(tokenizer, 999).spans(text)
    read = symbols_apart(plain(text))
    assert len(spans) == len(read.encode()[:999]) or (not read and spans == [(0, 0)])
    if plain(text) == text == read:
        expected = [(place, place + 1) for place, character in enumerate(text) for _ in character.encode()]
        assert spans == (expected[:999] or [(0, 0)])
    first = 0
    for character in read:
        assert len(set(spans[first : first + len(character.encode())])) <= 1
        first += len(character.encode())
