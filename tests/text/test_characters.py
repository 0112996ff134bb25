"""Characters made plain: what is left of them, and where each of them stood."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.text.reading import SOFT, plain, softly_plain
from ap_ranker.text.tokenizer import WordTokenizer, plain_spans, split_words, symbols_apart

MARKED = st.lists(
    st.sampled_from(
        [*"uoaOe ñ?が我か가각ｶﾞ１½①’—😀✔", "\u0308", "\u0301", "\u3099", "\u11a8", "ß", "\n", "\u200b", "\u200d"]
    )
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Where’s ‘my’ “order”?", "Where's 'my' \"order\"?"),
        ("wait—what", "wait-what"),
        ("Mon–Fri \u2212 5\u2011\u20117", "Mon-Fri - 5--7"),
        ("re\u00adturn\ufeff \u200emy\u202e bike\ufe0f", "return my bike"),
        ("a\fb\vc\x85d\x00e\u2028f\ufffcg\ufffdh\ue000i", "a b c d e f g h i"),
        ("line\nbreak\ttab", "line\nbreak\ttab"),
        ("۱۴ १४ ๑๔ １４", "14 14 14 14"),
        ("№5", " No 5"),
        ("1½ l", "1 1/2  l"),
        ("Acme® Acme™", "Acme  Acme "),
        ("ﬁle ｶﾞｽ cafe\u0301", "file ガス café"),
        ("\ud83d", "?"),
        ("plain ascii, as it is. (c) 2024", "plain ascii, as it is. (c) 2024"),
    ],
)
def test_what_is_left(text: str, left: str) -> None:
    assert plain(text) == left


def test_where_a_word_may_be_broken_is_kept_for_those_who_ask() -> None:
    assert softly_plain("می\u200cخواهم") == f"می{SOFT}خواهم"
    assert plain("می\u200cخواهم") == "میخواهم"


def test_symbols_stand_apart_from_words() -> None:
    assert symbols_apart("✔Charger, 20€, Menu→Settings, 2×4") == "✔ Charger, 20 €, Menu → Settings, 2 × 4"
    assert symbols_apart("a+b $5") == "a+b $5"  # tokenizers split at the symbols of ASCII


@given(st.one_of(st.text(), MARKED.map("".join)))
def test_the_spans_of_the_characters_are_in_the_text(text: str) -> None:
    left, spans = plain(text), plain_spans(text)
    assert len(spans) == len(left)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(one <= other for one, other in pairwise(spans))
    for character, (start, end) in zip(left, spans, strict=True):
        assert character in plain(text[start:end])


@given(st.one_of(st.text(), MARKED.map("".join)))
def test_a_plain_text_stays_as_it_is(text: str) -> None:
    once = plain(text)
    assert plain(once) == once


def test_an_umlaut_is_one_letter_however_it_is_stored() -> None:
    text = "Für Ärzte: Größe, こんにちは, が?"
    apart = unicodedata.normalize("NFD", text)
    assert apart != text
    assert plain(apart) == plain(text) == text
    assert split_words(apart) == split_words(text)
    tokenizer = WordTokenizer.build([text], max_tokens=99)
    assert tokenizer.encode([apart]) == tokenizer.encode([text])
    assert 1 not in tokenizer.encode([apart])[0][0]
    spans = tokenizer.spans(apart)
    assert [unicodedata.normalize("NFC", apart[start:end]) for start, end in spans] == [
        text[start:end] for start, end in tokenizer.spans(text)
    ]
