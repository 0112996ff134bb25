"""The log of questions: what it holds, what it does not, and that no answer depends on it."""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from forked import Forked
from haystack import Document
from sqlalchemy import select

from ap_ranker.errors import InputError
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.text.question_keys import question_key
from ap_ranker.web import database as database_module
from ap_ranker.web import question_log as module
from ap_ranker.web import visitors
from ap_ranker.web.app import build_app
from ap_ranker.web.database import Database, open_database, questions
from ap_ranker.web.question_log import LONGEST, QuestionLog, clean_question

from .visiting import judgements_of, logged_questions, visit

BEST = Document(id="e1", content="the answer", score=0.75)


@pytest.fixture
def database(place: str) -> Database:
    return open_database(place)


def log_all(database: Database, *asked: str, network: str = "n") -> None:
    log = QuestionLog(database)
    for question in asked:
        log.add(question, network, Outcome.ANSWER, [BEST])
    log.close()


def logged(database: Database) -> list[str]:
    return [one.question for one in logged_questions(database)]


def test_what_is_logged(database: Database) -> None:
    log_all(database, "where is\tmy\nparcel\x1b[31m\u202e?\0" + "x" * 1000)
    (one,) = logged_questions(database)
    assert one.question.startswith("where is my parcel [31m? xxx")
    assert len(one.question) == LONGEST
    assert (one.outcome, one.score, one.entry) == (Outcome.ANSWER, 0.75, "e1")


def test_outcomes_over_http(search: DeclaredPipeline) -> None:
    """Also of a question without an answer, the log knows what was nearest."""
    database = judgements_of(search).database
    log = QuestionLog(database)
    for limits in ({"score_threshold": 0.0}, {"score_threshold": 1.1}):
        client = visit(build_app(search, judgements_of(search), limits=limits, question_log=log), "9.9.9.9")
        for question in ("where is the parcel now", "xyzzy"):
            answered = client.post("/api/search", json={"question": question}, headers={"Cookie": "a=secret"})
            assert answered.status_code == 200
    log.close()
    shown, nothing, maybe, nothing_again = logged_questions(database)
    assert (shown.question, shown.outcome) == ("where is the parcel now", Outcome.ANSWER)
    assert shown.entry == search.run("where is the parcel now")[0].id
    assert (maybe.outcome, maybe.score, maybe.entry) == (Outcome.MAYBE, shown.score, shown.entry)
    assert (nothing.outcome, nothing.score, nothing.entry) == (Outcome.NONE, None, "")
    assert nothing_again.outcome == Outcome.NONE
    with database.reading() as connection:
        rows = str(connection.execute(select(questions)).all())
    assert "secret" not in rows
    assert "9.9.9" not in rows


def test_the_oldest_go(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 5)
    for number in range(12):
        log_all(database, f"question {number}")
    assert logged(database) == [f"question {number}" for number in range(7, 12)]


def test_a_network_has_a_quota(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(visitors.QUOTAS, "question", 3)
    log_all(database, *"abcdef", network="one")
    log_all(database, "g", network="another")
    assert logged(database) == ["a", "b", "c", "g"]


LOG_FIFTY = """
import sys
from haystack import Document
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web.database import open_database
from ap_ranker.web.question_log import QuestionLog
place, name = sys.argv[1:]
log = QuestionLog(open_database(place))
for number in range(50):
    log.add(f"{name} {number}", name, Outcome.ANSWER, [Document(id="e1", content="the answer", score=0.75)])
log.close()
"""


def test_several_servers_share_a_database(place: str) -> None:
    with ExitStack() as ending:
        servers = [ending.enter_context(Forked(LOG_FIFTY, place, name)) for name in "abc"]
        assert [server.wait(60) for server in servers] == [0, 0, 0]
    asked = [question.split() for question in logged(open_database(place))]
    assert Counter(name for name, _ in asked) == dict.fromkeys("abc", 50)
    for name in "abc":  # each writer's are in order
        assert [int(number) for who, number in asked if who == name] == list(range(50))


def test_a_database_that_cannot_be_written_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    database = open_database(tmp_path / "faq.db")

    def fail(*_: object) -> None:
        raise InputError("no space left on the device")

    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        patch.setattr(Database, "writing", fail)
        log = QuestionLog(database)
        for question in "abc":
            log.add(question, "n", Outcome.ANSWER, [BEST])
            while log._waiting:
                pass
        log.close()
    assert logged(database) == []
    assert caplog.text.count("no space left") == 1
    log_all(database, "after")
    assert logged(database) == ["after"]


def test_a_database_that_hangs_holds_up_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database_module, "WAIT_SECONDS", 600)
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.2)
    path = tmp_path / "faq.db"
    log = QuestionLog(open_database(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")  # until it ends, nobody else can write
        log.add("a", "n", Outcome.ANSWER, [BEST])
        log.close()
        assert caplog.text.count("not logged") == 1
    monkeypatch.setattr(module, "CLOSE_SECONDS", 60.0)
    log.close()
    assert logged(open_database(path)) == ["a"]


def test_too_many_at_once_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    monkeypatch.setattr(module.QuestionLog, "_write", lambda log: None)
    log = QuestionLog(open_database(tmp_path / "faq.db"))
    for question in "abcd":
        log.add(question, "n", Outcome.ANSWER, [BEST])
    assert caplog.text.count("some are left out") == 1


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم پول بدهم",
        "അവന്\u200d",
        "ශ්\u200dරී ලංකා",
        "ភាសា\u200bខ្មែរ",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 ticket",
        "guaran\u00adtee",
        "a\u2060b",
    ],
    ids=["Persian", "Malayalam", "Sinhala", "Khmer", "emoji", "soft hyphen", "word joiner"],
)
def test_the_log_has_the_question_that_was_asked(text: str) -> None:
    """Word for word: what an owner accepts from it is what visitors ask again."""
    assert question_key(clean_question(text)) == question_key(text)
    assert clean_question(clean_question(text)) == clean_question(text)


def test_nothing_visible_is_nothing() -> None:
    assert [clean_question(text) for text in ("\u200b\u202e", "\u200d \u200c", "\u2060", "")] == [""] * 4
