"""Misspelt words of a question to a pretrained encoder: which are read as a word of the texts, and which stay."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from ap_ranker.text.tokenizer import SubwordTokenizer, WordsOfTexts

OF_TEXTS = ["the", "how", "bike", "battery", "insurance", "website", "loan", "use", "Paris"]
OF_THE_ENCODER = ["form", "from", "kiwi"]
PIECES = [*string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
NAMES = {"sk", "##erry"}
"""The pieces of a name in the texts."""

_vocabulary = ["[PAD]", "[UNK]", *map(str.lower, OF_TEXTS), *OF_THE_ENCODER, *PIECES, *sorted(NAMES)]


@pytest.fixture(scope="module")
def words() -> WordsOfTexts:
    tokenizer = Tokenizer(WordPiece({word: row for row, word in enumerate(_vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder()
    counted = {*map(str.lower, OF_TEXTS), *NAMES}
    return WordsOfTexts(SubwordTokenizer(tokenizer, 50), [float(word in counted) for word in _vocabulary])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("hwo", "how"),
        ("Hwo to ues teh bkie?", "how to use the bike?"),
        ("my batery, insurence", "my battery, insurance"),
        ("webstie WEBSTIE", "website website"),
        ("loanbike", "loan bike"),
        ("skerry", "skerry"),  # the texts have all of it
        ("form kiwi", "form kiwi"),  # the encoder has them
        ("zebra", "zebra"),
        ("eth", "eth"),  # not by one exchange: neither "the" nor another
        ("th ho", "th ho"),  # too short
        ("12v a4-1200", "12v a4-1200"),
        ("自転車の保証 \ud800 🚲", "自転車の保証 \ud800 🚲"),
        ("", ""),
    ],
)
def test_how_words_are_read(words: WordsOfTexts, text: str, read: str) -> None:
    assert words.mend(text) == read


@given(st.lists(st.sampled_from([*OF_TEXTS, *OF_THE_ENCODER, "?", "-", "12"])).map(" ".join))
def test_what_is_spelt_right_stays(words: WordsOfTexts, text: str) -> None:
    assert words.mend(text) == text


@given(st.sampled_from(OF_TEXTS).map(str.lower).filter(lambda word: len(word) > 2), st.data())
def test_any_two_neighbours_exchanged_are_put_right(words: WordsOfTexts, word: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(word) - 2))
    wrong = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    assert words.mend(wrong) == word


@given(st.text())
def test_what_is_mended_stays_so(words: WordsOfTexts, text: str) -> None:
    mended = words.mend(text)
    assert words.mend(mended) == mended


@given(st.text(string.ascii_lowercase, min_size=1, max_size=12))
def test_a_word_is_left_or_becomes_words_of_the_texts(words: WordsOfTexts, word: str) -> None:
    mended = words.mend(word)
    assert mended == word or set(mended.split()) <= {*map(str.lower, OF_TEXTS)}


@given(st.text(st.sampled_from([*"hwobkietua 1?", "\u0301", "自"]), max_size=30))
def test_what_stands_for_a_misspelt_word_is_the_word(words: WordsOfTexts, text: str) -> None:
    """Of each character of what is read: what it is read for in the text, from its beginning to its end."""
    mended = words.mend(text)
    spans = words.unmended(text, [(i, i + 1) for i in range(len(mended))])
    assert "".join(text[start:end] for start, end in dict.fromkeys(spans)) == text
    assert all(words.mend(text[start:end]) != text[start:end] for start, end in spans if end - start > 1)
    assert words.unmended(text, [(0, 0), (0, len(mended))]) == [(0, 0), (0, len(text) if mended else 0)]
