"""A FAQ's file with the owner's changes: what has not changed is as it was."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.data.faq import Entry, read_faq
from ap_ranker.data.faq_file import FaqFile
from ap_ranker.data.rows import stripped

MESSY = [
    ["Nr", " Thema", "Question", "Question 2", "Answer", "url", "answerable", "Other wordings"],
    ["1", "Orders", "Where is it?", "Where?", "Open the <b>link</b>.", "https://a.example", "", "track it\nlost"],
    ["2", "Orders", "A draft?", "", "", "https://b.example", "", "drafted"],
    ["3", "", "Can I fly?", "", "", "", "no", ""],
    ["4", "Money", " Refund? ", "", "<p>Yes,</p><p>soon.</p>", "", "yes", "money back"],
    ["5", "Money", "Cash?", "Coins?", "- No\n- Never", "", "", ""],
    ["6", "", "", "", "", "https://c.example", "", ""],
]
"""A FAQ as people keep it: drafts, a question without an answer, HTML, a row with nothing but an address."""


def write_csv(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def cells(path: Path) -> list[list[str]]:
    """The cells of a CSV file, without the mark before what would be a formula."""
    with path.open(encoding="utf-8", newline="") as file:
        return [[text.replace("\u02bc", "") for text in row] for row in csv.reader(file)]


def texts(entries: Sequence[Entry]) -> list[tuple[Any, ...]]:
    return [(entry.question, entry.answer, set(entry.wordings)) for entry in entries]


def added(question: str, answer: str, *wordings: str) -> Entry:
    return Entry(question, answer, other={}, place="change 1", wordings=wordings)


def test_what_has_not_changed_is_as_it_was(tmp_path: Path) -> None:
    faq = FaqFile.read(write_csv(tmp_path / "FAQ.csv", MESSY))
    where, refund, _ = faq.entries
    entries = [
        replace(where, wordings=("Where?", "lost", "gone")),
        replace(refund, answer="In a\nweek."),
        added("Dogs?", "=Welcome", "my dog", "puppy"),
    ]
    faq.write(entries, tmp_path / "NEW.csv")
    header, first, draft, unanswerable, money, *_, address = MESSY
    assert cells(tmp_path / "NEW.csv") == [
        [name.strip() for name in header],
        [*first[:-1], "lost\ngone"],
        draft,
        unanswerable,
        [*money[:4], "In a\nweek.", *money[5:]],
        address,
        ["", "", "Dogs?", "", "=Welcome", "", "", "my dog\npuppy"],
    ]
    assert faq.unfinished == 3
    assert texts(read_faq(tmp_path / "NEW.csv")) == texts(entries)


def test_a_file_without_changes_stays_the_same(tmp_path: Path) -> None:
    faq = FaqFile.read(write_csv(tmp_path / "FAQ.csv", MESSY))
    faq.write(faq.entries, tmp_path / "NEW.csv")
    assert cells(tmp_path / "NEW.csv") == [[name.strip() for name in MESSY[0]], *MESSY[1:]]


@pytest.mark.parametrize(
    ("header", "columns", "written"),
    [
        ("Frage,Antwort", None, "Frage,Antwort,wordings"),
        ("Answer,QUESTION:", None, "Answer,QUESTION:,wordings"),
        ("answer", None, "question,answer,wordings"),
        ("Customer asks,We say", ("Customer asks", "We say"), "Customer asks,We say,wordings"),
        ("Customer asks,We say,question", ("customer asks", "we say"), "Customer asks,We say,question,wordings"),
        ("Wordings,We say", ("Wordings", "We say"), "Wordings,We say,wordings 2"),
        ("Customer asks,We say", None, "question,answer,wordings"),  # beside a third column, nobody would know them
        ("title,content,note", None, "question,answer,note,wordings"),  # others might ask nothing
        ("question_de,answer_de,note", None, "language,note,question,answer,wordings"),
        ("Topic,pregunta,respuesta,Wordings", None, "Topic,pregunta,respuesta,Wordings"),
        ("Frage,Antwort,Frage 2", None, "Frage,Antwort,Frage 2"),
    ],
)
def test_columns_keep_their_names(header: str, columns: tuple[str, str] | None, written: str, tmp_path: Path) -> None:
    names = header.split(",")
    rows = [[f"{name} {number}?" for name in names] for number in range(3)]
    faq = FaqFile.read(write_csv(tmp_path / "FAQ.csv", [names, *rows]), columns)
    entries = [replace(faq.entries[0], wordings=("like this",)), *faq.entries[1:], added("New", "Yes.")]
    faq.write(entries, tmp_path / "NEW.csv")
    assert ",".join(cells(tmp_path / "NEW.csv")[0]) == written
    read = read_faq(tmp_path / "NEW.csv", columns)
    assert texts(read) == texts(entries)
    faq = FaqFile.read(tmp_path / "NEW.csv", columns)
    faq.write(faq.entries, tmp_path / "AGAIN.csv")
    assert (tmp_path / "AGAIN.csv").read_bytes() == (tmp_path / "NEW.csv").read_bytes()


def test_lists_of_json(tmp_path: Path) -> None:
    path = tmp_path / "FAQ.json"
    records = [
        {"id": 7, "questions": ["Where?", "Track"], "answers": ["Here.", "There."]},
        {"id": 8, "questions": ["Draft?", "Later"], "answers": []},
        {"id": 9, "questions": ["Cash?"], "answers": ["No."]},
    ]
    path.write_text(json.dumps(records), encoding="utf-8")
    faq = FaqFile.read(path)
    entries = [replace(faq.entries[0], wordings=("Track", "Find")), *faq.entries[1:]]
    faq.write(entries, tmp_path / "NEW.csv")
    assert cells(tmp_path / "NEW.csv") == [
        ["id", "questions", "answers", "wordings", "further answers"],
        ["7", "Where?", "Here.", "Track\nFind", "There."],
        ["8", "Draft?", "", "Later", ""],
        ["9", "Cash?", "No.", "", ""],
    ]
    assert texts(read_faq(tmp_path / "NEW.csv")) == texts(entries)


def test_two_rows_of_one_record(tmp_path: Path) -> None:
    """Rows of a workbook in two sheets, and with the same texts, are told apart."""
    book = openpyxl.Workbook()
    for name in ("A", "B"):
        sheet = book.create_sheet(name)
        for row in (["Frage", "Antwort"], ["Wo?", "Hier."], ["Entwurf?", None], ["Wo?", "Hier."]):
            sheet.append(row)
    book.save(tmp_path / "FAQ.xlsx")
    faq = FaqFile.read(tmp_path / "FAQ.xlsx")
    entries = [faq.entries[0], replace(faq.entries[2], answer="Dort."), faq.entries[3]]
    faq.write(entries, tmp_path / "NEW.csv")
    expected = [["Wo?", "Hier."], ["Entwurf?", ""], ["Wo?", "Dort."], ["Entwurf?", ""], ["Wo?", "Hier."]]
    assert cells(tmp_path / "NEW.csv") == [["Frage", "Antwort"], *expected]


def test_a_backslash_is_none_once_the_last_line_end_is_gone(tmp_path: Path) -> None:
    rows = [["question", "answer"], ["Where?", "one\ntwo"], ["How?", "type \\n twice"]]
    faq = FaqFile.read(write_csv(tmp_path / "FAQ.csv", rows))
    faq.write(faq.entries[1:], tmp_path / "NEW.csv")
    assert [entry.answer for entry in read_faq(tmp_path / "NEW.csv")] == ["type \\n twice"]


NAMES = [
    ("question", "answer"),
    ("Frage", "Antwort"),
    ("Q", "A"),
    ("问题", "答案"),
    ("Customer asks", "We say"),
]
OTHERS = ["url", "Topic", "title", "answerable", "Wordings", "wording 2", "aid", "Notes, old", "=Sum"]
TEXTS = ["", "Where?", "<p>a</p><p>b</p>", "=1+1", "- a\n- b", "\\n", "a;b|c\td", 'say "no"', "\u02bc-5", " x "]


@given(st.data())
def test_every_other_cell_is_the_same(data: st.DataObject) -> None:
    pair = data.draw(st.sampled_from(NAMES))
    others = data.draw(st.lists(st.sampled_from(OTHERS), unique=True, max_size=3))
    header = data.draw(st.permutations([*pair, *others]))
    text = st.sampled_from(TEXTS)
    rows = data.draw(st.lists(st.lists(text, min_size=len(header), max_size=len(header)), min_size=1, max_size=5))
    rows.append(["known"] * len(header))
    columns = pair if pair == NAMES[-1] else None
    with TemporaryDirectory() as folder:
        output = Path(folder) / "NEW.csv"
        faq = FaqFile.read(write_csv(Path(folder) / "FAQ.csv", [header, *rows]), columns)
        changed = data.draw(st.sampled_from(faq.entries))
        new = replace(changed, answer="new\nanswer", wordings=(*changed.wordings, "one more"))
        deleted = data.draw(st.sampled_from([None, *faq.entries]))
        entries = []
        for entry in faq.entries:
            if entry is changed:
                entries.append(new)
            elif entry is not deleted:
                entries.append(entry)
        faq.write(entries, output)
        written = FaqFile.read(output, columns)
    assert texts(written.entries) == texts(entries)
    kept = list(faq.table.rows)
    if deleted is not None and deleted is not changed:
        del kept[int(deleted.place)]
    kept = [row for row in kept if any(map(stripped, row.fields.values()))]  # a line end that was escaped is none
    for row, row_now in zip(kept, written.table.rows, strict=True):
        is_changed = faq.table.rows[int(changed.place)] is row
        for column, cell in row.fields.items():
            touched = is_changed and (column == "answer" or column.casefold().startswith("wording"))
            assert touched or row_now.fields[column] == cell
