from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.data.audit.repairs import repaired


@pytest.mark.parametrize(
    "text", ["é", "ß", "Ω", "ж", "naïve café – “quoted” … 100 €", "€ 5", "😀", "Привет", "‘x’ • ‰"]
)
@pytest.mark.parametrize("codec", ["cp1252", "latin-1"])
def test_mojibake_is_undone(text: str, codec: str) -> None:
    content = text.encode("utf-8")
    garbled = "".join(bytes([byte]).decode(codec, errors="ignore") or chr(byte) for byte in content)
    assert repaired(f"a {garbled} b") == (f"a {text} b", ["mojibake"])


@pytest.mark.parametrize(
    "text",
    [
        "là\u00a0» et « ça », naïve, Noël, œuvre, 5\u00a0€",
        "Größe, MENÜ, Straße, „Ärger“ – übel",
        "¿Cómo está el niño? ¡Año nuevo!",
        "a < b > c, press <Enter>, x<y, AT&T, R&D; fish & chips, ?a=1&lt=3",
        "line one\nline two\tand a tab",
        "👩\u200d💻 می\u200cخواهم",
        "Ελληνικά, русский, 中文",
    ],
)
def test_sound_texts_stay(text: str) -> None:
    assert repaired(text) == (text, [])


@pytest.mark.parametrize(
    ("text", "expected", "kinds"),
    [
        ("<p>Fish &amp; chips<br/>daily</p>", "Fish & chips daily", ["html"]),
        ("&amp;eacute;t&eacute;", "été", ["html"]),
        ("see <!-- draft --> below", "see below", ["html"]),
        ("a\x0bb\x00c", "a bc", ["control-character"]),
        ("\ufeffzero\u200bwidth soft\u00adhyphen", "zerowidth softhyphen", ["invisible-character"]),
        ("cafe\u0301", "café", ["decomposed-accent"]),
        ("&#39;cafÃ©&#39;", "'café'", ["mojibake", "html"]),
    ],
)
def test_repairs(text: str, expected: str, kinds: list[str]) -> None:
    assert repaired(text) == (expected, kinds)


@given(st.text(alphabet="aé&#39;<b>ltamp/ Ã©\x85\u200b\u0301", max_size=25))
def test_a_repaired_text_has_no_fault_left(text: str) -> None:
    mended, _ = repaired(text.strip())
    assert repaired(mended) == (mended, [])
