"""Turkish typed on keyboards without ı, as most people do in a search: each plain i may stand for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.ranking.bm25 import BM25, shared_words


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("kırmızı ayakkabı", "kirmizi"),
        ("kırmızı ayakkabı", "ayakkabi"),
        ("kargo takibi nasıl yapılır", "nasil"),
        ("kargo takibi nasıl yapılır", "yapilir"),
        ("sınırsız üyelik", "sinirsiz"),
        ("kayıt olmak", "kayit"),
        ("KAYIT OLMAK", "kayit"),
        ("INTERNET bağlantısı", "internet"),
        ("WIFI ayarı", "wifi"),
    ],
)
def test_a_text_is_found_without_its_dotless_letters(text: str, typed: str) -> None:
    index = BM25([text, "yastık ve yorgan"], language="turkish")
    assert index.scores(typed)[0] > index.scores(typed)[1] == 0


def test_it_is_marked_where_it_is_found() -> None:
    assert shared_words("sinirsiz uyelik", "Sınırsız üyelik ve iptal", "turkish") == ["sınırsız", "üyelik"]


@pytest.mark.parametrize(("query", "expected"), [("ısı", [True, False]), ("isi", [True, True]), ("İSİ", [True, True])])
def test_what_is_typed_on_purpose_is_meant(query: str, expected: list[bool]) -> None:
    """A plain i may be either letter, though its own text comes first; an ı is no i."""
    scores = BM25(["ısı ayarı", "isi ayarı"], language="turkish").scores(query)
    assert (scores > 0).tolist() == expected
    assert scores[0] != scores[1]
    assert scores.argmax() == (query != "ısı")


@given(st.text(st.sampled_from("ıIiİ\u0307aş '-.1+#退한") | st.characters()))
def test_any_text_is_read(text: str) -> None:
    assert len(BM25([text], language="turkish")) == 1
