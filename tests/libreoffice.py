"""A messy FAQ as LibreOffice saves it in each of its formats: `python tests/libreoffice.py tests/data/exports`.

A cover, a hidden sheet, empty rows and a merged title above the names of the columns, a hidden row, dates, prices, a
formula, a comment, and a second sheet without some of the columns. Each file has an answer that no other one has.

The files of `tests/data/exports` are of LibreOffice 7.4. Those that it saved with a password (protected.ods and
protected.xls, "secret") or in Writer (office.docx, office.html, office.pdf) are made by hand.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

NAMESPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text", "style")
)
MERGED = (
    '<table:table-cell table:number-columns-spanned="4" office:value-type="string"><text:p>Our questions</text:p>'
    '</table:table-cell><table:covered-table-cell table:number-columns-repeated="3"/>'
)
DATE = '<table:table-cell table:style-name="date" office:value-type="date" office:date-value="2024-02-29"/>'
FORMULA = '<table:table-cell table:formula="of:=&quot;Drei &quot;&amp;&quot;Tage.&quot;"/>'
PRICE = '<table:table-cell office:value-type="currency" office:currency="EUR" office:value="7.5"/>'
COMMENTED = (
    '<table:table-cell office:value-type="string"><office:annotation><text:p>stimmt das?</text:p></office:annotation>'
    "<text:p>Neun Euro.</text:p></table:table-cell>"
)
CSV = "csv:Text - txt - csv (StarCalc):"
FILES = {
    "FAQ_office.xls": "xls:MS Excel 97",
    "FAQ_office.ods": "ods:calc8",
    "FAQ_office.xlsx": "xlsx:Calc MS Excel 2007 XML",
    "office_cp1252.csv": f"{CSV}59,34,1",  # semicolons, quotation marks, Western Windows
    "office_utf16.csv": f"{CSV}9,34,65535",  # tabs
}
"""File -> the filter that LibreOffice saves it with, and its options."""


def cells(*values: str) -> str:
    """Cells of text, or written out already."""
    return "".join(
        value
        if value.startswith("<")
        else f'<table:table-cell office:value-type="string"><text:p>{line}</text:p></table:table-cell>'
        for value in values
        for line in [value.replace("\n", "</text:p><text:p>")]
    )


def sheet(name: str, rows: Iterable[str], options: str = "") -> str:
    lines = (
        each if each.startswith("<table:table-row") else f"<table:table-row>{each}</table:table-row>" for each in rows
    )
    return f'<table:table table:name="{name}" {options}>{"".join(lines)}</table:table>'


def entry_of(name: str) -> tuple[str, str]:
    """The question and the answer of a file that no other one has."""
    kind = f"{Path(name).suffix[1:]} {Path(name).stem.rpartition('_')[2]}"
    return f"Wo ist das Päckchen {kind}?", f"Öffne\nden Link {kind}."


def document(name: str) -> str:
    """Flat OpenDocument, of which LibreOffice makes all else."""
    header, empty = cells("Frage", "Antwort", "Stand", "Preis"), "<table:table-cell/>"
    rows = [cells(*entry_of(name), DATE, PRICE)]
    rows += [f'<table:table-row table:visibility="collapse">{cells("Versteckt?", "Ja.")}</table:table-row>', empty]
    rows += [cells("Wie lange dauert es?", FORMULA), cells("Was kostet es?", COMMENTED)]
    faq = sheet("Versand", [empty, empty, MERGED, empty, header, *rows])
    if not name.startswith("FAQ"):  # a file of one sheet, which is its first one
        return framed(sheet("Versand", [header, *rows]))
    hidden = sheet("Alt", [header, cells("Wo ist der Zeppelin?", "zeppelin")], 'table:style-name="hidden"')
    paying = sheet("Zahlung", [cells("Antwort", "Frage"), cells("Mit Karte.", "Wie zahle ich?")])
    return framed(sheet("Deckblatt", [cells("Kundendienst")]) + hidden + faq + paying)


def framed(sheets: str) -> str:
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    day = "<number:day/><number:text>.</number:text><number:month/><number:text>.</number:text><number:year/>"
    styles = (
        '<style:style style:name="hidden" style:family="table"><style:table-properties table:display="false"/>'
        f'</style:style><number:date-style style:name="day">{day}</number:date-style>'
        '<style:style style:name="date" style:family="table-cell" style:data-style-name="day"/>'
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f'<office:document {NAMESPACES} xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2"'
        ' xmlns:number="urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0"'
        f' office:version="1.3" office:mimetype="{kind}"><office:automatic-styles>{styles}'
        "</office:automatic-styles><office:body><office:spreadsheet>"
        f"{sheets}</office:spreadsheet></office:body></office:document>"
    )


def save(folder: Path, names: Iterable[str] = FILES) -> None:
    """Save these files in a folder, each by a run of LibreOffice with a profile of its own."""
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            source = Path(place, name).with_suffix(".fods")
            source.write_text(document(name), encoding="utf-8")
            command = [
                str(shutil.which("soffice")),
                f"-env:UserInstallation={Path(place, 'profile').as_uri()}",
                "--headless",
            ]
            command += ["--convert-to", FILES[name], "--outdir", str(folder), str(source)]
            subprocess.run(command, check=True, capture_output=True, timeout=300)


if __name__ == "__main__":
    save(Path(sys.argv[1]))
