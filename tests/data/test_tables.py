from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import absent, refused

from ap_ranker.data.column_names import find_pair
from ap_ranker.data.rows import stripped
from ap_ranker.data.tables import read_table
from ap_ranker.documents import read_documents
from ap_ranker.files import csv_text

RECORDS = [
    {"question": "Why, though?", "answer": "Because."},
    {"question": 'A "quoted" one', "answer": "Zwei\nZeilen ü"},
]
CSV = 'question,answer\n"Why, though?",Because.\n"A ""quoted"" one","Zwei\nZeilen ü"\n'


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_formats_agree(tmp_path: Path, ending: str, zipped: bool) -> None:
    path = tmp_path / f"data.{ending}"
    if ending == "csv":
        path.write_text(CSV, encoding="utf-8")
    elif ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, RECORDS)) + "\n\n", encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_pylist(RECORDS), path)
    if zipped:
        content, path = path.read_bytes(), tmp_path / f"data.{ending}.gz"
        path.write_bytes(gzip.compress(content))
    table = read_table(path)
    assert table.columns == ("question", "answer")
    assert [row.fields for row in table.rows] == RECORDS


def test_tsv_keeps_quotation_marks(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('aid\tanswer\n1\t"Gap" refers to\n2\tx "y\n')
    assert [row.fields["answer"] for row in read_table(tmp_path / "a.tsv").rows] == ['"Gap" refers to', 'x "y']


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfquestion,answer\r\nq,a\r\n")
    assert read_table(tmp_path / "a.csv").rows[0].fields == {"question": "q", "answer": "a"}


def test_rows_of_white_space_are_blank(tmp_path: Path) -> None:
    """As a spreadsheet leaves them where somebody has typed a space."""
    (tmp_path / "a.csv").write_text("question,answer\n  ,\t\n \nq,a\n , \n")
    assert [row.fields for row in read_table(tmp_path / "a.csv").rows] == [{"question": "q", "answer": "a"}]


@pytest.mark.parametrize("above", ["\n", "  \n;;\r\n", "sep=;\n\n", '""\n', '"";""\n'])
def test_rows_above_the_header_may_be_blank(above: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(above.encode() + b"question;answer\nq;a, b\n")
    [row] = read_table(tmp_path / "a.csv").rows
    assert row.fields == {"question": "q", "answer": "a, b"}
    assert row.place.endswith(f"line {2 + above.count(chr(10))}")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@given(data=st.data())
def test_the_delimiter_is_found(delimiter: str, ends: str, data: st.DataObject) -> None:
    """Whatever the texts hold: only the header tells."""
    text = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\\"))  # no escaped line end
    cells = st.tuples(text, text).filter(lambda row: any(map(stripped, row)) and not find_pair(row))  # "Q", "A"
    rows = data.draw(st.lists(cells, min_size=1))
    header = ("Frage, lang; ja", "Antwort")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, lineterminator=ends, quoting=csv.QUOTE_ALL)
            writer.writerows([header, *rows])
        assert [tuple(row.fields.items()) for row in read_table(path).rows] == [
            tuple(zip(header, row, strict=True)) for row in rows
        ]


@pytest.mark.parametrize(
    ("content", "answers"),
    [
        ('"question", "answer"\n"How, then?", "So, or so."\n"Where?",  "The ""hall"""\n', ["So, or so.", 'The "hall"']),
        ('question, answer\n"How, then?", "So, or so."\n"Where?", Here.\n', ["So, or so.", "Here."]),
        (
            'question;answer\n"How; so?"; "So; or so."\n"Where?"; "Here,\nor there"\n',
            ["So; or so.", "Here,\nor there"],
        ),
        ('"question", "answer"\nHow?, "So."\nWhere?, Here.\n', ["So.", "Here."]),
        # Texts with quotation marks behind a space:
        ('question,answer\nHow?, "So" they say\nWhere?, "Here" or there\n', ['"So" they say', '"Here" or there']),
        ('question,answer\nHow?,"They say, ""So""."\nWhere?,Here.\n', ['They say, "So".', "Here."]),
    ],
)
def test_spaces_before_quotation_marks(content: str, answers: list[str], tmp_path: Path) -> None:
    """As people write CSV by hand, and as some programs do."""
    (tmp_path / "a.csv").write_text(content)
    rows = [row.fields for row in read_table(tmp_path / "a.csv").rows]
    assert [row["answer"].strip() for row in rows] == answers
    assert rows[1]["question"] == "Where?"


@pytest.mark.parametrize("header", ["question;answer,x", "a\tb;c", '"a;b";c,d'])
def test_several_delimiters_are_refused(tmp_path: Path, header: str) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n1;2,3\n")
    with refused("a.csv, line 1"):
        read_table(tmp_path / "a.csv")


@pytest.mark.parametrize("above", ["sep=;\n\n", "\n\n", "FAQ\n\n"])
def test_several_delimiters_below_other_lines(tmp_path: Path, above: str) -> None:
    (tmp_path / "a.csv").write_text(f"{above}question;answer,x\n1;2,3\n")
    with refused("a.csv, line 3"):
        read_table(tmp_path / "a.csv")


@pytest.mark.parametrize("above", ["FAQ;;\n", '"FAQ, 2026\nof the shop";;\n\n;as of May;\n'])
def test_titles_may_stand_above_the_header(above: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a spreadsheet with a title is saved as."""
    path, line = tmp_path / "FAQ.csv", above.count("\n") + 1
    path.write_text(above + 'Nr;Frage;Antwort\n1;Wo?;"Hier;\ndort"\n;;\n2;Wann?;Jetzt\n')
    with caplog.at_level(logging.INFO):
        rows = read_table(path).rows
    assert [(row.get("Frage"), row.get("Antwort")) for row in rows] == [("Wo?", "Hier;\ndort"), ("Wann?", "Jetzt")]
    assert [row.place for row in rows] == [f"{path}, line {line + 2}", f"{path}, line {line + 4}"]
    assert not absent(f"FAQ.csv … line {line}", caplog.text)


def test_a_line_of_several_names_is_no_title(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a;b;c\nquestion;answer;x\n1;2;3\n")
    assert [*read_table(tmp_path / "x.csv").rows[0].fields] == ["a", "b", "c"]
    (tmp_path / "x.csv").write_text("FAQ;;\n" * 4 + "question;answer;x\n1;2;3\n")
    with refused("line 5 … 1 … FAQ … 3"):
        read_table(tmp_path / "x.csv")


def test_cells_that_only_have_a_format_are_no_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question;answer;;\nq;a;;\n;;;\n")
    assert [row.fields for row in read_table(tmp_path / "a.csv").rows] == [{"question": "q", "answer": "a"}]
    (tmp_path / "a.csv").write_text("ask;say;;\nu;v;;more\n")
    with refused("line 2 … 2 … ask, say … 4"):
        read_table(tmp_path / "a.csv")


def test_lists_of_ids_in_json(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"qid": 7, "answer_ids": ["a1", 2], "answerable": true, "x": null}\n')
    fields = read_table(tmp_path / "a.jsonl").rows[0].fields
    assert fields == {"qid": "7", "answer_ids": "a1 2", "answerable": "1", "x": ""}


def test_an_answer_longer_than_the_csv_modules_limit(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question,answer\nq," + "long " * 50_000 + "\n")
    assert len(read_table(tmp_path / "a.csv").rows[0].get("answer")) == 249_999


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("a.csv", b"", "row … none"),
        ("a.csv", b"question,answer\n", "row … none"),
        ("a.csv", b"question,answer\nq,a\nq,\xff\xfe\n", "line 3 … UTF-8 … 0xff"),
        ("a.csv", b"ask,say\nq\n", "line 2 … 2 … ask, say … 1"),
        ("a.tsv", b"question\tanswer\nq\ta\tb\n", "line 2 … 2 … 3"),
        ("a.csv", b'question,answer\nq,"open\n', "line 2"),
        ("a.jsonl", b'{"question": "q"\n', "line 1 … JSON"),
        ("a.jsonl", b'["q"]\n', "line 1 … JSON … list"),
        ("a.jsonl", b'{"a": 1, "b": 2}\n{"a": 1}\n', "line 2 … b"),
        ("a.parquet", b"nonsense", "Parquet"),
        ("a.csv.gz", b"nonsense", "gzip"),
        ("a.csv.gz", gzip.compress(b"question,answer\n" * 99, mtime=0)[:-9], "gzip"),
        ("a.ods", b"PK", "spreadsheet"),
        ("a.numbers", b"PK", ".csv, .tsv, .jsonl, .json, .yml, .yaml, .parquet, .xlsx, .xls, .ods … .xlsx"),
        ("a.json", b'{"question": "q"', "JSON … array"),
        ("a.json", b'["q"]', "JSON … array … str"),
        ("a.json", b"[]", "row … none"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, facts: str) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(f"{tmp_path / name} … {facts}"):
        read_table(tmp_path / name)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1) | st.sampled_from(
    ["\r", "a\rb", '"', ";"]
)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_what_is_written_is_read(pairs: list[tuple[str, str]]) -> None:
    pairs = [pair for pair in pairs if any(map(stripped, pair))] or [
        ("q", "a")
    ]  # rows without visible characters are blank
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        path.write_text(csv_text(["question", "answer"], pairs), encoding="utf-8", newline="")
        assert [tuple(row.fields.values()) for row in read_table(path).rows] == pairs


def test_missing_file() -> None:
    with refused("nowhere.csv"):
        read_table(Path("nowhere.csv"))


@pytest.mark.parametrize("line", ["sep=;", "sep=;;;", '"sep=;"', "SEP=;"])
def test_the_line_that_tells_excel_what_separates(line: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{line}\r\nFrage;Antwort\r\nWo?;Hier.\r\nzu viel;a;b\r\n", encoding="utf-8-sig")
    with refused("a.csv, line 4 … 2"):
        read_table(path)
    path.write_text(f"{line}\r\nFrage;Antwort\r\nWo?;Hier.\r\n", encoding="utf-8-sig")
    [row] = read_table(path).rows
    assert row.fields == {"Frage": "Wo?", "Antwort": "Hier."}
    assert row.place.endswith("line 3")


def test_vertical_bars_separate_fields(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question|answer\nWhere, when?|Here; now.\n")
    assert [row.fields for row in read_table(path).rows] == [{"question": "Where, when?", "answer": "Here; now."}]


PIPE = '5" pipe'
QUOTED = {
    "a line break": ('q1\t"one\ntwo"\nq2\tthree\n', [("q1", "one\ntwo"), ("q2", "three")]),
    "a windows line break": ('q1\t"one\r\ntwo"\r\nq2\tthree\r\n', [("q1", "one\r\ntwo"), ("q2", "three")]),
    "an empty line": ('q1\t"one\n\ntwo"\n', [("q1", "one\n\ntwo")]),
    "in the first column": ('"one\ntwo"\ta\nq2\tb\n', [("one\ntwo", "a"), ("q2", "b")]),
    "in the last row, without an end": ('q1\ta\nq2\t"one\ntwo"', [("q1", "a"), ("q2", "one\ntwo")]),
    "a tab": ('q1\t"one\ttwo"\n', [("q1", "one\ttwo")]),
    "a doubled mark": ('q1\t"say ""hi"" now"\nq2\t"plain"\n', [("q1", 'say "hi" now'), ("q2", "plain")]),
    "only a doubled mark": ('q1\t""""\n', [("q1", '"')]),
    "all of it": ('q1\t"one\t""two""\n\nthree"\n', [("q1", 'one\t"two"\n\nthree')]),
    "beside an inch": (f'q1\t{PIPE}\nq2\t"one\ntwo"\n', [("q1", PIPE), ("q2", "one\ntwo")]),
    "beside an inch that is quoted": ('q1\t"5"" pipe"\nq2\tb\n', [("q1", PIPE), ("q2", "b")]),
}
PLAIN = {
    "an inch": (f"q1\t{PIPE}\nq2\tb\n", [("q1", PIPE), ("q2", "b")]),
    "a word at the beginning": ('q1\t"Gap" refers to\nq2\tb\n', [("q1", '"Gap" refers to'), ("q2", "b")]),
    "an opening mark": ('q1\t"open\nq2\tb\n', [("q1", '"open'), ("q2", "b")]),
    "an opening mark in the last row": ('q1\ta\nq2\t"open', [("q1", "a"), ("q2", '"open')]),
    "closed in another row": ('q1\t"open\nq2\tb\nq3\tclose"\n', [("q1", '"open'), ("q2", "b"), ("q3", 'close"')]),
    "closed in another column": ('"q1\ta"\nq2\tb\n', [('"q1', 'a"'), ("q2", "b")]),
    "inches in two rows": (f"q1\t{PIPE}\nq2\t{PIPE}\n", [("q1", PIPE), ("q2", PIPE)]),
    "a whole answer": ('q1\t"Yes."\nq2\t"No."\n', [("q1", '"Yes."'), ("q2", '"No."')]),
    "a doubled mark and an inch": (f'q1\t"a ""b"""\nq2\t{PIPE}\n', [("q1", '"a ""b"""'), ("q2", PIPE)]),
    "empty quotes": ('q1\t""\nq2\tb\n', [("q1", '""'), ("q2", "b")]),
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(("body", "pairs"), (QUOTED | PLAIN).values(), ids=(QUOTED | PLAIN).keys())
def test_quotation_marks_of_a_tsv(body: str, pairs: list[tuple[str, str]], zipped: bool, tmp_path: Path) -> None:
    """A field that is quoted as in a CSV file is read so; any other mark is a character of a text."""
    content = f"question\tanswer\n{body}".encode()
    path = tmp_path / ("a.tsv.gz" if zipped else "a.tsv")
    path.write_bytes(gzip.compress(content) if zipped else content)
    assert [tuple(row.fields.values()) for row in read_table(path).rows] == pairs


@pytest.mark.parametrize("kind", [kind for kind in QUOTED if "inch" not in kind or "quoted" in kind])
def test_quoted_as_in_a_csv(kind: str, tmp_path: Path) -> None:
    content = f"question\tanswer\n{QUOTED[kind][0]}".encode()
    for name in ("a.tsv", "a.csv"):
        (tmp_path / name).write_bytes(content)
    tsv, comma = (read_table(tmp_path / name).rows for name in ("a.tsv", "a.csv"))
    assert [row.fields for row in tsv] == [row.fields for row in comma]
    assert [row.place.partition(", ")[2] for row in tsv] == [row.place.partition(", ")[2] for row in comma]


MARKED = st.lists(st.sampled_from(['"', '"', "a", "\t", "\n"]), min_size=1, max_size=6).map("".join)


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@given(st.lists(st.tuples(TEXT | MARKED, TEXT | MARKED), min_size=1, max_size=5))
def test_what_another_program_writes_as_tsv(quoting: int, pairs: list[tuple[str, str]]) -> None:
    """Unless a text has a tab and a line break so that each line looks like a row."""
    pairs = [tuple(text.replace("\r", "\n").replace("\t", " ") for text in pair) for pair in pairs]
    pairs = [pair for pair in pairs if any(map(stripped, pair))] or [
        ("q", "a")
    ]  # rows without visible characters are blank
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tsv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t", quoting=quoting, lineterminator="\n")
            writer.writerows([("question", "answer"), *pairs])
        assert [tuple(row.fields.values()) for row in read_table(path).rows] == pairs


def test_a_quoted_header_tells_that_fields_are_quoted(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('"question"\t"answer"\n"q1"\t"Yes."\n')
    assert [row.fields for row in read_table(tmp_path / "a.tsv").rows] == [{"question": "q1", "answer": "Yes."}]


def test_a_text_with_a_bare_delimiter_says_how_to_write_it(tmp_path: Path) -> None:
    path = tmp_path / "faq.csv"
    path.write_text("question,answer\nWhere is it?,In Bern, at the station\n")
    with refused("faq.csv, line 2 … ',' … quotation marks"):
        read_table(path)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (f"q1\t{PIPE}\nq2\tb\tc\nq3\t{PIPE}\n", 3),
        ('q1\t"open\nq2\tb\tc\nq3\td\n', 3),
        ('q1\t"one\ntwo"\nq2\tb\tc\n', 4),
        ('q1\t"one\ntwo"\nq2\t"open\n', 4),
    ],
)
def test_a_faulty_row_is_named_beside_quotation_marks(body: str, line: int, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(f"question\tanswer\n{body}")
    with refused(f"a.tsv, line {line}"):
        read_table(tmp_path / "a.tsv")


FORMULA_SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20"
FORMULAS = (
    *(f"{sign}cmd|'/c calc'!A0" for sign in FORMULA_SIGNS),
    ";=cmd|'/c calc'!A0",
    "Is it open? ; @SUM(A1)",
    'she said "=1+1"',
    'closes";=1+1;"',
    "\t=1+1",
    "\r\n=1+1",
    " =1+1",
    "two\n=1+1",
    "a|=1+1",
    "x,,-1",
    "- first item\n- second item",
    "+49 30 1234",
    "\u200b=1+1",
    "a;\u202e\ufeff @SUM(A1)",
)
UNSEEN = dict.fromkeys(map(ord, "\u200b\u202e\ufeff"))
"""What a program may leave out."""


def cells_of(content: str) -> Iterator[str]:
    """The cells that spreadsheets make of a CSV file, whatever they split at, with quotation marks or without."""
    for separator in ",;\t|":
        yield from (cell for row in csv.reader(io.StringIO(content, newline=""), delimiter=separator) for cell in row)
        yield from (cell for line in re.split(r"[\r\n]", content) for cell in line.split(separator))


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_becomes_a_formula(text: str, tmp_path: Path) -> None:
    columns = ("question", "answer", "-b")
    content = csv_text(columns, [(text, "a", text), ("q", text, "c")])
    for cell in cells_of(content):
        assert cell.translate(UNSEEN).strip().lstrip('"').strip()[:1] not in tuple(FORMULA_SIGNS), cell
        assert cell[:1] not in ("\t", "\r"), cell
    (tmp_path / "a.csv").write_bytes(content.encode())
    rows = [row.fields for row in read_table(tmp_path / "a.csv").rows]
    assert rows == [dict(zip(columns, each, strict=True)) for each in ((text, "a", text), ("q", text, "c"))]


def test_texts_come_back_as_they_were(tmp_path: Path) -> None:
    """Also those that look as if they had been guarded already."""
    drawing, letters = random.Random(0), ["=", "-", ";", ",", '"', "\t", "\r", "\n", " ", "\u02bc", "a", "'", "\uff0b"]
    texts = ["x" + "".join(drawing.choices(letters, k=drawing.randrange(7))) for _ in range(2000)]
    texts += [text[1:] + "x" for text in texts]
    (tmp_path / "a.csv").write_bytes(csv_text(["n", "text"], [("1", text) for text in texts]).encode())
    assert [row.fields["text"] for row in read_table(tmp_path / "a.csv").rows] == texts


def test_the_ending_that_windows_hides(tmp_path: Path) -> None:
    (tmp_path / "FAQ.csv.txt").write_text("question,answer\nWhere?,Here.\n")
    assert [row.fields for row in read_table(tmp_path / "FAQ.csv.txt").rows] == [
        {"question": "Where?", "answer": "Here."}
    ]


@pytest.mark.parametrize(
    "name", ["FAQ.CSV", "FAQ.CSV.GZ", "FAQ.csv.Gz", "FAQ.CSV.TXT", "FAQ.TSV.txt", "FAQ.Csv.Txt.gz"]
)
def test_endings_in_capitals(name: str, tmp_path: Path) -> None:
    content = b"question\tanswer\nWhere?\tHere.\n"
    if name.lower().endswith("gz"):
        content = gzip.compress(content)
    (tmp_path / name).write_bytes(content)
    assert [entry.answer for entry in read_documents(tmp_path / name).entries] == ["Here."]


@pytest.mark.parametrize("ending", ["JSONL", "JSON", "YML", "YAML"])
@pytest.mark.parametrize("zipped", [False, True])
def test_endings_of_json_in_capitals(ending: str, zipped: bool, tmp_path: Path) -> None:
    content = b'{"question": "Where?", "answer": "Here."}'
    path = tmp_path / f"FAQ.{ending}"
    if zipped:
        content, path = gzip.compress(content), path.with_name(f"{path.name}.GZ")
    path.write_bytes(content)
    assert [entry.answer for entry in read_documents(path).entries] == ["Here."]
