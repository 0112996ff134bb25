"""How texts are read, against a table of expectations written beforehand, and through Haystack's own converters."""

from __future__ import annotations

import io
import unicodedata
from pathlib import Path

import pptx
import pytest
from handbook import pdf
from haystack.components.converters import PPTXToDocument, PyPDFToDocument
from haystack.dataclasses import ByteStream
from reading_table import CHECKS, FOLDER, OTHERS, Row, read_table, scripts, unescaped

from ap_ranker.data.faq import Match
from ap_ranker.documents import read_entries
from ap_ranker.ranking.bm25 import BM25

ROWS = read_table()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.place)
def test_a_row_holds(row: Row) -> None:
    assert row.holds, row


def test_the_table_is_wide() -> None:
    assert len(ROWS) >= 400
    assert {row.expected for row in ROWS} == CHECKS.keys()
    assert len({(row.expected, row.language, row.text, row.query) for row in ROWS}) == len(ROWS)
    assert len(scripts(ROWS).keys() - UNNAMED) >= 30
    assert sum(bool(row.note) for row in ROWS) < len(ROWS) / 50


UNNAMED = {"FULLWIDTH", "HALFWIDTH", "MODIFIER", "MATHEMATICAL", "MICRO", "KATAKANA-HIRAGANA", "DOUBLE-STRUCK"}
"""First words of letters' names that name no script."""


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.tsv")), ids=lambda path: path.stem)
def test_people_can_read_the_table(path: Path) -> None:
    """Nothing invisible stands in a file, each row has its columns, and its reason is written above it."""
    text = path.read_text(encoding="utf-8")
    assert not {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cn", "Zl", "Zp")} - {"\t", "\n"}
    assert not {c for c in text if unicodedata.category(c) == "Zs"} - {" "}
    header, reason, *lines = text.splitlines()
    assert header.split("\t") == ["expected", "language", "text", "query", "twin", "note"]
    assert reason.startswith("# ")
    rows = [line.split("\t") for line in lines if not line.startswith("# ")]
    assert all(4 <= len(cells) <= 6 and all(cells[:4]) for cells in rows)
    assert all((cells[0] == "first") == bool("".join(cells[4:5])) for cells in rows)


def test_escapes() -> None:
    assert unescaped(r"a\u00ADb\U0001F600C:\\u00AD") == "a\u00adb\U0001f600C:\\u00AD"


PAGES = [["The warranty begins with the"], ["purchase and covers the"], ["Zubehör for two years"]]
"""Words end one page and begin the next, without a space: the converter puts a form feed between them."""

SOFT = ("Bring your receipt\vand the original\vpackaging", "Vor der\vRücksendung")
"""Paragraphs with soft line breaks, which the converter leaves as vertical tabs."""


def presentation() -> bytes:
    file, shown = io.BytesIO(), pptx.Presentation()
    for text in SOFT:
        slide = shown.slides.add_slide(shown.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = "Returns", text
    shown.save(file)
    return file.getvalue()


DOCUMENTS = {"terms.pdf": (PyPDFToDocument, "\f"), "returns.pptx": (PPTXToDocument, "\v")}
"""Name -> Haystack's converter, and the control character that it leaves between two words."""

ASKED = {
    "terms.pdf": ("purchase", "purchase covers", "warranty", "zubehör", "begins with the purchase"),
    "returns.pptx": ("receipt", "original", "packaging", "rücksendung"),
}
"""Name -> words that are asked for."""


def content(name: str) -> bytes:
    return pdf(PAGES) if name.endswith(".pdf") else presentation()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_a_converter_of_haystack_glues(name: str) -> None:
    converter, mark = DOCUMENTS[name]
    [document] = converter().run(sources=[ByteStream(content(name))])["documents"]
    text = document.content or ""
    before, _, behind = text.partition(mark)
    assert before[-1:].isalpha(), repr(text)
    assert behind[:1].isalpha(), repr(text)
    index = BM25([*OTHERS, text])
    for words in ASKED[name]:
        scores = index.scores(words)
        assert scores[-1] > max(0, *scores[:-1]), f"{words!r} in {text!r}"
        assert BM25([words]).scores(text)[0] > 0, f"{text!r} for {words!r}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_the_reader_of_documents_makes_of_it(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content(name))
    texts = [entry.text(Match.both) for entry in read_entries(tmp_path / name)]
    index = BM25([*OTHERS, *texts])
    for words in ASKED[name]:
        scores = index.scores(words)
        assert scores[len(OTHERS) :].max() > max(0, *scores[: len(OTHERS)]), f"{words!r} in {texts!r}"
