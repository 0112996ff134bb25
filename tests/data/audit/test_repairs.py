from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_cells import ODD

from ap_ranker.data.audit.repairs import repaired, shows_html
from ap_ranker.data.html_cells import shown_text


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
        ("<p>Fish &amp; chips<br/>daily</p>", "Fish & chips\ndaily", ["html"]),
        ("&eacute;t&eacute;", "été", ["html"]),
        ("see <!-- draft --><br>below", "see\nbelow", ["html"]),
        ("a\x0bb\x00c", "a bc", ["control-character"]),
        ("\ufeffzero\u200bwidth soft\u00adhyphen", "zerowidth softhyphen", ["invisible-character"]),
        ("cafe\u0301", "café", ["decomposed-accent"]),
        ("&#39;cafÃ©&#39;", "'café'", ["mojibake", "html"]),
    ],
)
def test_repairs(text: str, expected: str, kinds: list[str]) -> None:
    assert repaired(text) == (expected, kinds)


# What the repair once destroyed: links, lists, texts about HTML, and what is escaped so that it is shown.
CELLS = [
    *ODD,
    '<p>See <a href="https://x.example/map">the map</a>.</p><ul><li>Bus 5</li><li>Tram 7</li></ul>',
    "Write <b> before the word and </b> behind it.",
    "The form has <br> tags: put &lt;br&gt; at each line's end.",
    "Put it between &#60;strong&#62; and &#60;/strong&#62; like &#60;strong&#62;this&#60;/strong&#62;.",
    "In &#60;p class='x'&#62;the folder&#60;/p&#62; C:&#92;new&#92;temp",
    "By card &amp; cash.",
    "Fish &amp;amp; chips",
    "&lt;p&gt;Hello&lt;/p&gt;",
    "see <!-- draft --> below",
]
TAGS = ("<b>", "</b>", "<p>", "</p>", "<br>", "<a href='https://x.example'>", "</a>", "<li>", "<!--", "-->")
ESCAPES = ("&amp;", "&lt;", "&#60;", "&nbsp;", "amp;", "lt;", "<", ">", "&", "\\n", "C:\\", "`", "\n")
PIECES = st.sampled_from((*TAGS, *ESCAPES, "write ", " ", "a", "b c", "- "))
SOUND_CELLS = st.lists(PIECES, max_size=12).map("".join)


def expect_the_same_reading(cell: str) -> None:
    mended, kinds = repaired(cell)
    assert shown_text(mended).strip() == shown_text(cell).strip()
    assert bool(kinds) == (mended != cell)
    assert repaired(mended) == (mended, [])


@pytest.mark.parametrize("cell", CELLS)
def test_a_repaired_cell_is_read_as_before(cell: str) -> None:
    expect_the_same_reading(cell)


@given(SOUND_CELLS)
def test_any_repaired_cell_is_read_as_before(cell: str) -> None:
    expect_the_same_reading(cell.strip())


@given(st.text(alphabet="aé&#39;<b>ltamp/ Ã©\x85\u200b\u0301\\n", max_size=25))
def test_a_repaired_text_has_no_fault_left(text: str) -> None:
    mended, _ = repaired(text.strip())
    assert repaired(mended) == (mended, [])


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("Fish &amp;amp; chips", True),
        ("&lt;p&gt;Hello&lt;/p&gt;", True),
        ("&#60;p&#62;Hello&#60;/p&#62;", False),  # as the product writes it
        ("Write <b> before the word and </b> behind it.", False),
        ("<p>Hello</p>", False),
    ],
)
def test_what_was_escaped_twice(cell: str, expected: bool) -> None:
    assert shows_html(cell) == expected
