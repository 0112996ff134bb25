"""Documents that are slow or hostile end: by themselves where they can, else by a limit, and the summary names them."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path

import docx
import pytest
from command_line import run
from handbook import pdf
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DecodedStreamObject, NameObject, NumberObject
from refusals import absent, refused

from ap_ranker import child_process
from ap_ranker.child_process import ChildProcess
from ap_ranker.documents import convert, read_documents
from ap_ranker.documents.html import read_page


def seconds(html: str) -> float:
    started = time.process_time()
    read_page(html)
    return time.process_time() - started


@pytest.mark.parametrize(
    "piece",
    [
        "<details><summary>a</summary>",
        "<details><summary>a</summary>b",
        "<h1>a",
        "<h1>a<h2>b",
        "<h2>a</h2>b",
        "<dl><dt>a<dd>b</dl>",
        "<p>a",
    ],
)
def test_the_time_grows_with_the_length(piece: str) -> None:
    """Four times the length takes less than twelve times as long, where its square would take sixteen."""
    seconds(piece * 50)
    few, many = (min(seconds(piece * n) for _ in range(2)) for n in (250, 1_000))
    assert many < 12 * few + 0.05, (few, many)


def test_headings_that_nothing_ends_are_headings() -> None:
    assert read_page("<h1>a<h2>b<p>text<h2>c<p>more").text == "# a\n\n## b\n\ntext\n\n## c\n\nmore"


def test_details_within_details_have_a_short_title() -> None:
    inner = read_page("<details><summary>q?</summary>" * 50 + "Here.").markup_questions[-1]
    assert (inner.question, inner.answer, inner.headings) == ("q?", "Here.", ("q?",) * 8)


def with_pages(count: int) -> bytes:
    """A PDF file that names its one page many times."""
    writer = PdfWriter(clone_from=io.BytesIO(pdf([["hello"]])))
    pages = writer.root_object["/Pages"].get_object()
    pages["/Kids"].extend([pages["/Kids"][0]] * (count - 1))
    pages[NameObject("/Count")] = NumberObject(count)
    file = io.BytesIO()
    writer.write(file)
    assert len(PdfReader(file).pages) == count
    return file.getvalue()


def with_operators(count: int) -> bytes:
    writer = PdfWriter(clone_from=io.BytesIO(pdf([["hello"]])))
    content = DecodedStreamObject()
    content.set_data(b"BT /F1 12 Tf " + b"[(a) 5 (b) -200 (c)] TJ T*\n" * count + b" ET")
    writer.pages[0][NameObject("/Contents")] = writer._add_object(content.flate_encode())
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def test_pages_beyond_a_number_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "MAX_PAGES", 100)
    found = convert.convert(with_pages(2_000), Path("a.pdf"))
    assert found.text.count("hello") == 100
    assert not absent("101 … 2,000", found.faults[0])


def test_pages_after_a_time_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "PDF_SECONDS", 0)
    assert not absent("5", convert.convert(pdf([["a"]] * 5), Path("a.pdf")).faults[0])


def test_a_pdf_that_repeats_itself_does_not_fill_the_memory() -> None:
    lines = pdf([["hello world"] * 500])
    writer = PdfWriter(clone_from=io.BytesIO(lines))
    pages = writer.root_object["/Pages"].get_object()
    pages["/Kids"].extend([pages["/Kids"][0]] * 999)
    pages[NameObject("/Count")] = NumberObject(1_000)
    file = io.BytesIO()
    writer.write(file)
    with refused("a.pdf … 50"):
        convert.convert(file.getvalue(), Path("a.pdf"))


def spanning(path: Path) -> None:
    """A table of which a cell claims a hundred million columns."""
    document, file = docx.Document(), io.BytesIO()
    document.add_table(2, 2).cell(0, 0).text = "x"
    document.save(file)
    with zipfile.ZipFile(file) as parts, zipfile.ZipFile(path, "w") as changed:
        for name in parts.namelist():
            change = (b"<w:tcPr>", b'<w:tcPr><w:gridSpan w:val="100000000"/>', 1)
            changed.writestr(
                name, parts.read(name).replace(*change) if name == "word/document.xml" else parts.read(name)
            )


def test_what_takes_too_long_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "SECONDS", 5)
    (tmp_path / "operators.pdf").write_bytes(with_operators(200_000))
    spanning(tmp_path / "spanning.docx")
    (tmp_path / "sound.pdf").write_bytes(pdf([["Bicycles stand in the yard."]]))
    started = time.monotonic()
    ended = run("check", ".", folder=tmp_path)
    assert time.monotonic() - started < 60
    assert ended.code == 0, ended.errors
    assert not absent("1 passages of 1 files", ended.output)
    for name in ("operators.pdf", "spanning.docx"):
        [line] = [line for line in ended.output.splitlines() if name in line]
        assert not absent(f"{name}: left out … 5 seconds … 2 GB … divide", line)


def test_a_process_that_ends_is_followed_by_another(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with ChildProcess() as child:
        with refused("a.txt … memory"):
            child.call(end, tmp_path / "a.txt")
        assert child.call(convert.as_dictionary, tmp_path / "a.txt")["text"] == "a"
        assert child.call(convert.as_dictionary, tmp_path / "a.txt")["text"] == "a"


def end(path: Path) -> None:
    """Called in the child process only."""
    raise SystemExit(path.name)


def test_a_folder_of_documents_is_not_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory may hold a file with the name of a module."""
    (tmp_path / "json.py").write_text("raise SystemExit")
    (tmp_path / "a.pdf").write_bytes(pdf([["Bicycles stand in the yard."]]))
    monkeypatch.chdir(tmp_path)
    assert [entry.answer for entry in read_documents(Path("a.pdf")).entries] == ["Bicycles stand in the yard."]
