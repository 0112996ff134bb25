"""Excel workbooks as people make them, and files that only claim to be one."""

from __future__ import annotations

import csv
import datetime
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import openpyxl
import pytest
from openpyxl.styles import Font
from refusals import absent, refused

from ap_ranker.data.faq import read_faq
from ap_ranker.data.tables import read_table
from ap_ranker.files import csv_text


def save(path: Path, *sheets: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for i, rows in enumerate(sheets):
        sheet = book.create_sheet(f"Sheet {i + 1}")
        for values in rows:
            sheet.append(values)
    book.save(path)
    return path


def test_values_are_the_text_that_excel_shows(tmp_path: Path) -> None:
    day = datetime.datetime(2024, 2, 29)
    rows = [
        ["Frage ", "Antwort", "Nr", "Preis", "Datum", "Zeit", "Aktiv", "Leer"],
        ["Wo ist mein Päckchen?", "Öffne\nden Link.", 7.0, 1.5, day, day.replace(hour=12), True, None],
        [None] * 8,
        ["Kurz", "Ja"],
    ]
    table = read_table(save(tmp_path / "FAQ.xlsx", rows))
    first = ["Wo ist mein Päckchen?", "Öffne\nden Link.", "7", "1.5", "2024-02-29", "2024-02-29 12:00:00", "1", ""]
    columns = ("Frage", *rows[0][1:])
    assert table.columns == columns
    assert [row.fields for row in table.rows] == [
        dict(zip(columns, first, strict=True)),
        dict(zip(columns, ["Kurz", "Ja", *[""] * 6], strict=True)),
    ]
    assert table.rows[1].place.endswith("FAQ.xlsx, sheet 'Sheet 1', row 4")
    assert [entry.question for entry in read_faq(tmp_path / "FAQ.xlsx")] == ["Wo ist mein Päckchen?", "Kurz"]


def test_the_first_sheet_with_a_header(tmp_path: Path) -> None:
    path = save(tmp_path / "a.xlsx", [], [[], ["question", "answer"], ["q", "a"]], [["other"], ["x"]])
    assert [row.fields for row in read_table(path).rows] == [{"question": "q", "answer": "a"}]


def test_titles_and_covers_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    cover = [["Customer service"], ["as of May"], ["Version 3"]]
    rows = [
        ["Our FAQ"],
        [" "],
        ["for everybody"],
        ["Nr", "Frage", "Antwort", " "],
        [" ", None, None, " "],
        [1, "Wo?", "Hier."],
        [2, "Wann?", "Jetzt."],
    ]
    path = save(tmp_path / "a.xlsx", cover, rows)
    assert [(entry.question, entry.answer) for entry in read_faq(path)] == [("Wo?", "Hier."), ("Wann?", "Jetzt.")]
    assert not absent("row 4", caplog.text)
    assert read_table(path).rows[0].place.endswith("row 6")


def test_all_sheets_with_the_same_columns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Such as one for each topic; a table of other columns is named, and one before that of questions is not taken."""
    caplog.set_level("INFO")
    opening = [["Frage", "Antwort"], ["Wann?", "Um 6."]]
    prices = [["Our prices"], ["as of", "May"], ["Antwort", "Frage"], ["29 Euro.", "Wie viel?"]]
    path = save(tmp_path / "a.xlsx", [["Tarif", "Preis"], ["A", 3]], opening, [["Frage", "Antwort"]], prices)
    table = read_table(path)
    assert [tuple(row.fields[name] for name in table.columns) for row in table.rows] == [
        ("Wann?", "Um 6."),
        ("Wie viel?", "29 Euro."),
    ]
    assert table.columns == ("Frage", "Antwort")
    assert [row.place.split(", ", 1)[1] for row in table.rows] == ["sheet 'Sheet 2', row 2", "sheet 'Sheet 4', row 4"]
    assert not absent("Sheet 2, Sheet 4 … Sheet 1", caplog.text)


def test_sheets_with_the_same_questions_and_further_columns(tmp_path: Path) -> None:
    """Of two departments, of which one dates its answers; a sheet in another language is no part of the same table."""
    dated = [["Stand", "Frage", "Antwort"], [2024, "Wo?", "Hier."]]
    other = [["Antwort", "Thema", "Frage"], ["Jetzt.", "Zeit", "Wann?"]]
    path = save(tmp_path / "a.xlsx", dated, other, [["Question", "Answer"], ["Who?", "We."]])
    assert [row.fields for row in read_table(path).rows] == [
        {"Stand": "2024", "Frage": "Wo?", "Antwort": "Hier.", "Thema": ""},
        {"Stand": "", "Frage": "Wann?", "Antwort": "Jetzt.", "Thema": "Zeit"},
    ]


def test_one_column_is_a_table_if_there_is_no_other(tmp_path: Path) -> None:
    path = save(tmp_path / "a.xlsx", [["Cover"]], [["answer"], ["a"], ["b"], ["c"], ["d"]])
    assert [row.fields["answer"] for row in read_table(path).rows] == ["a", "b", "c", "d"]


def with_part(path: Path, name: str, content: bytes) -> None:
    """Replace a part of a workbook by what openpyxl would not write."""
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    [part] = [part for part in parts if name in part]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, old in parts.items():
            archive.writestr(each, content if each == part else old)


def row(number: int, *cells: str) -> str:
    return f'<row r="{number}">{"".join(cells)}</row>'


def cell(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


HEADER = row(1, cell("A1", "question"), cell("B1", "answer"))


def sheet(path: Path, *rows: str, before: str = "") -> Path:
    save(path, [["x"]])
    content = f"{before}<sheetData>{''.join(rows)}</sheetData>"
    namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    with_part(path, "sheet1", f'<worksheet xmlns="{namespace}">{content}</worksheet>'.encode())
    return path


def test_a_formula_counts_as_its_value(tmp_path: Path) -> None:
    formula = '<c r="B2" t="str"><f>A2&amp;"!"</f><v>q!</v></c>'
    path = sheet(tmp_path / "a.xlsx", HEADER, row(2, cell("A2", "q"), formula))
    assert read_table(path).rows[0].fields == {"question": "q", "answer": "q!"}


def test_sizes_that_a_sheet_only_claims(tmp_path: Path) -> None:
    claimed = '<dimension ref="A1:XFD1048576"/>'
    path = sheet(tmp_path / "a.xlsx", HEADER, row(2, cell("A2", "q"), cell("B2", "a")), before=claimed)
    assert [row.fields for row in read_table(path).rows] == [{"question": "q", "answer": "a"}]
    path = sheet(tmp_path / "b.xlsx", HEADER, row(10**12, cell("A1000000000000", "q")))
    with refused("b.xlsx … memory"):
        read_table(path)


def test_cells_that_only_have_a_format_are_no_column(tmp_path: Path) -> None:
    save(tmp_path / "a.xlsx", [["question", "answer"], ["q", "a"]])
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    book.active["D1"].font = book.active["E7"].font = Font(bold=True)
    book.save(tmp_path / "a.xlsx")
    assert [row.fields for row in read_table(tmp_path / "a.xlsx").rows] == [{"question": "q", "answer": "a"}]


def bomb(tmp_path: Path) -> Path:
    save(tmp_path / "bomb.xlsx", [["question", "answer"]])
    with_part(tmp_path / "bomb.xlsx", "sheet1", b" " * 50_000_000)
    return tmp_path / "bomb.xlsx"


def many_references(tmp_path: Path) -> Path:
    """Ten thousand cells that share one long text."""
    return save(tmp_path / "shared.xlsx", [["question", "answer"], *[["q", "a" * 5_000]] * 10_000])


@pytest.mark.parametrize("make", [bomb, many_references])
def test_files_that_would_fill_the_memory(tmp_path: Path, make: Any) -> None:
    with refused("xlsx … 50"):
        read_table(make(tmp_path))


@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        ([["ask", None, "say"], ["u", "x", "v"]], "row 1 … column 2"),
        ([["question", "answer", "answer"], ["q", "a", "b"]], "row 1 … answer"),
        ([["ask", "say"], ["u", "v", "more"]], "row 2 … 2 … ask, say"),
        ([["question", "answer"]], "a.xlsx … row … none"),
        ([[]], "a.xlsx … row … none"),
    ],
)
def test_sheets_that_are_no_table(tmp_path: Path, rows: list[list[Any]], facts: str) -> None:
    with refused(facts):
        read_table(save(tmp_path / "a.xlsx", rows))


def save_ods(path: Path, rows: list[list[str]]) -> Path:
    """A workbook of LibreOffice with one sheet, whose line ends are paragraphs."""
    namespaces = {name: f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0" for name in ("office", "table", "text")}
    written_rows = ""
    for row in rows:
        cells = ""
        for text in row:
            paragraphs = "".join(f"<text:p>{escape(line)}</text:p>" for line in text.split("\n"))
            cells += f'<table:table-cell office:value-type="string">{paragraphs}</table:table-cell>'
        written_rows += f"<table:table-row>{cells}</table:table-row>"
    declared = " ".join(f'xmlns:{name}="{address}"' for name, address in namespaces.items())
    sheet = f'<table:table table:name="Sheet 1">{written_rows}</table:table>'
    body = f"<office:body><office:spreadsheet>{sheet}</office:spreadsheet></office:body>"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
        archive.writestr("content.xml", f"<office:document-content {declared}>{body}</office:document-content>")
    return path


@pytest.mark.parametrize("write", [save, save_ods])
def test_a_written_table_that_is_saved_as_a_workbook(tmp_path: Path, write: Callable[..., Path]) -> None:
    """Its texts are read without the mark before what would be a formula, in every line; others stay as they are."""
    answers = [
        "- Call 0800 555 010\n- Write a letter",
        "+10OFF until May",
        "-5 is too cold; -7, too",
        "@us",
        "\u02bcAina",
    ]
    written = csv_text(["question", "answer", "=note"], [[f"={answer}?", answer, ""] for answer in answers])
    assert "\u02bc- Write" in written
    rows = list(csv.reader(io.StringIO(written)))
    ending = {save: "xlsx", save_ods: "ods"}[write]
    entries = read_faq(write(tmp_path / f"FAQ.{ending}", rows))
    assert [entry.answer for entry in entries] == answers
    assert [entry.question for entry in entries] == [f"={answer}?" for answer in answers]
    assert [list(entry.other) for entry in entries] == [["=note"]] * len(answers)


def an_archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("nothing.txt", "no workbook")
    return content.getvalue()


@pytest.mark.parametrize("content", [b"", b"PK\3\4 and no more", b"\xd0\xcf\x11\xe0 an old .xls", an_archive()])
def test_other_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.xlsx").write_bytes(content)
    with refused("a.xlsx … spreadsheet"):
        read_table(tmp_path / "a.xlsx")


@pytest.mark.parametrize("part", ["sheet1.xml", "workbook.xml"])
def test_damaged_parts(tmp_path: Path, part: str) -> None:
    save(tmp_path / "a.xlsx", [["question", "answer"], ["q", "a"]])
    name = f"xl/{part}" if part == "workbook.xml" else part
    with zipfile.ZipFile(tmp_path / "a.xlsx") as archive:
        [name] = [each for each in archive.namelist() if each.endswith(part) or (part in each and "rels" not in each)]
    with_part(tmp_path / "a.xlsx", name, b"<worksheet><sheetData><row r='1'><c")
    with refused("a.xlsx … spreadsheet … damaged"):
        read_table(tmp_path / "a.xlsx")
