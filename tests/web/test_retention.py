"""Deleted is deleted: what is too old goes by any clock, and no file holds it, while servers run and others read."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from conftest import TEXTS, write_faq
from forked import Forked, served
from owner_changes import append_change
from searches import write_pipeline
from sqlalchemy import insert, select, update
from waiting import wait_until

from ap_ranker.data.faq import Entry
from ap_ranker.errors import InputError
from ap_ranker.web import judgements as judgements_module
from ap_ranker.web import question_log as question_log_module
from ap_ranker.web import retention
from ap_ranker.web.changes import Action, Change, apply_changes, clear_changes, read_changes
from ap_ranker.web.database import Database, judgements, now, open_at, open_database, questions, quotas, sessions
from ap_ranker.web.judgements import Judgements, key_of_question
from ap_ranker.web.retention import Retention, delete_older
from ap_ranker.web.traces import delete_traces
from ap_ranker.web.visitors import DAY

from .bytes_on_disk import bytes_below, bytes_of
from .visiting import log_unanswered

KEY = "7c1f6a02d94be853b7a1"
NAME = b"Mustermann"
SECRET = f"Erika {NAME.decode()}, order 4711: where is my parcel"
JUDGED: dict[str, Any] = {"answer": "Open the link.", "stored_question": "Parcel?", "helped": True, "network": "n"}


def judge(website: Database, question: str = SECRET, **given: Any) -> None:
    Judgements(website).keep(question=question, **{"visit": "v"} | JUDGED | given)


def make_old(website: Database, days: int = 40) -> None:
    with website.writing("questions", "judgements") as connection:
        for table in (questions, judgements):
            connection.execute(update(table).values(time=now() - days * DAY))


def said(website: Database) -> list[str]:
    with website.reading() as connection:
        return [*connection.scalars(select(judgements.c.question))]


@contextmanager
def running(website: Database, days: int = 30) -> Iterator[None]:
    """A server's thread."""
    closed = Event()
    thread = Thread(target=Retention(website, days).run, args=(closed,))
    thread.start()
    try:
        yield
    finally:
        closed.set()
        thread.join()


# No file holds what was deleted.


def test_no_file_holds_what_was_deleted_while_a_server_runs(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By age, by the owner's page, by a visitor; the bytes of every file beside the database are read meanwhile."""
    monkeypatch.setenv("AP_RANKER_OWNER_KEY", KEY)
    write_faq(tmp_path / "faq.csv")
    write_pipeline(tmp_path, checkpoint)
    website = open_database(tmp_path / "faq.db")
    old = [{"time": now() - 40 * DAY, "question": f"{SECRET} {number}", "outcome": "none"} for number in range(110)]
    with website.writing("questions") as connection:
        connection.execute(insert(questions), [row | {"question_key": "k", "entry": ""} for row in old])
    website.close()
    open_at.cache_clear()
    assert bytes_below(tmp_path).count(NAME) >= 110

    options = ("--documents", "faq.csv", "--pipeline", "search.yaml", "--log-questions", "--keep-days", "30")
    with served(*options, folder=tmp_path) as server, httpx.Client(base_url=server.address, timeout=60) as visitor:
        wait_until(lambda: NAME not in bytes_below(tmp_path))

        found = visitor.post("/api/search", json={"question": TEXTS[0]}).json()["answers"][0]
        click = {"question": TEXTS[0], "id": found["id"], "receipt": found["receipt"], "visit": "v", "helped": False}
        assert visitor.post("/api/feedback", json=click | {"comment": SECRET}).status_code == 200
        assert visitor.post("/api/search", json={"question": SECRET}).status_code == 200
        wait_until(lambda: bytes_below(tmp_path).count(NAME) >= 2)
        owner = httpx.Client(base_url=server.address, headers={"Authorization": f"Bearer {KEY}"}, timeout=60)
        [comment] = owner.post("/owner/api/comments", json={}).json()
        reply = owner.post("/owner/api/delete_comment", json={"id": comment["id"]})
        assert reply.json() == {"erased": True}
        assert NAME not in bytes_below(tmp_path)
        assert owner.post("/owner/api/server", json={}).json()["erased"]

        assert visitor.post("/api/feedback", json=click | {"comment": SECRET}).status_code == 200
        assert NAME in bytes_below(tmp_path)
        [row] = owner.post("/owner/api/feedback", json={}).json()
        assert row["words"] == [SECRET]
        reply = owner.post("/owner/api/delete_question", json={"question_key": row["question_key"]})
        assert reply.json() == {"erased": True}
        assert NAME not in bytes_below(tmp_path)


def test_every_deletion_is_erased(website: Database, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a click that is taken back, a comment that is written anew, what goes for its number, what is undone."""

    def undo_nothing() -> None:
        append_change(website, Change.make(Action.add_entry, question=SECRET, answer="Wait."))
        clear_changes(website, [Entry(SECRET, "Wait.", {}, "")])

    def trim(module: Any, leave: Callable[[str], None]) -> None:
        leave(SECRET)
        with monkeypatch.context() as patch:
            patch.setattr(module, "MOST", 2)
            for number in range(4):
                leave(f"another {number}")

    def take_back() -> None:
        judge(website)
        Judgements(website).take_back(question=SECRET, answer=JUDGED["answer"], network="n", visit="v")

    def write_anew() -> None:
        for comment in (SECRET, "never mind"):
            judge(website, "my parcel", comment=comment)

    for leave_and_delete in (
        lambda: trim(question_log_module, lambda text: log_unanswered(website, text)),
        lambda: trim(judgements_module, lambda text: judge(website, text, visit=text)),
        take_back,
        write_anew,
        undo_nothing,
    ):
        leave_and_delete()
        Retention(website, 0).look()
        assert website.is_erased
        assert NAME not in bytes_of(place)


def test_copies_within_pages_are_erased(website: Database, place: str) -> None:
    """Rows of many sizes move within and between pages while others change; each move may leave a copy."""
    chance = random.Random(5)
    for number in range(400):
        text = f"{NAME.decode()} {number} {'x' * chance.randint(5, 200)}" if number % 7 == 0 else f"other {number}"
        answer = "a" * chance.choice([20, 300, 3000, 9000])
        judge(website, text, network=f"n{number}", visit=f"{number}", answer=answer, comment="c" * (number % 300))
    with website.writing("judgements") as connection:
        connection.execute(update(judgements).values(time=0).where(judgements.c.question.startswith(NAME.decode())))
    Retention(website, 30).look()
    assert NAME not in bytes_of(place)
    assert len(said(website)) == 342


def test_statistics_hold_no_text(place: str) -> None:
    """PostgreSQL samples columns for its planner, in a table of its own; also of a database of before."""
    if "://" not in place:
        pytest.skip("SQLite samples nothing by itself")
    import psycopg

    for is_of_before in (True, False):
        website = open_database(place)
        for number in range(30):
            judge(website, f"{SECRET} {number}", visit=f"{number}")
        with psycopg.connect(place, autocommit=True) as connection:
            if is_of_before:
                connection.execute("alter table ap_ranker_judgements alter column question set statistics -1")
            connection.execute("analyze")
            quoting = "select count(*) from pg_stats where concat(most_common_vals, histogram_bounds) like %s"
            found = connection.execute(quoting, [f"%{NAME.decode()}%"]).fetchone()
        assert found == (1 if is_of_before else 0,)
        website.close()
        open_at.cache_clear()


def test_who_reads_meanwhile_only_delays_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process reads for long: until it ends, the deletion is reported as not erased; the files do not grow."""
    monkeypatch.setattr(retention, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr("ap_ranker.web.database.READER_SECONDS", 0.05)
    website = open_database(tmp_path / "faq.db")
    for number in range(200):
        judge(website, f"{SECRET} {number}", visit=f"{number}")
    make_old(website)
    code = """
import sqlite3, sys
reader = sqlite3.connect(sys.argv[1], isolation_level=None)
reader.execute("begin")
reader.execute("select count(*) from ap_ranker_judgements").fetchall()
print("reading")
sys.stdin.readline()
"""
    with Forked(code, tmp_path / "faq.db") as reader:
        assert reader.stdout.readline() == "reading\n"
        with running(website):
            wait_until(lambda: not said(website))
            sizes = set()
            for _ in range(20):
                assert not website.is_erased
                sizes.add((tmp_path / "faq.db-wal").stat().st_size)
                Event().wait(0.1)
            assert len(sizes) == 1
            reader.stdin.write("\n")
            reader.stdin.flush()
            wait_until(lambda: website.is_erased)
            assert NAME not in bytes_below(tmp_path)
    website.close()


def test_an_open_transaction_of_postgresql_only_delays_it(place: str) -> None:
    """It sees what was deleted, whatever it reads: no rewriting forgets that before it ends."""
    if "://" not in place:
        pytest.skip("of SQLite, see above")
    import psycopg

    website = open_database(place)
    judge(website)
    with psycopg.connect(place) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("select 1 from pg_class limit 1")
        with pytest.raises(InputError, match="transaction"):
            delete_traces(website, sentence=SECRET)
        assert said(website) == []
        assert not website.is_erased
        assert NAME in bytes_of(place)

    Retention(website, 0).look()

    assert website.is_erased
    assert NAME not in bytes_of(place)
    website.close()


# What is too old goes, by any clock.


def test_a_server_looks_at_once_and_again(website: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "LOOK_SECONDS", 0.05)
    judge(website)
    make_old(website)
    with running(website):
        wait_until(lambda: not said(website))
        judge(website)
        make_old(website)
        wait_until(lambda: not said(website))


def test_a_clock_that_is_set_is_followed(website: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward: what is too old by it goes within a look. Back: what was written meanwhile does not stay for longer."""
    monkeypatch.setattr(retention, "LOOK_SECONDS", 0.05)
    judge(website)
    asked_at = now() + 100 * DAY
    with running(website, days=30):
        for module in ("judgements", "question_log", "visitors", "retention"):
            monkeypatch.setattr(f"ap_ranker.web.{module}.now", lambda: asked_at)
        wait_until(lambda: not said(website))
        judge(website)
        log_unanswered(website, SECRET)
        monkeypatch.setattr("ap_ranker.web.retention.now", now)

        def times() -> list[int]:
            with website.reading() as connection:
                return [connection.scalar(select(table.c.time)) or 0 for table in (judgements, questions)]

        wait_until(lambda: max(times()) <= now())
        assert len(said(website)) == 1


def test_a_look_without_anything_to_do_changes_nothing(website: Database) -> None:
    judge(website)
    before = [website.revision(part) for part in ("judgements", "questions", "wordings", "changes")]
    assert delete_older(website, 30) == 0
    assert [website.revision(part) for part in ("judgements", "questions", "wordings", "changes")] == before


def test_what_has_ended_goes_also_where_all_else_stays(website: Database) -> None:
    """`--keep-days 0` keeps what was said, not who was logged in nor which network asked."""
    judge(website)
    make_old(website, days=4000)
    with website.writing("sessions") as connection:
        connection.execute(insert(sessions).values(token="old", owner="Anna", ends=now() - DAY))
        connection.execute(insert(sessions).values(token="new", owner="Ben", ends=now() + DAY))
        connection.execute(insert(quotas).values(day=now() // DAY - 3, network="n", kind="question", used=1))
    Retention(website, 0).look()
    with website.reading() as connection:
        assert list(connection.scalars(select(sessions.c.owner))) == ["Ben"]
        assert not connection.execute(select(quotas).where(quotas.c.day < now() // DAY)).all()
    assert said(website) == [SECRET]


def test_undone_changes_go_in_time(website: Database, place: str) -> None:
    """The FAQ stays as it is; what a visitor said and the owner took back goes with all else that is as old."""
    then = now() - 40 * DAY
    entry = Entry("Parcel?", "Open the link.", {}, "")
    [key] = [keyed.key for keyed in apply_changes([entry], []).entries]
    kept = Change("kept", then, Action.add_wordings, entry=key, of="Parcel?", wordings=("where is it",))
    append_change(website, Change("gone", then, Action.add_wordings, entry=key, of="Parcel?", wordings=(SECRET,)))
    append_change(website, kept)
    append_change(website, Change("undo", then, Action.undo, undone="gone"))
    append_change(website, late := Change("late", now(), Action.add_wordings, entry=key, wordings=("late",)))
    append_change(website, undone := Change("un", now(), Action.undo, undone="late"))
    before = apply_changes([entry], read_changes(website)).entries

    Retention(website, 30).look()

    assert read_changes(website) == [kept, late, undone]
    assert apply_changes([entry], read_changes(website)).entries == before
    assert NAME not in bytes_of(place)


def test_a_database_that_fails_is_tried_again_and_said_once(
    website: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[int] = []

    def fail(_: Database, days: int) -> int:
        tries.append(days)
        raise InputError("faq.db: the disk is full.")

    monkeypatch.setattr(retention, "delete_older", fail)
    monkeypatch.setattr(retention, "LOOK_SECONDS", 0.02)
    with running(website):
        wait_until(lambda: len(tries) > 5)
    assert caplog.text.count("the disk is full") == 1


# What a log says.


@pytest.mark.parametrize("table", ["questions", "judgements"])
def test_no_error_of_the_database_quotes_what_was_to_be_written(
    website: Database, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL quotes the whole row that breaks a rule, and SQLAlchemy all parameters."""
    caplog.set_level(0)
    with website.engine.begin() as connection:
        if website.engine.dialect.name == "sqlite":
            refused = "begin select raise(abort, 'no'); end"
            connection.exec_driver_sql(f"create trigger t before insert on ap_ranker_{table} {refused}")
        else:
            connection.exec_driver_sql(f"alter table ap_ranker_{table} add constraint c check (question = '')")
    if table == "questions":
        log_unanswered(website, SECRET)
        assert "cannot be logged" in caplog.text
    else:
        with pytest.raises(InputError) as raised:
            judge(website)
        assert NAME.decode() not in str(raised.value)
    assert NAME.decode() not in caplog.text


def test_the_keys_of_questions_are_those_of_before() -> None:
    """Old databases have them."""
    assert key_of_question("Where is it?") == key_of_question("where is IT")
    assert sqlite3.sqlite_version_info > (3, 24)
