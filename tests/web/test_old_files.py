"""Files of versions before the database are taken over: every line that is good, once, whatever stands beside it."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from ap_ranker.errors import InputError
from ap_ranker.web.changes import read_changes
from ap_ranker.web.database import Database, changes, judgements, open_database, questions
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.old_files import import_file, take_over
from ap_ranker.web.question_log import read_question_log

NOON = "2026-05-04T12:00:00+00:00"

SAID: list[dict[str, Any]] = [
    {
        "question": f"Wo ist mein Paket {number}?",
        "answer": "Open the link.\n中文 🚲",
        "label": number % 2,
        "stored_question": "Where is my parcel?",
        "visit": f"visit-{number}",
        "time": f"2026-05-04T12:00:{number:02}+00:00",
        "comment": "thanks" * (number % 3),
    }
    for number in range(30)
]
MADE: list[dict[str, Any]] = [
    {"id": "aaaaaaaaaaaa", "time": NOON, "action": "add entry", "question": "Dogs?", "answer": "Welcome."},
    {"id": "b", "time": NOON, "action": "add wordings", "entry": "aaaaaaaaaaaa", "of": "Dogs?", "wordings": ["my dög"]},
    {"id": "c", "time": NOON, "action": "change entry", "entry": "aaaaaaaaaaaa", "question": "", "answer": "No."},
    {"id": "d", "time": NOON, "action": "undo", "undone": "c"},
    {"id": "e", "time": NOON, "action": "delete entry", "entry": "0123456789abcdef", "of": "Refund?"},
]
ASKED: list[dict[str, Any]] = [
    {"time": NOON, "question": f"do you rent {what}", "outcome": outcome, "score": score, "entry": "5f0c"}
    for what, outcome, score in (("bikes", "refused", 0.31), ("canoes", "nothing found", None), ("it", "answered", 0.9))
]
FORMER = {"feedback.jsonl": SAID, "changes.jsonl": MADE, "questions.jsonl": ASKED}

NO_LINES = [
    b"",
    b"  ",
    b'{"question": "half a li',
    b"not JSON",
    b"[1, 2]",
    b"null",
    b"\xff\xfe\x00",
    b'{"question": ""}',
    b"[" * 100_000,
    b'{"time": "yesterday", "question": 3, "id": 4}',
    b'{"question": "q", "answer": "a", "label": 2}',
    b'{"id": "x", "action": "add entry"}',
    b'{"id": "x", "action": "destroy", "entry": "a"}',
    b'{"time": "0001-01-01T00:00:00", "question": "q", "answer": "a", "label": 7, "outcome": "lost"}',
]


@pytest.fixture
def website(place: str) -> Database:
    return open_database(place)


def write(folder: Path, *, beside: list[bytes] = []) -> dict[str, bytes]:  # noqa: B006  it is only read
    """The files of an earlier version, with other lines between theirs."""
    for name, rows in FORMER.items():
        lines = [json.dumps(row, ensure_ascii=False).encode() for row in rows]
        mixed = [part for number, line in enumerate(lines) for part in (*beside[number::3], line)]
        (folder / name).write_bytes(b"\n".join([*mixed, *beside]) + b"\n")
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


def seconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())


def expect_all(website: Database) -> None:
    """Judgements and changes are there, field by field."""
    with website.reading() as connection:
        said = connection.execute(select(judgements)).mappings().all()
        made = connection.execute(select(changes).order_by(changes.c.number)).mappings().all()
    names = ("question", "answer", "stored_question", "visit", "comment")
    found = [{name: row[name] for name in names} | {"label": row["helped"], "time": row["time"]} for row in said]
    assert sorted(found, key=str) == sorted(({**row, "time": seconds(row["time"])} for row in SAID), key=str)
    blank = {"entry": "", "of": "", "question": "", "answer": "", "wordings": [], "undone": "", "owner": ""}
    expected = [blank | row | {"time": seconds(row["time"])} for row in MADE]
    assert [{**row, "wordings": json.loads(row["wordings"])} for row in made] == [
        {"number": number, **row} for number, row in enumerate(expected, 1)
    ]


@pytest.mark.parametrize("beside", [[], NO_LINES], ids=["sound", "damaged"])
def test_every_good_line_is_there(website: Database, tmp_path: Path, beside: list[bytes]) -> None:
    before = write(tmp_path, beside=beside)

    take_over(website, tmp_path)

    expect_all(website)
    assert [change.id for change in read_changes(website)] == ["aaaaaaaaaaaa", "b", "c", "d", "e"]
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.jsonl")} == before


def test_lines_that_are_none_are_counted_and_named(
    website: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [json.dumps(SAID[0]), "not JSON", json.dumps(SAID[1]), "", *["{}"] * 9]
    (tmp_path / "feedback.jsonl").write_text("\n".join(lines))
    caplog.set_level(logging.INFO)

    take_over(website, tmp_path)

    [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "feedback.jsonl" in warning
    assert "10 lines" in warning
    assert "2, 5, 6" in warning
    assert len(list(Judgements(website).records())) == 2


def test_it_happens_once(website: Database, place: str, tmp_path: Path) -> None:
    """So that nothing that was deleted comes back, and an export in the folder is not taken for an old file."""
    write(tmp_path)
    take_over(website, tmp_path)
    later = SAID[0] | {"question": "later", "visit": "later"}
    (tmp_path / "feedback.jsonl").write_text(json.dumps(later) + "\n")
    website.close()
    open_database.cache_clear()

    take_over(open_database(place), tmp_path)

    expect_all(open_database(place))


def test_a_new_database_without_old_files_takes_no_later_ones(website: Database, tmp_path: Path) -> None:
    take_over(website, tmp_path)
    write(tmp_path)

    take_over(website, tmp_path)

    assert not list(Judgements(website).records())
    assert not read_changes(website)


def test_servers_that_start_at_once_take_them_over_once(website: Database, tmp_path: Path) -> None:
    write(tmp_path)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: take_over(website, tmp_path, tmp_path / "."), range(4)))

    expect_all(website)


def test_what_cannot_be_read_stops_nothing_and_waits(
    website: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("ap_ranker.web.old_files.open_file", refuse)
        take_over(website, tmp_path)
    assert "feedback.jsonl" in caplog.text
    assert not list(Judgements(website).records())

    take_over(website, tmp_path)

    expect_all(website)


def test_a_visit_judges_an_answer_once(website: Database, tmp_path: Path) -> None:
    """The last line counts, an earlier comment stays; visits without an id counted as one, once with either label."""
    same = {"question": "q", "answer": "a", "time": NOON}
    lines = [same | {"label": 1, "visit": "v", "comment": "so good"}, same | {"label": 0, "visit": "v"}]
    lines += [same | {"label": label} for label in (1, "1", 0)]
    (tmp_path / "feedback.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    import_file(website, "judgements", tmp_path / "feedback.jsonl")

    found = [(record["label"], record["comment"]) for record in Judgements(website).records()]
    assert sorted(found) == [(0, ""), (0, "so good"), (1, "")]


def test_a_log_of_questions_with_its_older_files(website: Database, tmp_path: Path) -> None:
    numbered = [ASKED[0] | {"question": f"question {number}"} for number in range(6)]
    for suffix, row in zip((".4", ".3", ".2", ".1", "", ""), numbered, strict=True):
        with (tmp_path / f"log.jsonl{suffix}").open("a") as file:
            file.write(json.dumps(row) + "\n")

    import_file(website, "questions", tmp_path / "log.jsonl")

    assert [one.question for one in read_question_log(website)] == [row["question"] for row in numbered]


def test_questions_of_one_second_are_different_ones(website: Database, tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text((json.dumps(ASKED[0]) + "\n") * 3)

    for _ in range(2):  # the second time, all are there
        import_file(website, "questions", tmp_path / "questions.jsonl")

    with website.reading() as connection:
        columns = [questions.c[name] for name in ("time", "question", "outcome", "score", "entry")]
        rows = connection.execute(select(*columns)).all()
    assert rows == [(seconds(NOON), "do you rent bikes", "none", 0.31, "5f0c")] * 3


@pytest.mark.parametrize(("part", "name"), zip(("judgements", "changes", "questions"), FORMER, strict=True))
def test_taking_a_file_over_again_adds_nothing(website: Database, tmp_path: Path, part: str, name: str) -> None:
    write(tmp_path)

    for _ in range(2):
        import_file(website, part, tmp_path / name)

    table = {"judgements": judgements, "changes": changes, "questions": questions}[part]
    with website.reading() as connection:
        assert len(connection.execute(select(table)).all()) == len(FORMER[name])


def test_a_named_file_that_is_not_there(website: Database, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl"):
        import_file(website, "judgements", tmp_path / "none.jsonl")


def test_a_later_start_changes_nothing(place: str, tmp_path: Path) -> None:
    """Else every start would make all servers read their documents again."""
    database = open_database(place)
    for name, lines in FORMER.items():
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    take_over(database, tmp_path)
    parts = "judgements", "changes", "questions"
    before = [database.revision(part) for part in parts]

    take_over(database, tmp_path)

    assert [database.revision(part) for part in parts] == before
