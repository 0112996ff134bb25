"""What visitors left: exported for its owner, deleted on request so that no file holds it, deleted in time."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from owner_changes import append_change
from sqlalchemy import create_engine, insert, select

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import Entry
from ap_ranker.data.feedback import add_feedback
from ap_ranker.data.reader import read_dataset
from ap_ranker.errors import InputError
from ap_ranker.text.question_parts import question_parts
from ap_ranker.web import database as database_module
from ap_ranker.web.changes import Action, Change, KeyedEntry, read_changes
from ap_ranker.web.database import (
    Database,
    decisions,
    judgements,
    metadata,
    now,
    open_database,
    questions,
    quotas,
    sessions,
)
from ap_ranker.web.judgements import Judgements, key_of_answer, key_of_question
from ap_ranker.web.question_log import clean_question
from ap_ranker.web.retention import delete_older
from ap_ranker.web.traces import delete_traces, export_judgements
from ap_ranker.web.visitors import DAY, Visitors

from .bytes_on_disk import bytes_of
from .visiting import log_unanswered, logged_questions

SECRET = "Erika Mustermann, order 4711: where is my parcel"
ANSWER = "Open the tracking link."


def judge(website: Database, question: str = SECRET, **given: Any) -> None:
    judgement = {"answer": ANSWER, "stored_question": "Parcel?", "helped": True, "network": "n", "visit": "v"}
    Judgements(website).keep(question=question, **judgement | given)


def decide(website: Database, question: str, when: int | None = None, *, accepted: bool = True) -> None:
    row = {"question_key": key_of_question(question), "answer_key": key_of_answer(ANSWER)}
    row |= {"change": "", "owner": "Jo", "question": question}
    if accepted:
        row |= {"change": "id", "owner": "", "question": ""}
    with website.writing("decisions") as connection:
        connection.execute(insert(decisions).values(**row, time=now() if when is None else when))


def rows_with(website: Database, text: str) -> list[str]:
    """The tables of which a row holds a text."""
    with website.reading() as connection:
        return [name for name, table in metadata.tables.items() if text in str(connection.execute(select(table)).all())]


# What is exported.


def test_training_reads_what_is_exported(website: Database, tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text(f"question,answer\nParcel?,{ANSWER}\nRefund?,Soon.\n")
    judge(website, comment="=cmd|' /C calc'!A0")
    judge(website, "no good", visit="w", helped=False)
    for name in ("said.jsonl", "said.csv"):
        assert export_judgements(website, tmp_path / name) == 2

        training = read_dataset(tmp_path / "faq.csv", "train")
        learnt = add_feedback(training, Dataset("dev", [], []), tmp_path / name)
        new = {question.text for question in learnt.questions} - {question.text for question in training.questions}
        assert new == {SECRET}


def test_both_kinds_of_export_say_the_same(website: Database, tmp_path: Path) -> None:
    for text in (SECRET, 'with "quotes", a comma\nand a line', "中文 🚲"):
        judge(website, text, visit=text[:5], comment="thank you, all")
    for name in ("said.jsonl", "said.csv"):
        export_judgements(website, tmp_path / name)

    with (tmp_path / "said.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [{name: str(value) for name, value in line.items()} for line in lines] == table
    assert {row["question"] for row in table} == {SECRET, 'with "quotes", a comma\nand a line', "中文 🚲"}


@pytest.mark.parametrize("words", ["=1+2", "+1", "-1", "@a", "\t=1", "\r=1"])
def test_no_spreadsheet_computes_what_visitors_wrote(website: Database, tmp_path: Path, words: str) -> None:
    judge(website, helped=False, comment=words)
    export_judgements(website, tmp_path / "said.csv")

    with (tmp_path / "said.csv").open(newline="", encoding="utf-8") as file:
        [row] = csv.DictReader(file)
    assert row["comment"].lstrip()[0] not in "=+-@"


@pytest.mark.parametrize("name", ["said.jsonl", "said.csv"])
def test_only_its_user_reads_an_export(website: Database, tmp_path: Path, name: str) -> None:
    judge(website)
    before = os.umask(0)
    try:
        export_judgements(website, tmp_path / name)
        assert os.umask(0) == 0  # as it was
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_an_export_without_judgements(website: Database, tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text(f"question,answer\nParcel?,{ANSWER}\n")
    training = read_dataset(tmp_path / "faq.csv", "train")
    assert export_judgements(website, tmp_path / "said.jsonl") == export_judgements(website, tmp_path / "said.csv") == 0
    learnt = add_feedback(training, Dataset("dev", [], []), tmp_path / "said.jsonl")
    assert learnt.questions == training.questions


@pytest.mark.parametrize("name", ["said", "said.xlsx", "faq.db"])
def test_other_endings_are_refused(website: Database, tmp_path: Path, name: str) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"\.jsonl or \.csv"):
        export_judgements(website, tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == before


# What is deleted on request.


def test_a_sentence_is_gone_from_every_file(website: Database, place: str) -> None:
    """Also in other cases and white space, as a comment, as a wording that the owner accepted, while others use it."""
    other = Database(create_engine(website.engine.url), "")  # another server
    for number in range(50):  # so that the tables have several pages
        judge(website, f"question {number} of somebody else", visit=f"v{number}", network=f"n{number}", comment="hello")
    judge(website, SECRET.replace(",", " ,"))
    judge(website, "my parcel", visit="w", comment=SECRET)
    log_unanswered(website, f"  {SECRET}  ", "where is my parcel")
    decide(website, SECRET)
    append_change(website, Change.make(Action.add_wordings, entry="e", of="Parcel?", wordings=("my box", SECRET)))
    append_change(website, Change.make(Action.add_entry, question=SECRET, answer="Wait."))
    assert len(rows_with(other, SECRET)) == 3
    assert b"Mustermann" in bytes_of(place)

    deleted = delete_traces(website, sentence=SECRET)

    assert deleted == {"judgements": 1, "comments": 1, "questions": 1, "decisions": 1, "changes": 2}
    assert not rows_with(other, "Mustermann")
    assert b"Mustermann" not in bytes_of(place)
    assert len({record["question"] for record in Judgements(other).records()} - {"my parcel"}) == 50
    assert [one.question for one in logged_questions(other)] == ["where is my parcel"]
    assert [(one.question, one.wordings) for one in read_changes(other)] == [("", ("my box",)), ("", ())]
    other.close()


def test_a_long_sentence_as_the_log_has_it(website: Database) -> None:
    long = "word\t " * 200
    judge(website, long)
    log_unanswered(website, long)

    deleted = delete_traces(website, sentence=long)

    assert (deleted["judgements"], deleted["questions"]) == (1, 1)


def test_a_text_with_several_questions_as_the_log_has_it(website: Database) -> None:
    """The log has each of its questions alone. What the owner has made of one of them is not the visitor's text."""
    first, second = "Erika Mustermann order 4711, where is my parcel?", "How do I pay by invoice?"
    text = f"{first} And {second[0].lower()}{second[1:]}"
    parts = question_parts(text).texts
    assert len(parts) == 2 and "4711" in parts[0]
    log_unanswered(website, *parts, "where is my parcel")
    judge(website, parts[0])
    append_change(website, Change.make(Action.add_entry, question=parts[1], answer="Choose it at the end."))

    deleted = delete_traces(website, sentence=text)

    assert +deleted == {"judgements": 1, "questions": 2}
    assert not rows_with(website, "Mustermann")
    assert [one.question for one in logged_questions(website)] == ["where is my parcel"]
    assert [change.question for change in read_changes(website)] == [parts[1]]


@pytest.mark.parametrize("by", ["visit", "address", "identity"])
def test_a_visitor_is_gone_and_others_stay(website: Database, place: str, by: str) -> None:
    visitor = {"visit": "mine", "address": "192.0.2.7", "identity": "jörg"}
    networks = {"address": ("192.0.2.99", ""), "identity": ("198.51.100.7", "j\xc3\xb6rg")}  # the bytes of a header
    mine = Visitors(website).network(*networks.get(by, ("", "")))
    judge(website, SECRET, visit="mine", network=mine, comment="call Mustermann")
    judge(website, "where is my parcel", visit="mine", network=mine)
    judge(website, "where is my parcel", visit="theirs", network="theirs", comment="of others")
    log_unanswered(website, SECRET, "where is my parcel")
    decide(website, SECRET)
    append_change(website, Change.make(Action.add_wordings, entry="e", wordings=(SECRET, "where is my parcel")))

    deleted = delete_traces(website, **{by: visitor[by]})

    assert deleted == {"judgements": 2, "questions": 1, "decisions": 1, "changes": 1}
    assert not rows_with(website, "Mustermann")
    assert b"Mustermann" not in bytes_of(place)
    assert [record["comment"] for record in Judgements(website).records()] == ["of others"]
    assert [one.question for one in logged_questions(website)] == ["where is my parcel"]
    assert [one.wordings for one in read_changes(website)] == [("where is my parcel",)]


def test_what_the_owner_wrote_stays_when_a_visitor_goes(website: Database) -> None:
    """A visitor may click at a stored question, or ask what the owner's own wording says."""
    made = Change.make(Action.change_entry, entry="e", question="Parcel?", answer="x", wordings=("my box",))
    append_change(website, made)
    for question in ("Parcel?", "my box"):
        judge(website, question, visit="mine")
    decide(website, "my box", accepted=False)  # of the visitor's; the owner's own is in the change above

    assert delete_traces(website, visit="mine")["changes"] == 0

    assert read_changes(website) == [made]


@pytest.mark.parametrize(
    "asked",
    [
        "Jane Doe, where is my parcel " * 30,
        "Jane Doe: guaran\u00adtee",
        "Jane Doe \u202emy box",
        "Jane Doe می\u200cخواهم",
        "Jane Doe\tasks",
        "Jane Doe, as an earlier release logged it: a\u200cb",
    ],
)
def test_a_sentence_as_the_desk_shows_it_deletes_the_judgement(website: Database, place: str, asked: str) -> None:
    """Which has the whole of what was asked: what is cut, invisible or a tab is not in the log."""
    judge(website, asked)
    shown = clean_question(asked)
    log_unanswered(website, shown, "where is the box")
    deleted = delete_traces(website, sentence=shown)
    assert (deleted["judgements"], deleted["questions"]) == (1, 1)
    assert not rows_with(website, "Jane")
    assert b"Jane" not in bytes_of(place)
    assert [one.question for one in logged_questions(website)] == ["where is the box"]


def test_an_edit_loses_the_sentence_of_a_visitor(website: Database, place: str) -> None:
    """Whether it added or removed it; what else it says stays."""
    before = KeyedEntry("e", Entry("Parcel?", "x", {}, "", (SECRET, "my box")))
    texts = {"question": "Parcel?", "answer": "x"}
    edits = [Change.edit(before, **texts, wordings=["my box", "lost"])]
    edits.append(
        Change.edit(replace(before, entry=replace(before.entry, wordings=())), **texts, wordings=[SECRET, "a"])
    )
    for one in edits:
        append_change(website, one)
    assert read_changes(website) == edits
    assert delete_traces(website, sentence=SECRET)["changes"] == 2
    assert b"Mustermann" not in bytes_of(place)
    assert [(one.wordings, one.removed) for one in read_changes(website)] == [(("lost",), ()), (("a",), ())]


def test_a_sentence_without_words_is_not_any_other_one(website: Database) -> None:
    for question, visit in (("\N{THUMBS UP SIGN}", "a"), ("!?", "b")):
        judge(website, question, visit=visit, comment="\N{PILE OF POO}" if visit == "a" else "...")

    assert delete_traces(website, sentence="...")["comments"] == 1
    assert +delete_traces(website, sentence="!?") == {"judgements": 1}

    [record] = Judgements(website).records()
    assert (record["question"], record["comment"]) == ("\N{THUMBS UP SIGN}", "\N{PILE OF POO}")


def test_what_is_not_there(website: Database) -> None:
    judge(website)
    assert not +delete_traces(website, sentence="something else")
    assert not +delete_traces(website, visit="nobody\ud800")
    assert not +delete_traces(website, address="192.0.2.7")
    assert rows_with(website, SECRET) == ["ap_ranker_judgements"]


def test_who_reads_meanwhile_keeps_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of SQLite that does not end may need the old log of writes: then that is said, not that all is well."""
    monkeypatch.setattr(database_module, "READER_SECONDS", 0.2)
    website = open_database(tmp_path / "faq.db")
    judge(website)
    with sqlite3.connect(tmp_path / "faq.db", isolation_level=None) as reader:
        reader.execute("begin")
        reader.execute("select * from ap_ranker_judgements").fetchall()
        with pytest.raises(InputError, match=r"faq\.db"):
            delete_traces(website, sentence=SECRET)
        assert not website.is_erased
        reader.execute("commit")

    delete_traces(website, sentence=SECRET)  # nothing is left to delete, but to erase

    assert website.is_erased

    assert b"Mustermann" not in bytes_of(str(tmp_path / "faq.db"))


# What is deleted in time.


def aged(website: Database, days: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """A judgement, a question and a decision of each so many days ago."""
    for name, age in days.items():
        then = int(now() - age * DAY)
        with monkeypatch.context() as patch:
            for module in ("judgements", "question_log", "visitors"):
                patch.setattr(f"ap_ranker.web.{module}.now", lambda then=then: then)
            judge(website, name, visit=name)
            log_unanswered(website, name)
        decide(website, name, then, accepted=False)


def left(website: Database) -> list[set[str]]:
    with website.reading() as connection:
        return [set(connection.scalars(select(table.c.question))) for table in (judgements, questions, decisions)]


def test_what_is_older_goes(website: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    append_change(website, Change("id", 0, Action.add_entry, question="the owner's", answer="x"))
    aged(website, {"year": 366, "month": 31, "almost": 29.9, "today": 0}, monkeypatch)

    delete_older(website, 365)
    assert left(website) == [{"month", "almost", "today"}] * 3
    delete_older(website, 30)
    assert left(website) == [{"almost", "today"}] * 3
    assert [change.question for change in read_changes(website)] == ["the owner's"]


def test_what_ended_is_not_kept(website: Database) -> None:
    """Sessions of owners and quotas of earlier days, though nobody logs in or clicks any more."""
    day = now() // DAY
    with website.writing("sessions") as connection:
        connection.execute(
            insert(sessions), [{"token": str(end), "owner": "o", "ends": end} for end in (1, now() + 99)]
        )
        used = [{"day": one, "network": "n", "kind": "judgement", "used": 1} for one in (day - 1, day)]
        connection.execute(insert(quotas), used)
    delete_older(website, 365)
    with website.reading() as connection:
        assert [end > 1 for end in connection.scalars(select(sessions.c.ends))] == [True]
        assert [*connection.scalars(select(quotas.c.day))] == [day]


def test_several_servers_delete_while_visitors_click(website: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    aged(website, {f"old {number}": 40 for number in range(20)}, monkeypatch)

    def work(number: int) -> None:
        delete_older(website, 30) if number % 2 else judge(website, f"new {number}", visit=f"{number}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(40)))

    said, asked, decided = left(website)
    assert said == {f"new {number}" for number in range(0, 40, 2)}
    assert asked == decided == set()
