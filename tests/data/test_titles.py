"""What stands above, between and below the rows of a table, as people write it: the same for spreadsheets and CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from refusals import absent, refused

from ap_ranker.data.faq import read_faq
from ap_ranker.data.tables import read_table
from ap_ranker.errors import InputError

Sheet = list[list[Any]]
WHERE, WHEN = ["Wo?", "Hier."], ["Wann?", "Jetzt."]
NAMES = ["Frage", "Antwort"]

READ: dict[str, tuple[Sheet, int]] = {
    "no title": ([NAMES, WHERE, WHEN], 1),
    "a title": ([["Unsere FAQ"], NAMES, WHERE, WHEN], 2),
    "three lines of title": ([["FAQ"], ["für alle"], ["Stand: Mai"], NAMES, WHERE, WHEN], 4),
    "a title with a comma": ([["FAQ, Stand: Mai"], NAMES, WHERE, WHEN], 2),
    "a title of two texts": ([["FAQ", "Stand: Mai"], NAMES, WHERE, WHEN], 2),
    "a title in the second column": ([["", "FAQ"], NAMES, WHERE, WHEN], 2),
    "a title that asks": ([["Was fragen unsere Kunden?"], NAMES, WHERE, WHEN], 2),
    "blank rows around a title": ([[""], ["FAQ"], ["", ""], NAMES, ["", ""], WHERE, ["", ""], WHEN, [""]], 4),
    "names of groups above": ([["", "Service", ""], ["Nr", *NAMES], ["1", *WHERE], ["2", *WHEN]], 2),
    "the names in the middle again": ([NAMES, WHERE, NAMES, WHEN], 1),
    "the names and the title again": ([["FAQ"], NAMES, WHERE, NAMES, WHEN], 2),
    "the names with a byte order mark again": ([NAMES, WHERE, ["\ufeffFrage", "Antwort"], WHEN], 1),
    "names with a language in the middle again": (
        [["Frage de", "Antwort de"], WHERE, ["Frage de", "Antwort de"], WHEN],
        1,
    ),
    "an invisible character in a blank row": ([NAMES, WHERE, ["\u200b", ""], WHEN, ["\u200b", "\u2060"]], 1),
    "an invisible character behind the last name": ([NAMES, [*WHERE, "\u200b"], WHEN], 1),
    "an empty column before": ([["", *NAMES], ["", *WHERE], ["", *WHEN]], 1),
    "an empty column behind": ([[*NAMES, ""], [*WHERE, ""], [*WHEN, ""]], 1),
    "names that are not known, below a title": ([["FAQ", ""], ["Kunde", "Wir"], WHERE, WHEN], 2),
}
"""Name -> rows, and the number of the one that has the names of the columns."""

REFUSED: dict[str, tuple[Sheet, str]] = {
    "four lines of title": ([["a"], ["b"], ["c"], ["d"], NAMES, WHERE], "5 … 1 … a … 2"),
    "one name of two": ([["Frage", ""], WHERE, WHEN], "2 … 1 … Frage … 2"),
    "no name for the first column": ([["", "Antwort"], WHERE, WHEN], "1 … none … column 1"),
    "one column with a note beside": ([["Text"], ["Hier", "(alt)"], ["Dort"]], "2 … 1 … Text … 2"),
    "one column of answers": ([["Antwort"], WHERE, WHEN], "2 … 1 … Antwort … 2"),
}
"""Name -> rows, and what the refusal tells: a row of data is never taken for names, nor left out silently."""

DATA: dict[str, tuple[Sheet, Sheet]] = {
    "names of another language below": ([NAMES, ["Question", "Answer"], WHERE], [["Question", "Answer"], WHERE]),
    "a row of units": ([NAMES, ["(Text)", "(Text)"], WHERE], [["(Text)", "(Text)"], WHERE]),
    "a row that begins as the names": ([NAMES, ["Frage", "Hier."]], [["Frage", "Hier."]]),
}
"""Name -> rows, and those that are read: nobody can tell them from others."""


def save(path: Path, rows: Sheet) -> Path:
    """As a spreadsheet, as what it is exported as, or as people type it: without empty fields at the end."""
    width = max(map(len, rows))
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append([value or None for value in row])
        book.save(path)
        return path
    if path.stem == "exported":
        rows = [[*row, *[""] * (width - len(row))] for row in rows]
    text = io.StringIO()
    csv.writer(text, delimiter="\t" if path.suffix == ".tsv" else ";", lineterminator="\n").writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8")
    return path


FILES = ["a.xlsx", "exported.csv", "typed.csv", "exported.tsv", "typed.tsv"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("name", READ)
def test_what_is_left_out(name: str, file: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows, number = READ[name]
    path = save(tmp_path / file, rows)
    with caplog.at_level("INFO"):
        entries = read_faq(path)
    assert [[entry.question, entry.answer] for entry in entries] == [WHERE, WHEN]
    last = max(i for i, row in enumerate(rows, start=1) if "Jetzt." in row)
    assert entries[1].place.endswith(f" {last}")
    told = caplog.text.count("what stands above is left out")
    assert told == (number > 1 and any(map(any, rows[: number - 1])))
    assert not told or not absent(f"{file} … {number}", caplog.text)
    again = [i for i, row in enumerate(rows, start=1) if i > number and "Antwort" in row]
    assert not absent(f"{again[0]} … Frage, Antwort" if again else "", caplog.text)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, file: str, tmp_path: Path) -> None:
    rows, facts = REFUSED[name]
    path = save(tmp_path / file, rows)
    is_text = file == "typed.csv" and len(rows[0]) == 1  # nothing tells what separates fields
    with refused(f"{file} … {rows[0][0] if is_text else facts}"):
        read_faq(path)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("name", DATA)
def test_what_is_data(name: str, file: str, tmp_path: Path) -> None:
    rows, expected = DATA[name]
    path = save(tmp_path / file, rows)
    assert [[entry.question, entry.answer] for entry in read_faq(path)] == expected


@pytest.mark.parametrize("title", ["Texte", "Text, kurz", "FAQ?"])
def test_one_column_is_no_title(title: str, tmp_path: Path) -> None:
    """Unless it holds a text that separates, which is refused."""
    (tmp_path / "a.csv").write_text(f'"{title}"\nHallo\n"Guten Tag, Welt"\n')
    assert [[*row.fields.values()] for row in read_table(tmp_path / "a.csv").rows] == [["Hallo"], ["Guten Tag, Welt"]]
    (tmp_path / "a.csv").write_text(f'"{title}"\nHallo, Welt\nGuten Tag, Welt\n')
    with refused(f"a.csv, line 2 … 1 … {title} … 2"):
        read_table(tmp_path / "a.csv")


def test_carriage_returns_alone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"FAQ\rFrage;Antwort\rWo?;Hier, dort\r")
    [entry] = read_faq(tmp_path / "a.csv")
    assert (entry.question, entry.answer) == ("Wo?", "Hier, dort")


def test_a_typed_title_above_quoted_fields(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('FAQ "neu"\nFrage\tAntwort\nWo?\t"Hier\noder dort"\nWann?\tJetzt\n')
    assert [entry.answer for entry in read_faq(tmp_path / "a.tsv")] == ["Hier\noder dort", "Jetzt"]


def test_merged_cells_have_one_text(tmp_path: Path) -> None:
    """Of names in two rows, of a topic or a question beside several rows; a title stays one."""
    book = openpyxl.Workbook()
    rows = [["FAQ"], ["Thema", "Text"], ["", *NAMES], ["Reise", "Wo?", "Hier."], ["", "Wann?", "Jetzt."]]
    for row in [*rows, ["", "", "Oder bald."], ["Geld", "Wie viel?", 3]]:
        book.active.append([value or None for value in row])
    for cells in ("A1:C1", "A2:A3", "B2:C2", "A4:A6", "B5:B6", "E2:F9", "A20:B30"):  # also where nothing stands
        book.active.merge_cells(cells)
    book.save(tmp_path / "a.xlsx")
    assert [(entry.other["Thema"], entry.question, entry.answer) for entry in read_faq(tmp_path / "a.xlsx")] == [
        ("Reise", "Wo?", "Hier."),
        ("Reise", "Wann?", "Jetzt."),
        ("Reise", "Wann?", "Oder bald."),
        ("Geld", "Wie viel?", "3"),
    ]


def test_fields_without_a_text_behind_the_last_name(tmp_path: Path) -> None:
    """As a comma at the end of each row leaves them."""
    (tmp_path / "a.csv").write_text("question,answer\nWhere?,Here.,\nWhen?,Now., ,\n")
    assert [entry.answer for entry in read_faq(tmp_path / "a.csv")] == ["Here.", "Now."]
    (tmp_path / "a.csv").write_text("question,answer\nWhere?,Here, and there.,\n")
    with pytest.raises(InputError) as caught:
        read_faq(tmp_path / "a.csv")
    assert not absent("a.csv, line 2 … 2 … question, answer … 4 … ','", caught.value)


def test_names_and_rows_of_two_lines_are_read_once(tmp_path: Path) -> None:
    """Cells that are merged for their height alone."""
    book = openpyxl.Workbook()
    for row in [NAMES, [], WHERE, [], WHEN]:
        book.active.append(row)
    for cells in ("A1:A2", "B1:B2", "A3:A4", "B3:B4"):
        book.active.merge_cells(cells)
    book.save(tmp_path / "a.xlsx")
    assert [[entry.question, entry.answer] for entry in read_faq(tmp_path / "a.xlsx")] == [WHERE, WHEN]


@pytest.mark.parametrize("file", FILES)
def test_the_names_of_chosen_columns_again(file: str, tmp_path: Path) -> None:
    names = ["Anliegen", "Lösung"]
    path = save(tmp_path / file, [names, WHERE, names, WHEN])
    entries = read_faq(path, ("Anliegen", "Lösung"))
    assert [[entry.question, entry.answer] for entry in entries] == [WHERE, WHEN]


@pytest.mark.parametrize(
    ("names", "number"),
    [
        (["Frage", "", "Antwort", "Thema", "Thema"], 5),
        (["", "Text", "", "Text"], 4),
        (["Nr", "", "", "Text", "Text"], 5),
    ],
)
def test_the_number_of_a_column_counts_those_without_a_name(names: list[str], number: int, tmp_path: Path) -> None:
    empty = ["" if name == "" else "x" for name in names]
    with refused(f"column {number}"):
        read_table(save(tmp_path / "exported.csv", [names, empty, empty]))


SHOPS: Sheet = [["Shop", "Street", "Hours", "Phone"], ["Nord", "A 1", "9-5", "12"], ["Süd", "B 2", "9-6", "34"]]

BELOW: dict[str, tuple[Sheet, Sheet]] = {
    "another table": ([NAMES, WHERE, WHEN, [""], *SHOPS], [WHERE, WHEN]),
    "another table below two blank rows": ([NAMES, WHERE, [""], ["", ""], *SHOPS], [WHERE]),
    "another table below an invisible character": ([NAMES, WHERE, ["\u200b"], *SHOPS], [WHERE]),
    "another table with a title": ([NAMES, WHERE, [""], ["Läden"], *SHOPS], [WHERE]),
    "two other tables": ([NAMES, WHERE, [""], *SHOPS, [""], *SHOPS], [WHERE]),
    "entries below another table": ([NAMES, WHERE, [""], *SHOPS, [""], WHEN], [WHERE, WHEN]),
    "another table without a phone in one row": (
        [NAMES, WHERE, [""], *SHOPS, ["Ost", "C 3"]],
        [WHERE],
    ),
    "a note beside an entry below a blank row": ([NAMES, WHERE, [""], [*WHEN, "alt"], WHERE], [WHERE, WHEN, WHERE]),
    "notes beside all entries": ([NAMES, [*WHERE, "x"], [""], [*WHEN, "x"], [*WHERE, "y"]], [WHERE, WHEN, WHERE]),
    "a note beside the last entry": ([NAMES, WHERE, [""], [*WHEN, "alt"]], [WHERE, WHEN]),
    "questions with notes below a blank row": ([NAMES, WHERE, [""], [*WHEN, "a"], [*WHERE, "b"]], [WHERE, WHEN, WHERE]),
    "entries below a blank row": ([NAMES, WHERE, [""], WHEN], [WHERE, WHEN]),
}
"""Name -> rows, and those that are read: another table below the first one has its names in more columns."""


@pytest.mark.parametrize("name", BELOW)
@pytest.mark.parametrize("file", ["FAQ.xlsx", "exported.csv"])
def test_another_table_below_is_none_of_ours(
    name: str, file: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows, expected = BELOW[name]
    read = read_faq(save(tmp_path / file, rows))
    assert [[entry.question, entry.answer] for entry in read] == expected
    n_others = sum(row == SHOPS[0] for row in rows)
    assert caplog.text.count("another table") == n_others
