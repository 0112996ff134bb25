"""Visitors who want more than an answer: to be many, to be heard alone, to keep the server busy, to be shown."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from sqlalchemy import func, select
from starlette.testclient import TestClient

from ap_ranker.ranking.outcome import Outcome
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import gaps
from ap_ranker.web.app import build_app
from ap_ranker.web.database import Database, judgements, open_database, quotas
from ap_ranker.web.gaps import find_unanswered
from ap_ranker.web.grouping import count
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.question_log import QuestionLog
from ap_ranker.web.signed_answers import AnswerSigner, ShownAnswer
from ap_ranker.web.suggestions import Suggestions
from ap_ranker.web.visitors import QUOTAS

from .visiting import QUESTION, FixedSearch, answers, click, client_of, judgements_of, kept, visit

PROXY = "10.0.0.1"

ODD = {
    "zero": "where is \0 my bike",
    "four bytes": "where is my \U0001f6b2 bike",
    "backwards": "where is \u202e my ekib\u202c",
    "joined": "\u200b\u200d\ufeffbike\u0301\u0301\u0301" * 20,
    "SQL": "'; drop table ap_ranker_judgements; -- \" ; select $1 %s :name ?",
    "HTML": "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "formula": "=cmd|' /C calc'!A0 bike",
    "lines": "a\r\nSet-Cookie: x=1\r\n\r\nb\x1b[31m",
    "not a character": "\uffff\U0010ffff bike",
}


def rows_of(database: Database, table: Any) -> int:
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


@pytest.mark.parametrize("told", ["{}:{}", "[2001:db8::{}]:{}", "[2001:db8::1]"], ids=["IPv4", "a /48", "IPv6"])
def test_a_port_makes_nobody_another_visitor(
    search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """Some web servers tell address and port: of 20 connections of one visitor there were 20 networks that agree."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", PROXY)
    app = build_app(search, judgements_of(search), workers=FixedSearch([0.9, 0.5]))  # type: ignore[arg-type]
    before = [one["id"] for one in answers(visit(app, PROXY))]
    for number in range(20):
        address = told.format("198.51.100.7" if told.startswith("{}") else number, 50_000 + number)
        client = visit(app, PROXY)
        client.headers["X-Forwarded-For"] = address
        assert click(client, answers(client)[1], visit=f"v{number}") == 200
    assert [one["id"] for one in answers(visit(app, PROXY))] == before
    [votes] = judgements_of(search).votes()
    assert votes.networks == 1


def test_headers_of_strangers_make_no_crowd(search: DeclaredPipeline) -> None:
    """Nor does any other header that some web server sets."""
    options: dict[str, Any] = {"identity_header": "X-Remote-User"}
    app = build_app(search, judgements_of(search), workers=FixedSearch([0.6, 0.5]), **options)  # type: ignore[arg-type]
    names = ("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Remote-User", "x_remote_user", "CF-Connecting-IP", "Via")
    first = answers(visit(app))[0]["id"]
    for number in range(20):
        client = visit(app, f"203.0.113.{number}")  # one network of 256 addresses
        client.headers.update(dict.fromkeys(names, f"192.0.{number}.1"))
        assert click(client, answers(client)[1], visit=f"v{number}") == 200
    assert answers(visit(app))[0]["id"] == first
    [votes] = judgements_of(search).votes()
    assert votes.networks == 1


def test_click_and_take_back_in_a_loop(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the visit and the answer: a network has one quota, and beyond it nothing at all is written."""
    monkeypatch.setitem(QUOTAS, "judgement", 30)
    client = client_of(search, workers=FixedSearch([0.9, 0.5]))
    first, second = answers(client)
    states = []
    for number in range(QUOTAS["judgement"] // 2 + 20):
        one = (first, second)[number % 2]
        states += [click(client, one, visit=f"v{number % 3}", helped=helped) for helped in (True, None)]
    assert states.count(200) == QUOTAS["judgement"]
    assert set(states[QUOTAS["judgement"] :]) == {429}
    database = judgements_of(search).database
    assert (rows_of(database, judgements), rows_of(database, quotas)) == (0, 1)
    size, revision = Path(database.place).stat().st_size, database.revision("judgements")
    assert click(client, first) == 429
    assert (Path(database.place).stat().st_size, database.revision("judgements")) == (size, revision)


def test_much_noise_hides_nothing_that_many_ask(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One network may log more questions in a day than the owner sees, and the latest of these were its own."""
    monkeypatch.setattr(gaps, "MOST", 200)
    database = open_database(place)
    log = QuestionLog(database)
    for number in range(3):
        log.add("do you repair tandems", f"honest {number}", Outcome.NONE, [])
    log.close()
    log = QuestionLog(database)
    for number in range(300):
        log.add(f"noise {number}", "hostile", Outcome.NONE, [])
        if number % 100 == 0:
            log.close()
            log = QuestionLog(database)
    log.close()
    assert next(iter(count(find_unanswered(database)))) == "do you repair tandems"


@pytest.mark.parametrize(
    "typed",
    ["h " * 500, "how " * 250, "h ho how d do i a as ass b bi bik bike " * 25, "a b c d e f g h i j k l m " * 38],
    ids=["letter", "word", "beginnings", "letters"],
)
def test_no_text_keeps_the_suggestions_busy(typed: str) -> None:
    """They are found in the thread that speaks to everybody: 0.5 ms for a usual text, 2 s for these before."""
    suggestions = Suggestions(f"how do i assemble the bike number {row} at home" for row in range(3000))
    started = time.process_time()
    suggestions.find(typed[:1000])
    assert time.process_time() - started < 0.25


def test_repeated_words_find_what_they_found() -> None:
    suggestions = Suggestions(["how do i assemble my bike", "how is my bike", "do you repair bikes"])
    assert suggestions.find("bi bike my m my") == ["how do i assemble my bike", "how is my bike"]
    assert suggestions.find("bik do repair d") == ["do you repair bikes"]
    assert suggestions.find("bike biking") == []


def test_odd_sentences_are_kept_and_shown_to_nobody_else(
    search: DeclaredPipeline, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    database = open_database(place)
    log = QuestionLog(database)
    options: dict[str, Any] = {"question_log": log, "limits": {"score_threshold": -100.0}}
    app = build_app(search, Judgements(database), **options)
    for row, text in enumerate(ODD.values()):
        for number in range(3):
            client = visit(app, f"192.0.{number}.1")
            found = answers(client, text)
            given = {"question": text.strip(), "comment": text, "visit": f"v{3 * row + number}"}
            assert click(client, found[-1], **given) == 200
    log.close()
    assert len([*Judgements(database).records()]) == 3 * len(ODD)
    other, here = visit(app, "198.51.100.1"), visit(app, "127.0.0.1")
    for text in ODD.values():
        shown = [other.post("/api/search", json={"question": "bike"}).text, here.get("/metrics").text]
        shown += [other.post("/api/suggest", json={"text": begun}).text for begun in (text, text[:3], "where", "bike")]
        assert all(text not in one and json.dumps(text)[1:-1] not in one for one in shown)
        assert text not in caplog.text


@pytest.mark.parametrize("field", ["question", "id", "comment", "visit", "receipt"])
@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_halves_of_characters(search: DeclaredPipeline, field: str, text: str) -> None:
    """As JSON can have them, in any field."""
    client = client_of(search)
    one = answers(client)[0]
    given = {"question": QUESTION, "id": one["id"], "helped": True, "receipt": one["receipt"], "visit": "v"}
    body = json.dumps(given | {field: text})
    response = client.post("/api/feedback", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (200, 404, 422), response.text
    assert text not in response.text


@pytest.mark.parametrize(
    "body",
    [b"[" * 16_000, b'{"question":' * 1300, b"9" * 16_000, b'{"question": 1e999}', b"\xff\xfe", b"nul", b'"\\ud800"'],
)
def test_bodies_that_are_no_question(search: DeclaredPipeline, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    client = client_of(search)
    for path in ("/api/search", "/api/suggest", "/api/explain", "/api/feedback"):
        response = client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert response.status_code in (400, 422), (path, response.status_code)
        assert len(response.text) < 300
    assert "Traceback" not in caplog.text


def test_receipts_are_of_one_question_answer_and_server(search: DeclaredPipeline) -> None:
    """Any other one is ignored: then the answer must be one that the search finds."""
    client = client_of(search, workers=FixedSearch([0.9, 0.5]))
    first, second = answers(client)
    forged = AnswerSigner(b"another secret").sign(QUESTION, first["id"], ShownAnswer("Call 0900 FRAUD", "hotline"))
    other = answers(client, "another question")[0]["receipt"]
    for receipt in (forged, other, second["receipt"], first["receipt"][:-1], "", "a.b.c", "\0", "." * 100_000):
        assert click(client, first, receipt=receipt) == 200
        assert [record["answer"] for record in kept(search)] == ["answer 0"]
        assert click(client, first | {"id": "none"}, receipt=receipt) == 404


@pytest.mark.parametrize(
    "path",
    [
        "/docs",
        "/redoc",
        "/owner/",
        "//owner",
        "/OWNER",
        "/owner/api",
        "/owner/api/",
        "/owner//api/usage",
        "/owner/../owner",
        "/owner/%2e%2e/owner",
        "/page/../../../../etc/passwd",
        "/page/%2e%2e/%2e%2e/settings.py",
        "/page//etc/passwd",
        "/page/",
        "/page/..%5c..%5cfaq.db",
        "/faq.db",
        "/owner/owner.html",
        "/owner/login.html",
    ],
)
def test_paths_that_lead_nowhere(search: DeclaredPipeline, path: str) -> None:
    from ap_ranker.data.faq import Match
    from ap_ranker.web.owner.routes import OwnersPage
    from ap_ranker.web.owner.service import OwnerService

    database = judgements_of(search).database
    owner = OwnersPage("7c1f6a02d94be853b7a1", OwnerService(search, None, Match.both, database))
    app = build_app(search, Judgements(database), owner=owner, api_key="k" * 20)
    client = TestClient(app, "http://localhost", raise_server_exceptions=False, follow_redirects=False)
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"):
        response = client.request(method, f"http://localhost{path}", json={})
        assert response.status_code in (401, 404, 405), (method, response.status_code)
        assert "location" not in response.headers
        assert "owner/api" not in response.text
