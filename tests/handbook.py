"""A company's folder of documents of every kind, made with the libraries that also read them, and of other files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path

import docx
import openpyxl
import pptx
import pyarrow
import pyarrow.parquet
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

SECTIONS = 2_000
"""Of the large HTML file, each of 2.5 KB."""


def pdf(pages: Iterable[list[str]]) -> bytes:
    """A PDF file with these lines on its pages; a page without any is blank, as of a scan without its picture."""
    writer = PdfWriter()
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica", "/Encoding": "/WinAnsiEncoding"}
    fonts = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    for lines in pages:
        page = writer.add_blank_page(595, 842)
        content = DecodedStreamObject()
        shown = " 0 -20 Td\n".join(f"({line}) Tj" for line in lines)
        content.set_data(f"BT /F1 12 Tf 70 770 Td\n{shown} ET".encode("cp1252") if lines else b"")
        page[NameObject("/Contents")] = writer._add_object(content)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): writer._add_object(fonts)})}
        )
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def word(path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("Handbuch", style="Title")
    document.add_paragraph("Dieses Handbuch gilt für alle.")
    document.add_heading("Reisen", 1)
    document.add_heading("Übernachtung", 2)
    document.add_paragraph("Ein Hotelzimmer kostet höchstens neunzig Euro.")
    table = document.add_table(2, 2)
    for cell, text in zip(table._cells, ("Land", "Tagegeld", "Österreich", "27 Kreuzer"), strict=True):
        cell.text = text
    document.save(path)


def slides(path: Path) -> None:
    presentation = pptx.Presentation()
    for title, text in (("Welcome", "Coffee is on the second floor."), ("Badges", "A lost badge costs ten dollars.")):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, text
    presentation.save(path)


def workbook(path: Path, rows: Iterable[Iterable[object]]) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(list(row))
    book.save(path)


def large_html() -> str:
    """5 MB; section 1234 has the one text that is asked for."""
    filler = "Nothing to see here, please move along to the next one. " * 40
    sections = [
        f"<h2>Section {i}</h2><p>{'Unicorns are fed with <b>gingerbread</b>. ' if i == 1234 else ''}{filler}</p>"
        for i in range(SECTIONS)
    ]
    return f"<html><body><h1>Archive</h1>{''.join(sections)}</body></html>"


HELP = """<!DOCTYPE html><html><head><meta charset="utf-8"><title>Help center</title>
<link rel="canonical" href="https://help.example/returns"><script>var tracking = "zeppelin"</script></head>
<body><nav><a href="/">Zeppelin home</a></nav><main><h1>Help</h1>
<h2>How do I <code>return</code> a <i>kayak</i>?<a href="#return">¶</a></h2>
<p>Kleb das Etikett auf &amp; bring es zum Laden.</p>
<details><summary>Is it free?</summary>Yes, within Lapland.</details></main>
<footer>Zeppelin imprint</footer></body></html>"""

MARKDOWN = """---
title: Staff guide
---
All of us read this guide.

Returns
=======

## Refunds

See [the portal](https://portal.example/zeppelin) for **vouchers**.

```sh
# not a heading
```

| Country | Days |
|---------|------|
| Malta   | 11   |
"""


def write_handbook(root: Path) -> Path:
    """Write the folder; returns it."""
    for folder in ("guides", "tables", ".git"):
        (root / folder).mkdir(parents=True)
    (root / "guides" / "staff.md").write_text(MARKDOWN, encoding="utf-8")
    (root / "guides" / "help.html").write_text(HELP, encoding="utf-8")
    (root / "guides" / "latin.htm").write_bytes(
        '<meta charset="iso-8859-1"><h1>Küche</h1><p>Die Spülmaschine läuft nachts.</p>'.encode("latin-1")
    )
    (root / "archive.html").write_text(large_html())
    (root / "404.html").write_text("<body><h1>Nothing under this address</h1></body>")
    pages = [["Parking"], ["Bicycles stand in the court-", "yard behind the büro."]]
    (root / "parking-rules.pdf").write_bytes(pdf(pages))
    word(root / "Handbuch.docx")
    slides(root / "onboarding.pptx")
    (root / "notes.txt").write_bytes("\ufeffThe alarm code is with the janitor.\r\n".encode())
    (root / "日本.txt").write_text("宇宙船は毎週金曜日に出発します。" * 40, encoding="utf-8")
    questions = [("Wo ist der Saal?", "Im Keller.", "https://x.example/saal"), ("Wer?", None, None)]
    workbook(root / "tables" / "FAQ.xlsx", [("Frage", "Antwort", "URL"), *questions])
    workbook(root / "tables" / "phones.xlsx", [("Plant", "Phone"), ("Graz", 4711.0), ("Linz", 4712)])
    with (root / "tables" / "prices.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows([("Artikel", "Preis", "Lager"), ("Schlüsselband", "3,50", "ja")])
    (root / "tables" / "train.jsonl").write_text(json.dumps({"question": "q", "answer_ids": "a"}) + "\n")
    pyarrow.parquet.write_table(pyarrow.table({"tool": ["lathe"], "room": [7]}), root / "tables" / "tools.parquet")
    # What cannot be read:
    (root / "scan.pdf").write_bytes(pdf([[], []]))
    (root / "broken.docx").write_bytes((root / "Handbuch.docx").read_bytes()[:2_000])
    (root / "broken.pptx").write_bytes(b"PK")
    (root / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    (root / "broken.xlsx").write_bytes(b"")
    (root / "photo.png").write_bytes(b"\x89PNG")
    (root / "umlaut.txt").write_bytes(b"first line\n\xc3\xa4\xc3\xb6 and a broken one: \xc3")
    (root / "empty.md").write_text("")
    (root / "~$Handbuch.docx").write_bytes(b"owner")
    (root / ".git" / "secret.md").write_text("# never read\n\nzeppelin")
    (root / "outside.md").symlink_to(Path(__file__).parent.parent / "README.md")
    (root / "inside.md").symlink_to(root / "guides" / "staff.md")
    (root / "loop").symlink_to(root)
    return root


LEFT_OUT = {
    ".git": "hidden",
    "broken.docx": "expected a Word document .* without a password, found another or a damaged file",
    "broken.pdf": "expected a PDF file without a password, found another or a damaged file",
    "broken.pptx": "expected a presentation .* without a password, found another or a damaged file",
    "broken.xlsx": "expected a spreadsheet without a password, found another or a damaged file",
    "empty.md": "expected text, found none",
    "inside.md": "a link to what is read anyway",
    "loop": "a link to what is read anyway",
    "outside.md": "a link that leaves the folder",
    "photo.png": "its ending is not that of a document or a table",
    "scan.pdf": "expected text, found none: is it a scan",
    "tables/FAQ.xlsx, sheet 'Sheet', row 3": "it has no answer",
    "tables/train.jsonl": "its column 'answer_ids' belongs to training data",
    "umlaut.txt": "line 2: expected UTF-8 text, found the byte 0xc3",
    "~$Handbuch.docx": "hidden",
}
"""Place -> why it is left out."""

FOUND = {
    "vouchers": ("Staff guide > Returns > Refunds", "guides/staff.md", None),
    "Malta 11": ("Staff guide > Returns > Refunds", "guides/staff.md", None),
    "guide": ("Staff guide", "guides/staff.md", None),
    "kayak Etikett": ("Help", "guides/help.html", None),
    "Lapland": ("Help > How do I return a kayak?", "guides/help.html", None),
    "Spülmaschine": ("Küche", "guides/latin.htm", None),
    "address nothing": ("404", "404.html", None),
    "unicorns gingerbread": ("Archive > Section 1234", "archive.html", None),
    "courtyard büro": ("parking rules", "parking-rules.pdf", 2),
    "Hotelzimmer": ("Handbuch > Reisen > Übernachtung", "Handbuch.docx", None),
    "Österreich Kreuzer": ("Handbuch > Reisen > Übernachtung", "Handbuch.docx", None),
    "badge dollars": ("onboarding", "onboarding.pptx", 2),
    "alarm janitor": ("notes", "notes.txt", None),
    "Saal": (None, "tables/FAQ.xlsx", None),
    "Graz": ("phones", "tables/phones.xlsx", None),
    "Schlüsselband": ("prices", "tables/prices.csv", None),
    "lathe": ("tools", "tables/tools.parquet", None),
}
"""Question -> title path, file and page of the only source that has its words."""
