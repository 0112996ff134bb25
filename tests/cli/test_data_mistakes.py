"""Mistakes that people naturally make with the files that they have: each gets one sentence that names the remedy."""

from __future__ import annotations

import datetime
import io
import shlex
import zipfile
from collections.abc import Iterable
from pathlib import Path

import openpyxl
import pytest
from command_line import run
from exported import EXPORTS
from handbook import pdf
from refusals import absent

pytest.importorskip("python_calamine")


def workbook(*rows: Iterable[object], hidden: bool = False) -> bytes:
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(list(row))
    if hidden:
        book.active.sheet_state = "hidden"
        book.create_sheet("Open")
    book.save(file)
    return file.getvalue()


def archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as parts:
        parts.writestr("FAQ.csv", "question,answer\nWhere?,Here.\n")
    return file.getvalue()


TABLE = b"question,answer\nWhere?,Here.\n"
HEADER, DAY = ("question", "answer"), datetime.datetime(2026, 5, 4)
PROTECTED = (EXPORTS / "protected.xlsx").read_bytes()
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
MISTAKES: dict[str, tuple[bytes, str]] = {
    # Another kind of file than its name says
    "ask Where? --documents pdf.csv": (pdf([["a"]]), "pdf.csv … PDF … pdf.pdf"),
    "train book.csv --output new": (workbook(HEADER), "book.csv … Excel … book.xlsx"),
    "check sheet.csv": ((EXPORTS / "FAQ.ods").read_bytes(), "sheet.csv … sheet.ods"),
    "check text.xlsx": (TABLE, "text.xlsx … text.csv"),
    "check text.ods": (TABLE, "text.ods … text.csv"),
    "check login.csv": (b"<!DOCTYPE html>\n<html><title>Log in</title>", "login.csv … web page … login.html"),
    "check login.xls": (b"<html><table><tr><td>question", "login.xls … web page … login.html"),
    "ask Where? --documents photo.csv": (b"\x89PNG\r\n\x1a\n", "photo.csv … picture"),
    "ask Where? --documents photo.png": (b"\x89PNG\r\n\x1a\n", "photo.png … .csv … .xlsx … .pdf"),
    "ask Where? --documents notes.txt": (rb"{\rtf1 Where?}", "notes.txt … RTF … .docx"),
    "check log.csv": (b"SQLite format 3\0 and more", "log.csv … database"),
    "check pointer.csv": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n",
        "pointer.csv … git lfs pull",
    ),
    "check pointer.xlsx": (POINTER, "git lfs pull"),
    "check cut.csv.gz": (b"\x1f\x8b\x08\0", "cut.csv.gz … gzip"),
    # Another kind of file than can be read
    "extract all.zip --output new.csv": (archive(), "all.zip … .csv … Unpack"),
    "train all.zip --output new": (archive(), "all.zip … .csv … Unpack"),
    "check FAQ.numbers": (b"PK", "FAQ.numbers … .csv … .xlsx"),
    "check FAQ.gsheet": (b'{"doc_id": "1"}', "FAQ.gsheet … .csv … .xlsx"),
    "check FAQ.pages": (b"PK", "FAQ.pages … .csv … .docx"),
    "ask Where? --documents mail.msg": (b"\xd0\xcf\x11\xe0", "mail.msg … .csv … .pdf"),
    "train manual.pdf --output new": (pdf([["a"]]), "ap-ranker serve manual.pdf … ap-ranker extract manual.pdf"),
    "split manual.md --output new": (b"# Where?\n\nHere.\n", "manual.md … .csv … ap-ranker extract manual.md"),
    # Files that must be opened before
    "ask Where? --documents protected.xlsx": (PROTECTED, "protected.xlsx … password"),
    "check protected.ods": ((EXPORTS / "protected.ods").read_bytes(), "protected.ods … password … password"),
    "check protected.xls": ((EXPORTS / "protected.xls").read_bytes(), "protected.xls … password … password"),
    "ask Where? --documents protected.docx": (PROTECTED, "protected.docx … password"),
    "check '~$FAQ.xlsx'": (b"\x04owner" + bytes(50), "~$FAQ.xlsx … damaged"),
    "check cut.xlsx": (workbook(HEADER, ("Where?", "Here."))[:900], "cut.xlsx … damaged"),
    # Sheets
    "check empty.xlsx": (workbook(), "empty.xlsx … row … none"),
    "check names.xlsx": (workbook(HEADER), "names.xlsx … row … none"),
    "check hidden.xlsx": (workbook(HEADER, ("Where?", "Here."), hidden=True), "hidden.xlsx … row … none"),
    "check bare.xlsx": (workbook(("For users", None, "Ours"), (*HEADER, "id")), "bare.xlsx … row … none"),
    "train gap.xlsx --output new": (
        workbook(HEADER, ("Where?", "Here."), (None, "There.")),
        "gap.xlsx … row 3 … 'question' … ap-ranker check FILE",
    ),
    "ask Where? --documents formula.xlsx": (
        workbook(HEADER, ("Where?", '="Here."')),
        "formula.xlsx … row 2 … 'answer' … nothing",
    ),
    # Columns
    "ask Where? --documents numbers.csv": (b"question,answer\n1,Where?\n2,When?\n", "'question' … '1' … --columns"),
    "train dates.xlsx --output new": (workbook(HEADER, (DAY, "Here."), (DAY, "Now.")), "'question' … '2026-05-04'"),
    "ask Where? --documents one.csv": (b"question\nWhere?\n", "one.csv … 'answer' … question … answers"),
    "check twice.csv": (b"question,answer,answer\nWhere?,Here.,There.\n", "twice.csv, line 1 … 'answer' … column 3"),
    "check smart.csv": ("“question”,“answer”\n“Where, to?”,“Here.”\n".encode(), "smart.csv, line 2 … 2 … 3"),
    "check commas.tsv": (b"question,answer\nWhere?,Here.\n", "commas.tsv … question,answer"),
    "check mixed.csv": (b"question;answer,topic\nWhere?;Here.\n", "mixed.csv, line 1 … commas … semicolons"),
    "ask Where? --documents FAQ.csv --columns question,reply": (TABLE, "'reply' … question, answer"),
    # Encodings
    "check damaged.csv": ("question,answer\nWo?,Größe ".encode() + b"\xff\n", "damaged.csv, line 2 … 0xff … CSV UTF-8"),
    "check nul.csv": (b"question,answer\nWhere?,Here\0.\n", "nul.csv, line 2 … NUL … CSV UTF-8"),
    "check cut16.csv": ("question,answer\n".encode("utf-16")[:-1], "cut16.csv, line 1 … UTF-8"),
    # JSON
    "ask Where? --documents error.json": (b'{"error": {"code": 401}}', "error.json … 'answer' … code"),
    "check comma.json": (b'[{"question": "Where?", "answer": "Here."},]', "comma.json … JSON"),
    "check texts.json": (b'["Where?", "Here."]', 'texts.json … [{"question": "...", "answer": "..."}]'),
    "check drafts.json": (
        b'{"articles": [{"title": "Where?", "body": "Here.", "section_id": 1, "draft": "true"}]}',
        "drafts.json … none … 1 articles … Zendesk",
    ),
    "check gaps.json": (
        b'[{"title": null, "body": "<p>Here.</p>", "section_id": 1}, {"title": "", "body": null, "section_id": 1}]',
        "gaps.json … none … 2 articles … title … text",
    ),
    "check bare.csv": (b"When?,Six, or seven\nHow?,So\n", "bare.csv, line 2 … 3 … 2 … Line 1"),
    "check headless.csv": (b"When?,How?\nSix.,So.\n", "headless.csv … 'When?' … question,answer"),
}
"""What is typed -> the content of the file, and where the fault and what the remedy is."""


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake(typed: str, tmp_path: Path) -> None:
    content, facts = MISTAKES[typed]
    words = shlex.split(typed)
    name = next(word for word in words if "." in word)
    (tmp_path / name).write_bytes(content)
    ended = run(*words, folder=tmp_path)
    assert ended.code == 2, ended.output
    assert not absent(facts, ended.errors), ended.errors
    assert ended.errors.startswith("Error: ")
    assert len(ended.errors.strip().splitlines()) <= 3, ended.errors
    assert "Traceback" not in ended.errors
    assert [path.name for path in tmp_path.iterdir()] == [name]
