from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.text.compose import compose, composed_spans
from ap_ranker.text.tokenizer import WordTokenizer, split_words

LETTERS = st.lists(st.sampled_from([*"uoaOe ñ?が我か", "\u0308", "\u0301", "\u3099", "ß", "\n"])).map("".join)


def test_an_umlaut_is_one_letter_however_it_is_stored() -> None:
    text = "Für Ärzte: Größe, こんにちは, が?"
    apart = unicodedata.normalize("NFD", text)
    assert apart != text
    assert compose(apart) == compose(text) == text
    assert split_words(apart) == split_words(text)
    tokenizer = WordTokenizer.build([text], max_tokens=99)
    assert tokenizer.encode([apart]) == tokenizer.encode([text])
    assert 1 not in tokenizer.encode([apart])[0][0]
    spans = tokenizer.spans(apart)
    assert [unicodedata.normalize("NFC", apart[start:end]) for start, end in spans] == [
        text[start:end] for start, end in tokenizer.spans(text)
    ]


@given(st.one_of(st.text(), LETTERS))
def test_the_spans_of_the_characters_are_the_text(text: str) -> None:
    composed, spans = compose(text), composed_spans(text)
    assert len(spans) == len(composed)
    assert "".join(text[start:end] for start, end in spans) == text
    for character, (start, end) in zip(composed, spans, strict=True):
        assert character == text[start:end] or character == unicodedata.normalize("NFC", text[start:end])
