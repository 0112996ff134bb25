"""The owner's commands: `feedback`, and `gaps` and `changes` on the database of a website."""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import Ended
from command_line import run as run_in
from conftest import TEXTS, write_faq
from owner_changes import append_change

pytest.importorskip("sqlalchemy", reason="the extra serve is not installed")

from haystack import Document

from ap_ranker.data.faq import read_faq
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web.changes import Action, Change, apply_changes, read_changes
from ap_ranker.web.database import Database, open_database, place_of
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.question_log import QuestionLog
from ap_ranker.web.visitors import Visitors

SECRET = "Erika, order 4711, \x1b[31m where is my parcel"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A FAQ, and beside it the database of its website."""
    write_faq(tmp_path / "FAQ.csv")
    return tmp_path


@pytest.fixture
def website(folder: Path) -> Database:
    return open_database(str(folder / "FAQ.db"))


def run(folder: Path, *arguments: object) -> Ended:
    ended = run_in(*arguments, folder=folder)
    assert ended.code == 0, ended.errors
    return ended


def feedback(folder: Path, name: str, *arguments: object) -> str:
    return run(folder, "owner", "feedback", name, *arguments, "--database", "FAQ.db").output


def refusal(folder: Path, *arguments: object) -> str:
    """The message of a command that is refused, which changes nothing."""
    before = contents(folder)
    ended = run_in(*arguments, folder=folder)
    assert ended.code == 2, ended
    assert contents(folder) == before
    return " ".join(ended.errors.split())


def contents(folder: Path) -> dict[str, bytes]:
    """Of all files but those that SQLite keeps beside a database in use."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))}


def judge(website: Database, question: str = SECRET, **given: object) -> None:
    network = Visitors(website).network(str(given.pop("address", "192.0.2.7")), str(given.pop("identity", "")))
    judgement: dict[str, object] = {"answer": TEXTS[1], "stored_question": TEXTS[0], "helped": True, "network": network}
    Judgements(website).keep(question=question, **judgement | given)  # type: ignore[arg-type]


def ask(website: Database, *asked: str) -> None:
    log = QuestionLog(website)
    for question in asked:
        log.add(question, "n", Outcome.NONE, [])
    log.close()


def count(folder: Path, table: str) -> int:
    with closing(sqlite3.connect(folder / "FAQ.db")) as connection:
        return int(connection.execute(f"select count(*) from ap_ranker_{table}").fetchone()[0])


def test_what_visitors_said_is_listed(folder: Path, website: Database) -> None:
    for visit, address, helped in (("a", "192.0.2.7", True), ("b", "192.0.2.8", True), ("c", "198.51.100.7", False)):
        judge(website, visit=visit, address=address, helped=helped)

    listed = feedback(folder, "list")

    lines = [line.strip("│").split("│") for line in listed.splitlines() if line.startswith("│")]  # wrapped or not
    cells = [" ".join("".join(f"{part.strip()} " for part in column).split()) for column in zip(*lines, strict=True)]
    assert "4711" in cells[0]
    assert cells[1:5] == [TEXTS[0], "2", "1", "2"]
    assert "\x1b" not in listed


def test_what_visitors_were_looking_for_is_listed(folder: Path, website: Database) -> None:
    judge(website, helped=False, comment="a [b]red[/] \x1b[31mbike")

    listed = feedback(folder, "list")

    cells = [line.strip("│").split("│")[6].strip() for line in listed.splitlines() if line.startswith("│")]
    assert " ".join(cells).split() == ["a", "[b]red[/]", "[31mbike"]
    assert "\x1b" not in listed


def test_what_is_exported_trains(folder: Path, website: Database) -> None:
    judge(website, "has the courier lost it")  # no near copy of a dev question

    feedback(folder, "export", "said.jsonl")

    command = ("train", "FAQ.csv", "--output", "c", "--model", "bm25", "--dev", "FAQ.csv", "--device", "cpu")
    assert "1 questions that users' feedback answers" in run(folder, *command, "--feedback", "said.jsonl").output


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_an_export_takes_the_place_of_an_earlier_one_alone(folder: Path, website: Database, ending: str) -> None:
    (folder / "pairs.jsonl").write_text('{"question": "a", "answer": "b", "label": 1}\n')
    for file in ("FAQ.csv", "pairs.jsonl"):  # as the argument of other commands is the FAQ
        assert "an earlier export, found another" in refusal(
            folder, "owner", "feedback", "export", file, "--database", "FAQ.db"
        )
    for row in range(2):
        feedback(folder, "export", f"said.{ending}")
        judge(website, visit=str(row))
    feedback(folder, "export", f"said.{ending}")
    assert (folder / f"said.{ending}").read_text().count("4711") == 2


@pytest.mark.parametrize(
    ("mine", "options"),
    [
        ({"visit": "v1"}, ("--visit", "v1")),
        ({"visit": "v1", "address": "203.0.113.9"}, ("--address", "203.0.113.77")),
        ({"visit": "v1", "address": "2001:db8:5:1::1"}, ("--address", "2001:db8:5:2::9")),
        ({"visit": "v1", "identity": "erika@example.com"}, ("--identity", "erika@example.com")),
        ({"visit": "v1", "identity": "j\xc3\xb6rg"}, ("--identity", "jörg")),  # a header's bytes, each a character
        ({"visit": "v1"}, ("--sentence", SECRET.upper())),
    ],
)
def test_one_visitor_or_sentence_is_deleted(
    folder: Path, website: Database, mine: dict[str, object], options: tuple[str, str]
) -> None:
    judge(website, **mine)
    judge(website, "somebody else", visit="v2")
    ask(website, SECRET, "somebody else")

    feedback(folder, "delete", *options)

    assert [record["question"] for record in Judgements(website).records()] == ["somebody else"]
    assert count(folder, "questions") == 1
    kept = b"".join(path.read_bytes() for path in folder.iterdir())
    assert not any(part in kept for part in (b"Erika", b"order 4711"))  # 4711 alone may be part of a hash


@pytest.mark.parametrize(
    "options", [(), ("--visit", "v", "--sentence", "x"), ("--address", "example.com"), ("--visit", "")]
)
def test_who_is_meant_must_be_clear(folder: Path, website: Database, options: tuple[str, ...]) -> None:
    judge(website)
    assert "--address" in refusal(folder, "owner", "feedback", "delete", "--database", "FAQ.db", *options)


def test_mistakes(folder: Path) -> None:
    for command in (("list",), ("export", "said.csv"), ("delete", "--visit", "v")):
        assert "FAQ.db" in refusal(folder, "owner", "feedback", *command, "--database", "FAQ.db")
    assert "FAQ.csv" in refusal(folder, "owner", "feedback", "list", "--database", "FAQ.csv")
    assert "postgresql://" in refusal(folder, "owner", "feedback", "list", "--database", "mysql://x/y")
    open_database(str(folder / "FAQ.db"))
    assert ".jsonl" in refusal(folder, "owner", "feedback", "export", "said.xlsx", "--database", "FAQ.db")


def test_where_a_database_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("hand.book", "data"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "FAQ.csv").touch()
    (tmp_path / "FAQ.csv").touch()
    url = "postgresql://somebody@host/name"
    for given, documents, place in [
        (None, "FAQ.csv", "FAQ.db"),
        (None, "data/FAQ.csv", "data/FAQ.db"),
        (None, "hand.book", "hand.book.db"),
        (None, "hand.book/", "hand.book.db"),
        (None, None, "ap-ranker.db"),
        ("", "FAQ.csv", "FAQ.db"),
        ("other.db", "FAQ.csv", "other.db"),
    ]:
        assert place_of(given, None if documents is None else Path(documents)) == str(tmp_path / place)
    assert place_of(None, Path()) == f"{tmp_path}.db"
    assert place_of(url, Path("FAQ.csv")) == url


def test_it_may_be_named_by_the_environment(folder: Path, website: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody sees its password."""
    judge(website)
    monkeypatch.setenv("AP_RANKER_DATABASE", "FAQ.db")
    assert "4711" in run(folder, "owner", "feedback", "list").output


# `gaps` and `changes`.


def test_what_the_faq_lacks(folder: Path, website: Database, checkpoint: Path) -> None:
    """With a model that has no vectors: an entry that the owner added answers, a visitor's click does not."""
    ask(website, "do you rent bikes", "Do you rent bikes?", "the tour", TEXTS[0], "dogs?")
    log = QuestionLog(website)
    log.add("where is my parcel now", "n", Outcome.ANSWER, [Document(content="an answer", score=0.9)])
    log.close()
    judge(website, "my bike's battery", visit="v", helped=False, answer=f"{TEXTS[0]}\n{TEXTS[1]}")
    judge(website, "the tour", visit="v")
    append_change(website, Change.make(Action.add_entry, question="Dogs?", answer="Welcome."))

    said = run(folder, "owner", "gaps", "FAQ.csv", "--model", checkpoint, "--output", "gaps.csv").output

    rows = list(csv.DictReader((folder / "gaps.csv").open(newline="")))
    assert [(row["question"].casefold().rstrip("?"), row["asked"]) for row in rows] == [
        ("do you rent bikes", "2"),
        ("my bike's battery", "1"),
        ("the tour", "1"),
    ]
    assert all(0 <= float(row["nearest_score"]) <= 1 for row in rows)
    assert "the tour" in said


def test_mistakes_of_gaps(folder: Path) -> None:
    (folder / "more.csv").write_text("question,answer\n")
    for options, message in [
        ([], "Expected the FAQ"),
        (["FAQ.csv"], "FAQ.db"),
        (["FAQ.csv", "--documents", "FAQ.csv"], "once"),
        (["FAQ.csv", "--output", "gaps.xlsx"], ".csv"),
        (["FAQ.csv", "--output", "./FAQ.csv"], "another file"),
        (["FAQ.csv", "--wordings", "more.csv", "--output", "more.csv"], "another file"),
    ]:
        assert message in refusal(folder, "owner", "gaps", *options)


def test_changes_become_the_faq(folder: Path, website: Database) -> None:
    """Listed, written, put in place, and cleared: what is searched is the same before and after."""
    faq = folder / "FAQ.csv"
    keys = [keyed.key for keyed in apply_changes(read_faq(faq), []).entries]
    made = [
        Change.make(Action.add_entry, question="Dogs?", answer="Welcome.", wordings=("my dog",), owner="Änne"),
        Change.make(Action.change_entry, entry=keys[0], question=TEXTS[0], answer="Look.", wordings=()),
        Change.make(Action.delete_entry, entry=keys[1]),
    ]
    for change in made:
        append_change(website, change)
    before = [(keyed.entry.question, keyed.entry.answer) for keyed in apply_changes(read_faq(faq), made).entries]
    assert "--output" in refusal(folder, "owner", "changes", "FAQ.csv", "--clear")

    listed = run(folder, "owner", "changes", "FAQ.csv", "--output", "NEW.csv").output
    (folder / "NEW.csv").replace(faq)
    run(folder, "owner", "changes", "FAQ.csv", "--clear")

    assert "Änne" in listed
    assert read_changes(website) == []
    assert [(entry.question, entry.answer) for entry in read_faq(faq)] == before
