"""A folder of documents becomes passages; whatever cannot be read is named, and stops nothing."""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from handbook import FOUND, HELP, LEFT_OUT, pdf, write_handbook
from hypothesis import given
from hypothesis import strategies as st
from refusals import absent, refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.faq import Entry, Match
from ap_ranker.documents import SHOWN, Reading, read_documents, read_entries
from ap_ranker.documents.convert import FORMATS, convert
from ap_ranker.documents.folder import find_files
from ap_ranker.documents.html import Converted
from ap_ranker.documents.passages import DENSE_LENGTH, LENGTH, split
from ap_ranker.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_handbook(tmp_path_factory.mktemp("company") / "handbook")


@pytest.fixture(scope="module")
def reading(folder: Path) -> Reading:
    started = time.monotonic()
    reading = read_documents(folder)
    assert time.monotonic() - started < 120  # seconds: one of the files has 5 MB
    return reading


@pytest.mark.parametrize(("words", "source"), FOUND.items())
def test_each_kind_of_file_with_its_source(
    reading: Reading, words: str, source: tuple[str | None, str, int | None]
) -> None:
    def has(entry: Entry, word: str) -> bool:
        return word.casefold() in f"{entry.text(Match.both)}".casefold()

    entries = [entry for entry in reading.entries if all(has(entry, word) for word in words.split())]
    found = {(entry.title or None, entry.other["file_path"], entry.other.get("page_number")) for entry in entries}
    title, file, page = source
    assert (title, file, None if page is None else str(page)) in found
    assert {file for _, file, _ in found} == {file}


def test_what_is_left_out(reading: Reading) -> None:
    assert [left.place for left in reading.left_out if left.place in LEFT_OUT] == [
        left.place for left in reading.left_out
    ]
    reasons = {left.place: left.reason for left in reading.left_out}
    assert reasons.keys() == LEFT_OUT.keys()
    for place, reason in LEFT_OUT.items():
        assert re.match(reason, reasons[place]), reasons[place]


def test_what_is_no_text_is_not_read(reading: Reading) -> None:
    """Neither menus and scripts, nor addresses of links, nor hidden files."""
    assert not [entry for entry in reading.entries if "zeppelin" in entry.text(Match.both).casefold()]


def test_marks_of_headings_are_no_text(reading: Reading) -> None:
    assert not [entry for entry in reading.entries if set("¶\u2060") & set(entry.text(Match.both))]


def test_addresses(reading: Reading) -> None:
    assert {
        (entry.other["file_path"], address)
        for entry in reading.entries
        for name, address in entry.other.items()
        if name.casefold() == "url"
    } == {("guides/help.html", "https://help.example/returns"), ("tables/FAQ.xlsx", "https://x.example/saal")}


def test_every_matched_text_has_the_title() -> None:
    entry = Entry("", "Money back.", {}, "", title="Handbook > Refunds")
    assert {entry.text(match) for match in Match} == {"Handbook > Refunds\nMoney back."}


def test_passages_are_as_long_as_a_model_reads(reading: Reading) -> None:
    assert max(len(entry.answer) for entry in reading.entries if entry.other["file_path"] == "archive.html") <= LENGTH
    japanese = [entry.answer for entry in reading.entries if entry.other["file_path"] == "日本.txt"]
    assert "".join(japanese) == "宇宙船は毎週金曜日に出発します。" * 40
    assert all(len(text) <= DENSE_LENGTH and text.endswith("。") for text in japanese)


@pytest.mark.parametrize(("count", "length"), [(100, LENGTH), (101, DENSE_LENGTH)])
def test_a_text_with_more_than_a_quarter_of_chinese_is_dense(count: int, length: int) -> None:
    """Of 400 characters, which is one passage of other scripts."""
    text = ("宇" * count + "ab. " * 100)[:399] + "."
    passages = split(Converted(text, by=""), "a-name")
    lengths = [len(passage.answer) for passage in passages]
    assert max(lengths) <= length
    assert (len(passages) == 1) == (length == LENGTH)


@given(
    text=st.text(st.sampled_from("ab. \n?宇。é"), max_size=3 * LENGTH) | st.text(max_size=200),
    by=st.sampled_from(["", "pages", "headings"]),
)
def test_no_text_is_lost(text: str, by: str) -> None:
    def squeezed(text: str) -> str:
        # U+2060 joins words and is invisible; from U+E000 on there are the signs of symbol fonts.
        return re.sub(r"[\s\0\u2060\ud800-\udfff\ue000-\uf8ff]+", "", text)

    passages = split(Converted(text, by=by), "a-name")
    assert all(0 < len(part.answer) <= LENGTH for part in passages)
    assert "#" in text or squeezed("".join(part.answer for part in passages)) == squeezed(text)


def test_headings_without_text_are_text() -> None:
    text = "# Help\n\n## Hotline: 0800 123\n\n## Hours\n\nFrom nine.\n\n```\n# 5\n```\n\n## Fax: 77\n"
    passages = [(part.title, part.answer) for part in split(Converted(text, by="headings"), "x")]
    assert passages == [
        ("Help > Hours", "Hotline: 0800 123\nFrom nine.\n\n```\n# 5\n```"),
        ("x", "Fax: 77"),
    ]


def test_chinese_sentences_stay_whole() -> None:
    """Whatever ends them; 170 characters are as many tokens."""
    sentences = [f"第{i}条规定的内容是什么{mark}" for i, mark in enumerate("。！？；" * 12)]
    texts = [passage.answer for passage in split(Converted("".join(sentences)), "faq")]
    assert "".join(texts) == "".join(sentences)
    assert len(texts) > 2
    assert all(len(text) <= 170 and text[-1] in "。！？；" for text in texts)


def test_sentences_stay_whole() -> None:
    sentences = [f"This is the sentence number {i} of a long text without any paragraphs." for i in range(60)]
    passages = split(Converted(" ".join(sentences)), "x")
    assert len(passages) > 4
    assert all(part.answer.startswith("This is") and part.answer.endswith("paragraphs.") for part in passages)
    assert min(len(part.answer) for part in passages[:-1]) > LENGTH / 2


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("a.docx", b"", "Word"),
        ("a.pdf", b"", "PDF … password"),
        ("a.pdf", pdf([[]]), "scan"),
        ("a.html", b"<html></html>", "none"),
        ("a.html", b"<div>" * 5000 + b"deep", "deeply"),
        ("a.txt", b"\xff\xfe\0", "line 1 … UTF-8 … 0xff"),
        ("a.odt", b"", ".md"),
    ],
)
def test_one_file_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, facts: str) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(f"{tmp_path / name} … {facts}"):
        read_entries(tmp_path / name)


@given(content=st.binary(max_size=300), ending=st.sampled_from(sorted(FORMATS)))
def test_any_bytes_are_text_or_one_sentence(content: bytes, ending: str) -> None:
    try:
        split(convert(content, Path(f"a{ending}")), "a")
    except InputError as error:
        assert str(error).startswith(f"a{ending}")


@pytest.mark.parametrize(
    "name", ["Handbuch.docx", "onboarding.pptx", "parking-rules.pdf", "guides/help.html", "guides/staff.md"]
)
@given(place=st.floats(0, 1), byte=st.binary(min_size=1, max_size=30))
def test_damaged_documents(folder: Path, name: str, place: float, byte: bytes) -> None:
    content = (folder / name).read_bytes()
    start = int(place * len(content))
    try:
        split(convert(content[:start] + byte + content[start + len(byte) :], Path(name)), "a")
    except InputError as error:
        assert str(error).startswith(name)


def test_nothing_to_read(tmp_path: Path) -> None:
    with refused(".md … none"):
        read_documents(tmp_path)
    (tmp_path / "a.png").write_bytes(b"")
    with refused("none … a.png"):
        read_documents(tmp_path)


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    (tmp_path / "a.md").write_text("# Title\n\ntext")
    monkeypatch.setitem(sys.modules, "markdownify", None)
    with refused('a.md … pip install "ap-ranker[documents]"'):
        read_documents(tmp_path / "a.md")


@pytest.mark.skipif(os.name != "posix", reason="names of bytes")
def test_names_that_are_not_unicode(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("Espresso.")
    [entry] = read_documents(tmp_path).entries
    assert entry.other["file_path"] == "caf\N{REPLACEMENT CHARACTER}.txt"


@pytest.mark.parametrize("answer", ["a", "a very long answer " * 10_000])
def test_what_visitors_said_is_no_document(tmp_path: Path, answer: str) -> None:
    """The database and exports of feedback in the folder that is read."""
    pytest.importorskip("sqlalchemy", reason="the extra serve is not installed")
    from ap_ranker.web.database import open_database
    from ap_ranker.web.judgements import Judgements
    from ap_ranker.web.traces import export_judgements

    (tmp_path / "FAQ.csv").write_text("question,answer\nWhy?,Because.\n")
    database = open_database(tmp_path / "faq.db")
    Judgements(database).keep(question="q", answer=answer, stored_question="", helped=True, network="n")
    exports = ("said.csv", "said.jsonl")
    for name in exports:
        export_judgements(database, tmp_path / name)
    reading = read_documents(tmp_path)
    assert [entry.answer for entry in reading.entries] == ["Because."]
    assert {left.place for left in reading.left_out} >= {"faq.db", *exports}


def test_a_checkpoint_is_no_document(tmp_path: Path, checkpoint: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "checkpoints" / "faq")
    (tmp_path / "a.txt").write_text("Open the tracking link.")
    reading = read_documents(tmp_path)
    assert [entry.answer for entry in reading.entries] == ["Open the tracking link."]
    assert [str(left) for left in reading.left_out] == ["checkpoints/faq: left out: a checkpoint."]


def test_files_without_permission(tmp_path: Path) -> None:
    for name in ("a.md", "b.csv", "c.txt"):
        (tmp_path / name).write_text("question,answer\nq,a\n")
    for name in ("a.md", "b.csv"):
        (tmp_path / name).chmod(0)
    if os.access(tmp_path / "a.md", os.R_OK):
        pytest.skip("this user may read everything")
    assert [str(left) for left in read_documents(tmp_path).left_out] == [
        f"{name}: left out: cannot be read (Permission denied)." for name in ("a.md", "b.csv")
    ]


@pytest.mark.parametrize("mode", [0, 0o444])
def test_folders_that_may_not_be_entered(mode: int) -> None:
    """With the second mode, the names in it can be read, but nothing else."""
    with TemporaryDirectory() as place:  # all above it may be entered by everybody
        root, user = Path(place), os.geteuid()
        for name in ("a", "secret", "z"):
            (root / name).mkdir()
            (root / name / "b.txt").write_text("Open the tracking link.")
        (root / "secret").chmod(mode)
        root.chmod(0o755)
        try:
            if user == 0:  # who may enter everything
                os.seteuid(65534)
            found, left_out = find_files(root)
        finally:
            os.seteuid(user)
            (root / "secret").chmod(0o700)
    assert [path.relative_to(root).as_posix() for path in found] == ["a/b.txt", "z/b.txt"]
    assert [one.place.split("/")[0] for one in left_out] == ["secret"]
    assert "cannot be read (Permission denied)." in left_out[0].reason


def test_chosen_columns_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Anliegen,Lösung,x\nWo?,Hier.,1\n")
    (tmp_path / "b.csv").write_text("question,answer\nq,a\n")
    entries = read_documents(tmp_path, ("Anliegen", "Lösung")).entries
    assert [(entry.question, entry.answer) for entry in entries] == [("Wo?", "Hier."), ("q", "a")]
    with refused("'x' … 'y' … --columns"):
        read_documents(tmp_path, ("x", "y"))


def test_settings_of_a_program_are_no_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "package.json").write_text('{"name": "x", "scripts": {"test": "y"}}')
    assert not absent("package.json … name, test", read_documents(tmp_path).left_out[0])


def test_a_log_of_what_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.txt").write_text("text")
    for i in range(SHOWN + 2):
        (tmp_path / f"{i:02}.png").write_bytes(b"")
    with caplog.at_level(logging.INFO):
        read_entries(tmp_path)
    assert not absent("1 passages … 1 files", caplog.text)
    assert caplog.text.count("left out: its ending") == SHOWN
    assert not absent(f"2 … ap-ranker check {tmp_path}", caplog.text)


def check(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def test_check_names_every_file_left_out(folder: Path, tmp_path: Path) -> None:
    result = check(folder, "--json", tmp_path / "found.json")
    assert result.exit_code == 0, result.output
    for place in LEFT_OUT:
        assert f"{place}: left out: " in result.output
    assert '"place": "scan.pdf"' in (tmp_path / "found.json").read_text()
    (tmp_path / "a.html").write_text(HELP)
    assert "1 files, 0 left out" in check(tmp_path / "a.html").output
    again = check(tmp_path / "a.html", "--fix", tmp_path / "fixed.csv").exception
    assert isinstance(again, InputError)
