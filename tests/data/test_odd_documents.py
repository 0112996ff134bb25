"""Documents as programs and people write them: nothing that a reader sees is lost without a word."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import pptx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from handbook import pdf
from pptx.util import Inches

from ap_ranker.data.faq import Entry
from ap_ranker.documents import read_documents
from ap_ranker.documents.extract import extract

Pairs = list[tuple[str, str]]


def read(path: Path, content: bytes | str) -> list[Entry]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_documents(path).entries


def pairs(entries: list[Entry]) -> Pairs:
    return [(entry.question, entry.answer) for entry in entries]


STATED = {"@type": "Question", "name": "Is it free?", "acceptedAnswer": {"@type": "Answer", "text": "Yes."}}
SCRIPT = '<body><p>Text.</p><script type="{}">{}</script></body>'

PAGES: dict[str, tuple[str, Pairs]] = {
    "two mains": ("<main><h2>A?</h2><p>One.</main><main><h2>B?</h2><p>Two.</main>", [("A?", "One."), ("B?", "Two.")]),
    "an empty main": ("<main></main><div><h2>A?</h2><p>One.</p></div>", [("A?", "One.")]),
    "a main beside others": ("<div><p>Menu</p></div><main><h2>A?</h2><p>One.</main>", [("A?", "One.")]),
    "a button that asks": ("<h1>FAQ</h1><button>How long?</button><p>Two days.</p>", [("", "How long?\n\nTwo days.")]),
    "a button that opens": (
        '<h1>FAQ</h1><button aria-expanded="false">Length</button><p>Two days.</p><button>Copy</button>',
        [("", "Length\n\nTwo days.")],
    ),
    "JSON-LD of another spelling": (
        SCRIPT.format("application/LD+JSON; charset=utf-8", json.dumps(STATED)),
        [("", "Text."), ("Is it free?", "Yes.")],
    ),
    "JSON-LD with an address as type": (
        SCRIPT.format("application/ld+json", json.dumps(STATED | {"@type": "http://schema.org/Question"})),
        [("", "Text."), ("Is it free?", "Yes.")],
    ),
}


ROW = "<tr><td>{}<td>{}</tr>"
TABLES: dict[str, tuple[str, Pairs]] = {
    "of questions": (
        f"<p>Text.<table><tr><th>Question<th>Answer</tr>{ROW.format('A?', '<p>One.<p>Two.')}</table>",
        [("", "Text."), ("A?", "One.\n\nTwo.")],
    ),
    "in a table for the layout": (
        f"<table><tr><td>Text.<table>{ROW.format('Frage:', 'Antwort:')}{ROW.format('A?', 'One.')}</table></table>",
        [("", "|  |\n| --- |\n| Text. |"), ("A?", "One.")],
    ),
    "of more columns": (
        "<table><tr><th>Topic<th>Answer<th>Question</tr><tr><td>Mail<td>One.<td>A?</tr></table>",
        [("", "| Topic | Answer | Question |\n| --- | --- | --- |\n| Mail | One. | A? |"), ("A?", "One.")],
    ),
    "with a row that lacks a cell": (
        f"<table>{ROW.format('Question', 'Answer')}<tr><td>Mail</tr>{ROW.format('A?', 'One.')}</table>",
        [("", "|  |  |\n| --- | --- |\n| Question | Answer |\n| Mail |"), ("A?", "One.")],
    ),
    "of other columns": (
        f"<table><tr><th>Name<th>Price</tr>{ROW.format('A?', 'One.')}</table>",
        [("", "| Name | Price |\n| --- | --- |\n| A? | One. |")],
    ),
}


@pytest.mark.parametrize("name", PAGES | TABLES)
def test_pages(name: str, tmp_path: Path) -> None:
    page, expected = (PAGES | TABLES)[name]
    assert pairs(read(tmp_path / "a.html", f"<html>{page}</html>")) == expected


def test_a_page_that_declares_another_encoding(tmp_path: Path) -> None:
    page = "<html><head><meta charset=utf-8></head><body><h2>Größe?</h2><p>Für alle, die öfter hier sind.</body>"
    assert pairs(read(tmp_path / "a.html", page.encode("cp1252"))) == [("Größe?", "Für alle, die öfter hier sind.")]


MARKDOWN: dict[str, tuple[str, Pairs]] = {
    "ids of headings": ("# FAQ {#faq}\n\n## Where is it? {#where .big}\n\nHere.\n", [("Where is it?", "Here.")]),
    "lists in lists": (
        "".join(f"{'  ' * i}- level {i}\n" for i in range(20)),
        [("", "\n".join(f"{'  ' * i}- level {i}" for i in range(20)))],
    ),
}


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown(name: str, tmp_path: Path) -> None:
    text, expected = MARKDOWN[name]
    entries = read(tmp_path / "a.md", text)
    assert pairs(entries) == expected
    assert "{" not in "".join(entry.title for entry in entries)


def test_carriage_returns_end_lines(tmp_path: Path) -> None:
    assert pairs(read(tmp_path / "a.txt", "One.\rTwo.\r\rThree.\r")) == [("", "One.\nTwo.\n\nThree.")]


def test_words_divided_by_other_hyphens(tmp_path: Path) -> None:
    assert pairs(read(tmp_path / "a.pdf", pdf([["The court\xad", "yard of E-", "Mail."]]))) == [
        ("", "The courtyard of E-\nMail.")
    ]


def test_tables_of_questions_in_other_documents(tmp_path: Path) -> None:
    def build(document: docx.document.Document) -> None:
        document.add_heading("Service & more", 1)
        cells = document.add_table(2, 2)._cells
        for cell, text in zip(cells, ("Frage", "Antwort", "Geht <das>?", "Ja & nein.\nImmer."), strict=True):
            cell.text = text

    [entry] = word(tmp_path / "a.docx", build)
    assert (entry.title, entry.question, entry.answer) == ("Service & more", "Geht <das>?", "Ja & nein.\nImmer.")
    [each] = extract(tmp_path / "a.docx").faq
    assert (each.question, each.answer) == (entry.question, entry.answer)
    [entry] = read(tmp_path / "a.md", "# FAQ\n\n| Frage | Antwort |\n|---|---|\n| Geht das? | *Ja* |\n")
    assert (entry.title, entry.question, entry.answer) == ("FAQ", "Geht das?", "Ja")


NOTES = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes"
KIND = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
RUN = f"<w:r {nsdecls('w')}><w:t>{{}}</w:t></w:r>"
INSIDE = {
    "an insertion": f"<w:ins {nsdecls('w')} w:id='1' w:author='x'>{RUN}</w:ins>",
    "a control": f"<w:sdt {nsdecls('w')}><w:sdtContent>{RUN}</w:sdtContent></w:sdt>",
    "a field": f"<w:fldSimple {nsdecls('w')} w:instr='REF x'>{RUN}</w:fldSimple>",
    "a smart tag": f"<w:smartTag {nsdecls('w')}>{RUN}</w:smartTag>",
    "a box": f"<w:r {nsdecls('w')}><w:pict><w:txbxContent><w:p>{RUN}</w:p></w:txbxContent></w:pict></w:r>",
    "a box, drawn twice": (
        f"<w:r {nsdecls('w')} xmlns:mc='http://schemas.openxmlformats.org/markup-compatibility/2006'>"
        f"<mc:AlternateContent><mc:Choice><w:txbxContent><w:p>{RUN}</w:p></w:txbxContent></mc:Choice>"
        f"<mc:Fallback><w:txbxContent><w:p>{RUN}</w:p></w:txbxContent></mc:Fallback></mc:AlternateContent></w:r>"
    ),
    "a formula": f"<m:oMath {nsdecls('m')}><m:r><m:t>{{}}</m:t></m:r></m:oMath>",
}


def word(path: Path, build: Callable[[docx.document.Document], object]) -> list[Entry]:
    document, file = docx.Document(), io.BytesIO()
    build(document)
    document.save(file)
    return read(path, file.getvalue())


@pytest.mark.parametrize("name", INSIDE)
def test_text_inside_a_paragraph(name: str, tmp_path: Path) -> None:
    def build(document: docx.document.Document) -> None:
        paragraph = document.add_paragraph("Send it ")._p
        paragraph.append(parse_xml(INSIDE[name].replace("{}", "back")))
        deleted = f"<w:del {nsdecls('w')} w:id='2' w:author='x'><w:r><w:delText>never</w:delText></w:r></w:del>"
        moved = f"<w:moveFrom {nsdecls('w')} w:id='3' w:author='x'>{RUN}</w:moveFrom>".replace("{}", "away")
        paragraph.append(parse_xml(deleted))
        paragraph.append(parse_xml(moved))
        document.add_paragraph("today.")

    [entry] = word(tmp_path / "a.docx", build)
    assert " ".join(entry.answer.split()) == "Send it back today."


def test_blocks_inside_a_control(tmp_path: Path) -> None:
    """As templates have them; also a table, and one inside a cell of it."""

    def build(document: docx.document.Document) -> None:
        document.add_heading("Where is it?", 1)
        document.add_paragraph("Here.")
        table = document.add_table(1, 2)
        table.cell(0, 0).text = "left"
        table.cell(0, 1).add_table(1, 1).cell(0, 0).text = "inner"
        document.element.body.insert(0, parse_xml(f"<w:tbl {nsdecls('w')}/>"))
        control = parse_xml(f"<w:sdt {nsdecls('w')}><w:sdtContent/></w:sdt>")
        blocks = document.element.body[:-1]
        document.element.body.insert(0, control)
        control[0].extend(blocks)

    assert pairs(word(tmp_path / "a.docx", build)) == [
        ("Where is it?", "Here.\n\n| left | inner |\n| --- | --- |"),
    ]


def test_styles_made_from_those_of_headings(tmp_path: Path) -> None:
    def build(document: docx.document.Document) -> None:
        own = document.styles.add_style("Own", 1)
        own.base_style = document.styles["Heading 2"]
        other = document.styles.add_style("Other", 1)
        other.base_style = own
        own.element.rPr  # noqa: B018
        for style, question, answer in (("Own", "Where?", "Here."), ("Other", "When?", "Now.")):
            document.add_paragraph(question, style=style)
            document.add_paragraph(answer)

    assert pairs(word(tmp_path / "a.docx", build)) == [("Where?", "Here."), ("When?", "Now.")]


def test_notes_stand_where_they_are_referred_to(tmp_path: Path) -> None:
    path, parts = tmp_path / "a.docx", dict[str, bytes]()
    document = docx.Document()
    document.add_paragraph("Two days")._p.append(
        parse_xml(f"<w:r {nsdecls('w')}><w:footnoteReference w:id='2'/><w:t>, at most.</w:t></w:r>")
    )
    document.save(str(path))
    with zipfile.ZipFile(path) as archive:
        parts |= {name: archive.read(name) for name in archive.namelist()}
    note = f"<w:footnotes {nsdecls('w')}><w:footnote w:id='2'><w:p>{RUN}</w:p></w:footnote></w:footnotes>"
    parts["word/footnotes.xml"] = note.replace("{}", " Not on Sundays &lt;or Mondays&gt;").encode()
    for name, place, added in (
        ("[Content_Types].xml", b"</Types>", f'<Override PartName="/word/footnotes.xml" ContentType="{NOTES}+xml"/>'),
        ("word/_rels/document.xml.rels", b"</Rel", f'<Relationship Id="n" Type="{KIND}" Target="footnotes.xml"/>'),
    ):
        parts[name] = parts[name].replace(place, added.encode() + place)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert pairs(read_documents(path).entries) == [("", "Two days (Not on Sundays <or Mondays>), at most.")]


def test_slides_with_tables_and_groups(tmp_path: Path) -> None:
    presentation, file = pptx.Presentation(), io.BytesIO()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Prices"
    table = slide.shapes.add_table(1, 2, 0, 0, Inches(2), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "Screw", "3 Euro"
    box = slide.shapes.add_group_shape().shapes.add_textbox(0, 0, Inches(1), Inches(1))
    box.text_frame.text = "Group\vtext"
    presentation.save(file)
    [entry] = read(tmp_path / "a.pptx", file.getvalue())
    assert entry.answer == "Prices\nScrew\n3 Euro\nGroup\ntext"


@pytest.mark.parametrize("ending", [".mht", ".mhtml"])
def test_an_archive_of_a_page_says_what_to_do(ending: str, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("Text.")
    (tmp_path / f"a{ending}").write_text("MIME-Version: 1.0")
    [left] = read_documents(tmp_path).left_out
    assert ".html" in left.reason
