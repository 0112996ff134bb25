"""The owner's page over HTTP: who may see it, what it shows, and what its changes do to the search."""

from __future__ import annotations

import os
import secrets
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from conftest import TEXTS, write_faq
from forked import served
from owner_changes import NOTHING
from searches import write_pipeline
from sqlalchemy import func, insert, select, text
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from ap_ranker.data.faq import Match, read_faq
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.search import watch_search
from ap_ranker.search.setup import set_up
from ap_ranker.search.watch_search import SearchWatcher
from ap_ranker.web import usage
from ap_ranker.web.app import HEADERS, build_app
from ap_ranker.web.changes import Action, owners_changes, read_changes
from ap_ranker.web.database import Database, changes, decisions, judgements, open_database, questions
from ap_ranker.web.database import sessions as sessions_table
from ap_ranker.web.gaps import GapFinder
from ap_ranker.web.judgements import Judgements, key_of_question
from ap_ranker.web.limits import check_key
from ap_ranker.web.owner import service
from ap_ranker.web.owner import sessions as sessions_module
from ap_ranker.web.owner import texts as owner_texts
from ap_ranker.web.owner.routes import API, ASSETS, PAGE, ROUTES, TABLE, OwnersPage, language_of
from ap_ranker.web.owner.service import OwnerService
from ap_ranker.web.owner.sessions import COOKIE, FREE, LONGEST, MANY, SECONDS, Sessions
from ap_ranker.web.question_log import QuestionLog
from ap_ranker.web.retention import Retention
from ap_ranker.web.traces import delete_traces

from .bytes_on_disk import bytes_of

KEY = "7c1f6a02d94be853b7a1"
PATIENCE = 20.0
"""Seconds; a busy machine is slow."""

JUDGED = {"answer": f"{TEXTS[0]}\n{TEXTS[1]}", "stored_question": TEXTS[0]}
"""The first entry, as a judgement names it."""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_search, "PAUSE", 0.05)
    monkeypatch.setattr(watch_search, "STILL", 0.05)


@pytest.fixture
def folder(tmp_path: Path, checkpoint: Path) -> Path:
    write_faq(tmp_path / "faq.csv")
    write_pipeline(tmp_path, checkpoint)
    return tmp_path


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """SQLite's; each of both, for a test that names `place`."""
    place = request.getfixturevalue("place") if "place" in request.fixturenames else tmp_path / "faq.db"
    return open_database(place)


@pytest.fixture
def client(folder: Path, database: Database, request: pytest.FixtureRequest) -> Iterator[TestClient]:
    """A server's application with the owner's page; nobody has logged in."""
    limits, pipeline = {"score_threshold": -1.0}, folder / "search.yaml"
    place = request.getfixturevalue("place") if "place" in request.fixturenames else database.place
    with set_up(folder / "faq.csv", pipeline=pipeline, limits=limits, overlay=owners_changes(place)) as setup:
        search, documents = setup.load()
        setup.warm_up(search, documents)
        following = SearchWatcher(search, setup)
        log = QuestionLog(database)
        owner_service = OwnerService(search, setup.documents, Match.both, database, logged=True)
        app = build_app(
            search, Judgements(database), limits=limits, question_log=log, owner=OwnersPage(KEY, owner_service)
        )
        yield TestClient(app, "http://localhost", raise_server_exceptions=False, follow_redirects=False)
        log.close()
        following.close()


def log_in(client: TestClient, name: str = "") -> TestClient:
    response = client.post("/owner/login", data={"key": KEY, "name": name})
    assert (response.status_code, response.headers["location"]) == (303, "../owner")
    return client


@pytest.fixture
def owner(client: TestClient) -> TestClient:
    return log_in(client)


def post(client: TestClient, name: str, **body: Any) -> Any:
    response = client.post(f"/owner/api/{name}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def gaps_of(client: TestClient) -> list[Any]:
    """The groups once all questions are grouped."""
    end = time.monotonic() + PATIENCE
    while (found := post(client, "gaps"))["grouping"]:
        assert time.monotonic() < end, "still grouping"
    groups: list[Any] = found["gaps"]
    return groups


def texts_of(gap: dict[str, Any]) -> list[str]:
    return [one["text"] for one in gap["questions"]]


def answers(client: TestClient | httpx.Client, question: str) -> list[str]:
    return [one["answer"] for one in client.post("/api/search", json={"question": question}).json()["answers"]]


def ask(client: TestClient, path: str, **options: Any) -> Any:
    return client.get(path, **options) if path not in API else client.post(path, json={}, **options)


def counts_of(client: TestClient, **days: str) -> Any:
    """What was counted in a week."""
    return post(client, "usage", **days)["current"]


def logged(database: Database, count: int) -> bool:
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(questions)) == count


def test_without_a_key_there_is_no_such_page(search: Any, database: Database) -> None:
    client = TestClient(build_app(search, Judgements(database)), "http://localhost")
    assert {ask(client, path).status_code for path in ROUTES} == {404}


def test_without_logging_in_every_route_answers_401(client: TestClient, database: Database) -> None:
    wrong = [
        {},
        {"headers": {"Authorization": KEY}},
        {"headers": {"Cookie": f"{COOKIE}=wrong"}},
        {"headers": {"Cookie": f"{COOKIE}={KEY}"}},
        {"params": {"key": KEY}},
        {"headers": {"Authorization": "Bearer wrong-key-0123456789"}},
    ]
    for options in wrong:
        for path in (PAGE, TABLE, *API):
            response = ask(client, path, **options)
            assert response.status_code == 401 or (response.status_code == 429 and options is wrong[-1]), path
            assert TEXTS[0] not in response.text
        assert client.post("/owner/logout", data={"x": "1"}, **options).status_code in (401, 429)
    assert client.get(TABLE, params={"first": "no day"}).status_code == 401
    page = client.get(PAGE)
    assert 'type="password"' in page.text
    assert "<script" not in page.text
    change = {"action": "add entry", "question": "q", "answer": "a"}
    assert client.post("/owner/api/change", json=change).status_code == 401
    assert read_changes(database) == []


def test_who_loads_a_refused_form_again_gets_the_form(client: TestClient) -> None:
    """Not a sentence in JSON."""
    page = client.get("/owner/login", follow_redirects=True)
    assert page.status_code == 401
    assert page.url.path == PAGE
    assert 'type="password"' in page.text


def test_logging_in_and_out(client: TestClient) -> None:
    response = client.post("/owner/login", data={"key": "no"})
    assert response.status_code == 401
    assert 'role="alert"' in response.text
    assert not response.cookies
    response = client.post("/owner/login", data={"key": KEY})
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert KEY not in cookie
    assert client.get(PAGE).status_code == 200
    token = client.cookies[COOKIE]
    assert client.post("/owner/logout", data={"x": "1"}).status_code == 303
    assert client.get(PAGE).status_code == 401
    assert client.get(PAGE, headers={"Cookie": f"{COOKIE}={token}"}).status_code == 401, "the session has ended"
    assert client.post("/owner/api/usage", json={}, headers={"Authorization": f"Bearer {KEY}"}).status_code == 200


def test_what_the_form_loads_is_there(client: TestClient) -> None:
    """Also after a wrong key, when the address is another one, and whatever path a web server in front puts before."""
    for page in (client.get(PAGE), client.post("/owner/login", data={"key": "no"})):
        links = [part.split('"')[0] for part in page.text.split('href="')[1:]]
        assert len(links) == 4
        for link in [*links, *ASSETS]:
            assert client.get(httpx.URL(str(page.url)).join(link).path).status_code == 200, link
        action = page.text.split('action="')[1].split('"')[0]
        assert httpx.URL(str(page.url)).join(action).path == "/owner/login"
        assert not any(link.startswith("/") for link in [*links, action])


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de-CH,fr;q=0.5", "de"),
        ("fr, de;q=0.8, en;q=0.5", "de"),
        ("en-GB", "en"),
        ("fr", "en"),
        ("", "en"),
        (";", "en"),
    ],
)
def test_the_language_of_a_browser(accepted: str, language: str) -> None:
    assert language_of(accepted) == language


def test_the_form_speaks_the_browsers_language(client: TestClient) -> None:
    said = {language: texts["login"] for language, texts in owner_texts.TEXTS.items()}
    for language, texts in said.items():
        page = client.get(PAGE, headers={"Accept-Language": f"{language};q=0.9"}).text
        assert f'<html lang="{language}">' in page
        assert texts["name"] in page
    refused = client.post("/owner/login", data={"key": "no"}, headers={"Accept-Language": "de"})
    assert said["de"]["wrong"] in refused.text


def from_address(address: str, cookie: str = "") -> Request:
    headers = [(b"cookie", cookie.encode())] if cookie else []
    return Request({"type": "http", "headers": headers, "client": (address, 1)})


def test_the_button_to_log_out_of_a_session_that_has_ended(owner: TestClient, client: TestClient) -> None:
    """A browser gets the form to log in; a program, and another site's page, are refused as ever."""
    browser = {"Accept": "text/html,application/xhtml+xml"}
    owner.cookies.clear()  # as a browser does after its twelve hours
    response = owner.post("/owner/logout", data={"x": "1"}, headers=browser)
    assert (response.status_code, response.headers["location"]) == (303, "../owner")
    assert owner.get("/owner").status_code == 401
    assert owner.post("/owner/logout", data={"x": "1"}).status_code == 401
    log_in(owner)
    foreign = browser | {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert owner.post("/owner/logout", data={"x": "1"}, headers=foreign).status_code == 401
    assert owner.get("/owner").status_code == 200, "still logged in"


def begun(sessions: Sessions, name: str = "") -> Request:
    response = Response()
    sessions.begin(sessions.keys()[0], name, response, secure=True)
    assert "Secure" in response.headers["set-cookie"]
    return from_address("192.0.2.1", response.headers["set-cookie"].split(";")[0])


def test_sessions_are_those_of_all_servers_and_end(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database, now = open_database(place), [1000]
    monkeypatch.setattr(sessions_module, "now", lambda: now[0])
    one, other = Sessions(KEY, database), Sessions(KEY, database)
    first = begun(one, "Änne \0\u202e Müller" + "x" * 1000)
    second = begun(other)

    assert str(other.owner_of(first)).startswith("Änne")
    assert one.owner_of(second) == ""
    assert one.owner_of(from_address("192.0.2.1")) is None
    assert Sessions(f"{KEY}x", database).owner_of(first) is None, "another key ends them"
    with database.reading() as connection:
        tokens = connection.scalars(select(sessions_table.c.token)).all()
    assert not {first.cookies[COOKIE], second.cookies[COOKIE]} & set(tokens)

    other.end(second, Response())
    assert [one.owner_of(each) is None for each in (first, second)] == [False, True]
    now[0] += SECONDS - 1
    assert one.owner_of(first) is not None
    now[0] += 1
    assert one.owner_of(first) is None
    begun(other)
    with database.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(sessions_table)) == 1, "ended ones are deleted"


@pytest.fixture
def at() -> list[float]:
    return [5000.0]


@pytest.fixture
def guarded(database: Database, at: list[float]) -> Callable[[str, str], bool | None]:
    """What comes of a key from an address: whether it is the right one; `None` if the network must wait."""
    sessions = Sessions(KEY, database, clock=lambda: at[0])

    keys = sessions.keys()

    def outcome(address: str, key: str) -> bool | None:
        try:
            return sessions.find(key, from_address(address), keys) is not None
        except Exception as refusal:
            assert refusal.status_code == 429  # type: ignore[attr-defined]
            assert 1 <= int(refusal.headers["Retry-After"]) <= LONGEST  # type: ignore[attr-defined]
            return None

    return outcome


def test_nobody_guesses_the_key(guarded: Callable[[str, str], bool | None], at: list[float]) -> None:
    """9,800 tries in 5 seconds, from all addresses of one network, and what the owner meets meanwhile."""
    outcomes = []
    for number in range(9800):
        outcomes.append(guarded(f"192.0.2.{number % 256}", f"guess {number}"))
        at[0] += 5 / 9800

    assert outcomes.count(None) >= 9780
    assert outcomes.count(True) == 0
    assert guarded("198.51.100.7", KEY) is True
    assert guarded("192.0.2.1", KEY) is None
    at[0] += LONGEST
    assert guarded("192.0.2.1", KEY) is True


def test_many_networks_guess_little(guarded: Callable[[str, str], bool | None], at: list[float]) -> None:
    addresses = [f"10.{number // 256}.{number % 256}.1" for number in range(5 * MANY)]
    outcomes = []
    for number in range(20 * len(addresses)):
        outcomes.append(guarded(addresses[number % len(addresses)], f"guess {number}"))
        at[0] += 0.001

    assert len(outcomes) - outcomes.count(None) <= len(addresses) + MANY, "each about one"
    assert guarded("198.51.100.7", KEY) is True
    assert guarded("198.51.100.7", "a slip") is False
    assert guarded("198.51.100.7", KEY) is None
    at[0] += LONGEST
    assert guarded("198.51.100.7", KEY) is True


def test_what_is_remembered_of_networks_is_bounded(
    guarded: Callable[[str, str], bool | None], at: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "MAX_NETWORKS", 3)
    for number in range(10):
        for _ in range(FREE):
            assert guarded(f"10.0.{number}.1", "guess") is False
        assert guarded(f"10.0.{number}.1", "guess") is None
        at[0] += 0.001

    assert [guarded(f"10.0.{number}.1", KEY) for number in (0, 9)] == [True, None]


def test_every_way_in_is_guarded(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever a guess takes, it counts for all; who is in already notices nothing."""
    owner = log_in(TestClient(client.app, "http://localhost", follow_redirects=False))
    bearer = {"headers": {"Authorization": "Bearer wrong"}}
    ways: list[Callable[[], Any]] = [
        lambda: client.get(PAGE, **bearer),
        lambda: client.post("/owner/api/usage", json={}, **bearer),
        lambda: client.post("/owner/login", data={"key": "wrong"}),
        lambda: client.post("/owner/logout", data={"x": "1"}, **bearer),
        lambda: client.post("/owner/api/change", json={"no": "change"}, **bearer),
    ]
    assert [way().status_code for way in ways] == [401] * FREE
    monkeypatch.setattr(sessions_module, "FREE", -10)  # so that the wait is longer than this test

    for way in ways:
        for _ in range(3):
            refused = way()
            assert refused.status_code == 429
            assert int(refused.headers["Retry-After"]) >= 1
    assert client.post("/owner/login", data={"key": KEY}).status_code == 429
    assert client.get(PAGE).status_code == 401, "the form is still there"
    assert owner.get(PAGE).status_code == 200
    elsewhere = TestClient(client.app, "http://localhost", follow_redirects=False, client=("198.51.100.7", 1))
    assert elsewhere.get(PAGE, headers={"Authorization": f"Bearer {KEY}"}).status_code == 200
    log_in(elsewhere)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 401),
        ({"Sec-Fetch-Site": "same-site"}, 401),
        ({"Origin": "http://evil.example"}, 401),
        ({"Origin": "null"}, 401),
        ({"Origin": "http://["}, 401),
        ({"Origin": "http://localhost"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://faq.example"}, 200),
    ],
)
def test_other_sites_can_do_nothing(owner: TestClient, headers: dict[str, str], status: int) -> None:
    change = {"action": "add entry", "question": "q", "answer": "a"}
    assert owner.post("/owner/api/change", json=change, headers=headers).status_code == status
    assert owner.post("/owner/login", data={"key": KEY}, headers=headers).status_code == (303 if status == 200 else 401)
    form = owner.post("/owner/api/change", data=change, headers=headers)
    assert form.status_code == 415, "a form of another site needs no leave of the browser"


def test_the_policy_of_every_answer(owner: TestClient) -> None:
    for path in (PAGE, "/owner/owner.js", "/owner/api/usage", "/owner/none"):
        response = ask(owner, path)
        kept = {"Cache-Control": "no-store"} if path == PAGE else {}  # or "Back" shows what it showed, after a logout
        for name, value in (HEADERS | kept).items():
            assert response.headers[name] == value, path
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_the_numbers_and_the_gaps(owner: TestClient, place: str, database: Database) -> None:
    for question in ("do you rent bikes", "Do you rent bikes?", "xyzzy", TEXTS[0]):
        answers(owner, question)
    first = owner.post("/api/search", json={"question": "the battery of my parcel"}).json()["answers"][0]
    for helped, visit in ((False, "a"), (False, "b"), (True, "c")):
        judgement = {"question": "the battery of my parcel", "id": first["id"], "helped": helped, "visit": visit}
        assert owner.post("/api/feedback", json=judgement | {"receipt": first["receipt"]}).status_code == 200
    wait_until(lambda: logged(database, 5))
    counts = counts_of(owner)
    assert counts["questions"] == 5
    assert (counts["helped"], counts["judged"]) == (1, 3)
    assert [counts[outcome] for outcome in Outcome] == [4, 0, 1]
    assert counts["shares"] == {"answer": 0.8, "maybe": 0.0, "none": 0.2, "helped": 1 / 3}
    [judged] = post(owner, "feedback")
    shown = {"question": "the battery of my parcel", "entry": first["question"]}
    assert judged.items() >= (shown | {"helped": 1, "did_not_help": 2, "networks": 1}).items()
    gaps = {gap["questions"][0]["text"]: gap for gap in gaps_of(owner)}
    assert gaps["the battery of my parcel"]["asked"] == 2
    assert gaps["the battery of my parcel"]["questions"] == [
        {"text": "the battery of my parcel", "asked": 2, "title": "The battery of my parcel"}
        | {"ticked": True, "more_like": ""}
    ]
    assert not gaps["the battery of my parcel"]["is_near"]  # the search is not calibrated
    assert gaps["xyzzy"]["nearest_entry"] is None
    assert TEXTS[0] not in gaps
    nearest = gaps["the battery of my parcel"]["nearest_entry"]
    assert nearest["question"] in TEXTS[::2]


def test_what_is_deleted_is_not_shown_while_questions_are_grouped_again(
    owner: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for question in ("xyzzy of Erika Mustermann", "qwerty"):
        answers(owner, question)
    wait_until(lambda: logged(database, 2))
    assert sorted(text for gap in gaps_of(owner) for text in texts_of(gap)) == ["qwerty", "xyzzy of Erika Mustermann"]
    begun, end = threading.Event(), threading.Event()

    def slowly(*_: Any, **__: Any) -> Iterator[list[Any]]:
        begun.set()
        end.wait(PATIENCE)
        return iter(())

    monkeypatch.setattr(GapFinder, "find", slowly)
    delete_traces(database, sentence="xyzzy of Erika Mustermann")
    found = post(owner, "gaps")
    end.set()
    assert begun.is_set()
    assert [texts_of(gap) for gap in found["gaps"]] == [["qwerty"]]


def test_pages_of_entries(owner: TestClient, folder: Path) -> None:
    """Every entry is on one page, and a page that has lost its last entry is the one before."""
    for number in range(2 * service.ENTRIES):
        post(owner, "change", action="add entry", question=f"Where is walrus {number}?", answer="In the pool.")
    pages = [post(owner, "entries", words="walrus", skip=skip) for skip in (0, service.ENTRIES, service.ENTRIES - 1)]
    assert [(page["first"], page["count"]) for page in pages] == [(0, 24), (12, 24), (0, 24)]
    shown = [entry["question"] for page in pages[:2] for entry in page["entries"]]
    assert shown == [f"Where is walrus {number}?" for number in range(2 * service.ENTRIES)]
    beyond = post(owner, "entries", words="walrus", skip=10**9)
    assert beyond == pages[1]
    assert post(owner, "entries", words="of none", skip=5) == {"count": 0, "first": 0, "entries": []}
    assert owner.post("/owner/api/entries", json={"skip": -1}).status_code == 422


def test_the_table_of_questions(owner: TestClient, database: Database) -> None:
    row = {"question": "=1+1", "question_key": "k", "outcome": "answer", "entry": "", "time": 86_400}
    with database.writing("questions") as connection:
        connection.execute(insert(questions).values(**row))
    table = owner.get(TABLE, params={"first": "1970-01-01", "last": "1970-01-02"})
    assert table.status_code == 200
    assert table.headers["Content-Disposition"] == 'attachment; filename="questions_1970-01-01_1970-01-02.csv"'
    assert table.headers["Cache-Control"] == "no-store"
    assert table.content.startswith(b"\xef\xbb\xbfquestion,")
    assert "\n\u02bc=1+1,1,0,1,0,0,0,0\n" in table.text
    german = owner.get(TABLE, params={"last": "1970-01-02"}, headers={"Accept-Language": "de-AT,en;q=0.5"})
    assert "\n\u02bc=1+1;1;0;1;0;0;0;0\n" in german.text
    assert owner.get(TABLE, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 401
    wrong = ({"first": "2026-02-02", "last": "2026-02-01"}, {"first": "today"}, {"first": "0001-01-01"})
    for days in wrong:
        asked = owner.get(TABLE, params=days), owner.post("/owner/api/usage", json=days)
        assert [answer.status_code for answer in asked] == [422, 422]
        assert all(answer.json()["error"] for answer in asked)


def test_a_click_answers_no_gap(owner: TestClient, database: Database) -> None:
    """One visitor's "This answered it" neither hides what others were refused, nor joins what the FAQ knows."""
    log = QuestionLog(database)
    log.add("the battery of my parcel", "n", Outcome.NONE, [])
    log.close()
    before = gaps_of(owner)
    assert list(map(texts_of, before)) == [["the battery of my parcel"]]
    for question in ("the battery of my parcel", "which okapi"):
        Judgements(database).keep(**JUDGED, question=question, helped=True, network="n", visit="v")
    assert counts_of(owner)["helped"] == 2
    assert gaps_of(owner) == before


def test_changes_are_found_and_undone(client: TestClient, folder: Path, place: str, database: Database) -> None:
    owner, faq = log_in(client, "Änne"), (folder / "faq.csv").read_bytes()
    added = post(
        owner,
        "change",
        action="add entry",
        question="Where is the walrus?",
        answer="In the pool.",
        wordings=["sea cow"],
    )
    wait_until(lambda: "In the pool." in answers(owner, "walrus"))
    [entry] = post(owner, "entries", words="WALRUS pool")["entries"]
    assert entry["key"] == added["id"]
    post(
        owner,
        "change",
        action="change entry",
        entry=entry["key"],
        version=entry["version"],
        question="Where is the walrus?",
        answer="On the ice.",
        wordings=[],
    )
    wait_until(lambda: "On the ice." in answers(owner, "walrus"))
    assert "In the pool." not in answers(owner, "walrus")
    stale = owner.post(
        "/owner/api/change",
        json={"action": "delete entry", "entry": entry["key"], "version": entry["version"]},
    )
    assert (stale.status_code, stale.json()["error"][:27]) == (409, "This entry has been changed")
    edited, made = post(owner, "history")
    assert (edited["action"], made["action"]) == ("edit entry", "add entry")
    assert (edited["owner"], made["owner"]) == ("Änne", "Änne")
    post(owner, "undo", change=edited["id"])
    wait_until(lambda: "In the pool." in answers(owner, "walrus"))
    assert owner.post("/owner/api/undo", json={"change": edited["id"]}).status_code == 409
    assert owner.post("/owner/api/undo", json={"change": "nothing"}).status_code == 409
    post(owner, "undo", change=made["id"])
    wait_until(lambda: "In the pool." not in answers(owner, "walrus"))
    assert [one["is_undone"] for one in post(owner, "history")] == [True, True]
    assert (folder / "faq.csv").read_bytes() == faq
    undone = [one for one in read_changes(database) if one.action == Action.undo]
    assert [one.owner for one in undone] == ["Änne", "Änne"]


def test_an_entry_is_added_once(owner: TestClient, database: Database) -> None:
    """Also by who has not heard that it was: the server was killed before it could answer."""
    made = {"action": "add entry", "question": "Where is the walrus?", "answer": "In the pool."}
    post(owner, "change", **made)
    again = owner.post("/owner/api/change", json=made | {"wordings": ["sea cow"]})
    assert (again.status_code, again.json()["error"][:35]) == (409, "The FAQ has this entry already. Loa")
    assert len(read_changes(database)) == 1
    assert post(owner, "entries", words="walrus")["count"] == 1
    post(owner, "change", **made | {"answer": "On the ice."})


def test_a_wording_with_one_click(owner: TestClient, database: Database) -> None:
    """The question of a gap becomes a wording of an entry, and is no gap any more."""
    answers(owner, "xyzzy plugh")
    wait_until(lambda: logged(database, 1))
    assert list(map(texts_of, gaps_of(owner))) == [["xyzzy plugh"]]
    entry = post(owner, "entries", words="battery")["entries"][0]
    post(owner, "change", action="add wordings", entry=entry["key"], wordings=["xyzzy plugh"])
    wait_until(lambda: answers(owner, "xyzzy plugh")[:1] == [entry["answer"]])
    assert gaps_of(owner) == []
    post(owner, "change", action="remove wordings", entry=entry["key"], wordings=["xyzzy plugh"])
    wait_until(lambda: not answers(owner, "xyzzy plugh"))


SENTENCE = "xylo okapi quokka"


def judged(database: Database, question: str = SENTENCE, networks: int = 1, **fields: Any) -> None:
    for number in range(networks):
        given = JUDGED | fields | {"question": question, "network": f"n{number}", "visit": f"v{number}"}
        Judgements(database).keep(**given, helped=True)


def decision(row: dict[str, Any], state: str) -> dict[str, str]:
    names = {"question_key": "question_key", "answer_key": "answer_key", "wording": "question", "entry": "key"}
    return {"state": state} | {name: row[field] for name, field in names.items()}


def states(database: Database) -> list[Any]:
    with database.reading() as connection:
        columns = [decisions.c[name] for name in ("change", "owner", "question")]
        return [tuple(row) for row in connection.execute(select(*columns))]


def test_a_visitors_sentence_is_accepted_and_taken_back(client: TestClient, place: str, database: Database) -> None:
    owner = log_in(client, "Änne")
    judged(database, networks=2)
    [row] = post(owner, "feedback")
    assert {name: row[name] for name in ("question", "entry", "helped", "did_not_help", "networks")} == {
        "question": SENTENCE,
        "entry": TEXTS[0],
        "helped": 2,
        "did_not_help": 0,
        "networks": 2,
    }
    [entry] = post(owner, "entries", words=TEXTS[1])["entries"]
    assert (entry["key"], entry["wordings"]) == (row["key"], []), "before, it is nobody's wording"
    assert not answers(owner, SENTENCE)

    assert post(owner, "decide", **decision(row, "accepted"))["state"] == "accepted"

    assert post(owner, "feedback") == []
    [made] = post(owner, "history")
    assert states(database) == [(made["id"], "", "")], "its words and who accepted it are in the change alone"
    assert (made["action"], made["of"], made["wordings"], made["owner"]) == (
        "add wordings",
        TEXTS[0],
        [SENTENCE],
        "Änne",
    )
    wait_until(lambda: answers(owner, SENTENCE)[:1] == [TEXTS[1]])
    for state in ("accepted", "rejected"):
        assert owner.post("/owner/api/decide", json=decision(row, state)).status_code == 409

    post(owner, "undo", change=made["id"])

    assert states(database) == []
    assert post(owner, "feedback") == [row]
    wait_until(lambda: not answers(owner, SENTENCE))


def test_words_stand_beside_their_question_and_go_with_it(owner: TestClient, place: str, database: Database) -> None:
    """What a visitor was looking for, as one line of text; one click deletes it together with the question."""
    words = "the price\n of <b>Erika Mustermann's</b>\u202e bike"
    did_not_help = JUDGED | {"helped": False, "network": "n"}
    Judgements(database).keep(**did_not_help, question=SENTENCE, visit="a", comment=words)
    Judgements(database).keep(**did_not_help, question="another question", visit="b")
    rows = {row["question"]: row["words"] for row in post(owner, "feedback")}
    assert rows == {SENTENCE: ["the price of <b>Erika Mustermann's</b> bike"], "another question": []}
    assert b"Mustermann" in bytes_of(place)

    [row] = [row for row in post(owner, "feedback") if row["question"] == SENTENCE]
    assert post(owner, "delete_question", question_key=row["question_key"]) == {"erased": True}

    assert [row["question"] for row in post(owner, "feedback")] == ["another question"]
    assert b"Mustermann" not in bytes_of(place)


def test_sentences_beside_answers_are_shown_and_deleted(owner: TestClient, place: str, database: Database) -> None:
    """The latest first, as one line of text; deleted wherever visitors left the same one, and nothing else is."""
    comment = "I am Erika\n  Mustermann,\u202e <b>call</b> me"
    judged(database, comment=comment)
    judged(database, "another question", networks=3, comment="thank you")
    judged(database, comment.lower())
    with database.writing("questions") as connection:
        row = {"time": 1, "outcome": "none", "entry": ""}
        texts = [{"question": each, "question_key": key_of_question(each)} for each in (comment, "where is it")]
        connection.execute(insert(questions), [row | each for each in texts])
    *_, last = post(owner, "comments")
    names = ("comment", "question", "entry", "helped")
    shown = "I am Erika Mustermann, <b>call</b> me"
    assert [last[name] for name in names] == [shown, SENTENCE, TEXTS[0], True]
    assert [row["comment"] for row in post(owner, "comments")] == ["thank you"] * 3 + [shown]

    assert post(owner, "delete_comment", id=last["id"]) == {"erased": True}

    assert [row["comment"] for row in post(owner, "comments")] == ["thank you"] * 3
    with database.reading() as connection:
        assert {*connection.scalars(select(judgements.c.question))} == {SENTENCE, "another question"}
        assert [*connection.scalars(select(questions.c.question))] == ["where is it"]
    assert b"Mustermann" not in bytes_of(place)
    assert owner.post("/owner/api/delete_comment", json={"id": last["id"]}).status_code == 409
    for body in ({}, {"id": "x"}, {"id": -1}, {"id": 2**31}, {"id": last["id"], "more": 1}):
        assert owner.post("/owner/api/delete_comment", json=body).status_code == 422, body


def test_a_judged_sentence_is_deleted(owner: TestClient, place: str, database: Database) -> None:
    """Also one that is longer than what is shown; what the owner has accepted or written stays."""
    long = SENTENCE + " and so on" * 90
    for question in (long, "accepted", "the other"):
        judged(database, question)
    rows = {row["question"]: row for row in post(owner, "feedback")}
    post(owner, "decide", **decision(rows["accepted"], "accepted"))
    judged(database, "the other", comment="accepted")
    made = read_changes(database)

    for row in (rows["accepted"], next(row for shown, row in rows.items() if shown.startswith(SENTENCE))):
        assert post(owner, "delete_question", question_key=row["question_key"]) == {"erased": True}

    assert [record["question"] for record in Judgements(database).records()] == ["the other"]
    assert [record["comment"] for record in Judgements(database).records()] == [""]
    assert read_changes(database) == made
    assert [change for change, *_ in states(database)] == [made[0].id]
    assert b"and so on" not in bytes_of(place)
    assert owner.post("/owner/api/delete_question", json={"question_key": "nothing"}).status_code == 409
    assert owner.post("/owner/api/delete_question", json={"question_key": "q" * 65}).status_code == 422


def test_what_is_not_erased_yet_is_said(owner: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another program reads the database: the sentence is gone from the page, but not yet from the files."""
    monkeypatch.setattr("ap_ranker.web.database.READER_SECONDS", 0.1)
    judged(database, comment="Mustermann")
    [row] = post(owner, "comments")
    assert post(owner, "server")["erased"]
    reader = sqlite3.connect(database.place, isolation_level=None)
    reader.execute("begin")
    reader.execute("select * from ap_ranker_judgements").fetchall()
    assert post(owner, "delete_comment", id=row["id"]) == {"erased": False}
    assert post(owner, "comments") == []
    assert not post(owner, "server")["erased"]
    reader.close()
    Retention(database, 0).look()
    assert post(owner, "server")["erased"]
    assert b"Mustermann" not in bytes_of(database.place)


def test_a_visitors_sentence_is_rejected(owner: TestClient, place: str, database: Database) -> None:
    judged(database)
    judged(database, "another sentence", networks=3)
    first, second = post(owner, "feedback")
    assert (first["question"], second["question"]) == ("another sentence", SENTENCE), "what more people say, first"

    post(owner, "decide", **decision(second, "rejected"))
    judged(database, SENTENCE.upper(), networks=5)

    assert post(owner, "feedback") == [first]
    assert states(database) == [("", "", SENTENCE)], "no change has it"
    assert read_changes(database) == []
    assert owner.post("/owner/api/decide", json=decision(second, "accepted")).status_code == 409


def test_sentences_that_cannot_become_wordings(owner: TestClient, database: Database) -> None:
    judged(database, TEXTS[0].upper())
    judged(database, "of an answer that is gone", answer="gone", stored_question="gone", networks=2)
    judged(database, "\u200b\u202e", networks=3)
    rows = post(owner, "feedback")
    assert [row["key"] for row in rows] == ["", "", ""]
    for row in rows[1:]:
        assert owner.post("/owner/api/decide", json=decision(row, "accepted")).status_code == 409
    unknown = decision(rows[1], "rejected") | {"question_key": "nothing"}
    assert owner.post("/owner/api/decide", json=unknown).status_code == 409
    assert read_changes(database) == []


def test_what_becomes_a_wording_is_what_was_shown(owner: TestClient, database: Database) -> None:
    """Nothing hides in it: no line breaks, no signs that turn the direction of writing, no end that is not shown."""
    judged(database, "  my\nokapi \u202e<b>is</b>\u2066 lost" + " x" * 600)
    [row] = post(owner, "feedback")
    assert row["question"].startswith("my okapi <b>is</b> lost x x")
    assert len(row["question"]) <= 500

    post(owner, "decide", **decision(row, "accepted"))

    assert read_changes(database)[0].wordings == (row["question"],)
    assert post(owner, "feedback") == []


def test_the_page_is_small_whatever_the_tables_hold(owner: TestClient, database: Database) -> None:
    count = 3000
    said = {"time": 1, "answer": "a", "answer_key": "a", "stored_question": "", "helped": False, "comment": "c"}
    asked = {"time": 1, "outcome": "answer", "entry": ""}
    made = dict.fromkeys(("owner", "of", "undone", "entry"), "") | {"time": 1, "action": "add entry", "wordings": "[]"}
    with database.writing("judgements", "questions", "changes") as connection:
        numbers = [str(number) for number in range(count)]
        texts = [{"question": f"question {number}", "question_key": number} for number in numbers]
        rows = [said | each | {"visit": "v", "network": each["question_key"]} for each in texts]
        connection.execute(insert(judgements), rows)
        connection.execute(insert(questions), [asked | each for each in texts])
        connection.execute(insert(changes), [made | {"id": each, "question": each, "answer": each} for each in numbers])

    found = post(owner, "usage", first="1970-01-01", last="1970-01-01")
    assert found["current"]["questions"] == found["current"]["judged"] == count
    assert len(found["top"]) == usage.LISTS["top"][-1]
    assert {len(post(owner, name)) for name in ("feedback", "comments", "history")} == {service.SHOWN}
    found = post(owner, "entries")
    assert (found["count"], len(found["entries"])) == (count + len(TEXTS) // 2, service.ENTRIES)


def test_requests_that_are_refused(owner: TestClient, database: Database) -> None:
    entries = post(owner, "entries")["entries"]
    for body in (
        {"action": "burn"},
        {"action": "add entry", "question": "q"},
        {"action": "add entry", "answer": "a"},
        {"action": "add wordings", "entry": entries[0]["key"]},
        {"action": "add wordings", "entry": entries[0]["key"], "wordings": ["two\nlines"]},
        *({"action": "add wordings", "entry": entries[0]["key"], "wordings": [one]} for one in NOTHING),
        *({"action": "add entry", "question": "q", "answer": one} for one in NOTHING),
        *({"action": "add entry", "question": one, "answer": "a"} for one in NOTHING),
        {"action": "undo", "entry": "x"},
        {"action": "add entry", "question": "q", "answer": "a", "more": 1},
    ):
        response = owner.post("/owner/api/change", json=body)
        assert response.status_code == 422, body
        assert response.json()["error"]
    gone = owner.post("/owner/api/change", json={"action": "add wordings", "entry": "none", "wordings": ["w"]})
    assert gone.status_code == 409
    for body in (
        {"state": "accepted", "question_key": "q", "answer_key": "a", "entry": entries[0]["key"]},
        {"state": "accepted", "question_key": "q", "answer_key": "a", "entry": "x", "wording": "two\nlines"},
        {"state": "perhaps", "question_key": "q", "answer_key": "a", "wording": "w"},
        {"state": "rejected", "question_key": "q" * 65, "answer_key": "a", "wording": "w"},
    ):
        assert owner.post("/owner/api/decide", json=body).status_code == 422, body
    assert read_changes(database) == []
    for entry in entries[:-1]:
        post(owner, "change", action="delete entry", entry=entry["key"], version=entry["version"])
    last = {"action": "delete entry", "entry": entries[-1]["key"], "version": entries[-1]["version"]}
    response = owner.post("/owner/api/change", json=last)
    assert (response.status_code, response.json()["error"]) == (409, "The last entry cannot be deleted.")


def test_undoing_leaves_an_entry_too(owner: TestClient, folder: Path, database: Database) -> None:
    """A FAQ whose changes delete all of it would stop the next start."""
    added = post(owner, "change", action="add entry", question="added", answer="An answer.")
    for entry in post(owner, "entries")["entries"]:
        if entry["key"] != added["id"]:
            post(owner, "change", action="delete entry", entry=entry["key"], version=entry["version"])
    assert owner.post("/owner/api/undo", json={"change": added["id"]}).status_code == 409
    assert [entry["question"] for entry in post(owner, "entries")["entries"]] == ["added"]
    assert owners_changes(database.place).lay(read_faq(folder / "faq.csv"))


def test_what_an_entry_knows_is_offered_to_no_other(owner: TestClient, database: Database) -> None:
    """Many clicks at a wrong answer to a stored question are no wording of that answer: one click would make it two."""
    judged(database, TEXTS[2].upper(), networks=9)
    [row] = post(owner, "feedback")
    assert (row["key"], row["entry"]) == ("", TEXTS[0])
    first = post(owner, "entries", words=TEXTS[0])["entries"][0]
    refused = owner.post("/owner/api/decide", json=decision(row, "accepted") | {"entry": first["key"]})
    assert refused.status_code == 409
    assert read_changes(database) == []
    post(owner, "decide", **decision(row, "rejected"))


def test_a_database_that_fails(
    owner: TestClient, place: str, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with database.writing("changes") as connection:
        connection.execute(text("drop table ap_ranker_changes"))
    response = owner.post("/owner/api/history", json={})
    assert response.status_code == 503
    assert "ap_ranker_changes" in caplog.text
    assert "ap_ranker_changes" not in response.text
    assert answers(owner, TEXTS[0]), "the search goes on"


def test_a_search_whose_documents_the_page_cannot_change(search: Any, database: Database) -> None:
    owner_service = OwnerService(search, None, Match.both, database)
    app = build_app(search, Judgements(database), owner=OwnersPage(KEY, owner_service))
    client = log_in(TestClient(app, "http://localhost", follow_redirects=False))
    found = post(client, "usage")
    assert found["current"]["questions"] == 0
    server = post(client, "server")
    assert server.pop("served")["checkpoint"] == "tiny"
    assert server == {
        "editable": False,
        "logged": False,
        "keep_days": 0,
        "owner": "",
        "hints": [{"text": "notEditable"}],
        "erased": True,
        "left_out": [],
        "more_left_out": 0,
    }
    assert set(found["current"]["shares"].values()) == {None}, "of nothing"
    assert gaps_of(client) == post(client, "history") == []
    response = client.post("/owner/api/change", json={"action": "add entry", "question": "q", "answer": "a"})
    assert response.status_code == 409
    judged(database)
    [row] = post(client, "feedback")
    assert (row["key"], row["entry"]) == ("", TEXTS[0])
    assert client.post("/owner/api/decide", json=decision(row, "accepted")).status_code == 409
    post(client, "decide", **decision(row, "rejected"))
    assert post(client, "feedback") == []


@pytest.mark.parametrize(
    "key",
    [
        "short",
        "aaaaaaaaaaaaaaaaaaaaaaaa",
        "password12345678",
        "abababababababababab",
        "abcdefghijklmnopqrstuvwxyz",
        "98765432109876543210",
        "qwertzuiopasdfghjkl",
        "the-owner's-key-0123456789",
        "correcthorsebatterystaple",
        "Welcome2024Welcome2025",
        "7c1f6a02d94be853 b7a1",
        "7c1f6a02d94be853\u00e4b7a1",
        "",
    ],
)
def test_keys_that_are_easily_guessed(key: str) -> None:
    with pytest.raises(InputError, match="openssl rand -hex 32"):
        check_key(key, "AP_RANKER_OWNER_KEY")


def test_keys_that_programs_make(monkeypatch: pytest.MonkeyPatch) -> None:
    check_key(KEY, "AP_RANKER_OWNER_KEY")
    check_key(None, "AP_RANKER_OWNER_KEY")
    for _ in range(30):
        for key in (secrets.token_hex(16), secrets.token_hex(32), secrets.token_urlsafe(32)):
            check_key(key, "AP_RANKER_OWNER_KEY")


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_server_that_is_killed(folder: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Live within seconds in every process; after kill -9 all that was saved is there."""
    monkeypatch.setenv("AP_RANKER_OWNER_KEY", KEY)
    options = ("--pipeline", "search.yaml", "--documents", "faq.csv", "--workers", str(workers))
    key = {"Authorization": f"Bearer {KEY}"}
    with served(*options, folder=folder) as server:
        with httpx.Client(base_url=server.address, headers=key, timeout=60) as client:
            for number in range(5):
                body = {"action": "add entry", "question": f"Where is walrus {number}?", "answer": f"Pool {number}."}
                assert client.post("/owner/api/change", json=body).status_code == 200
            # Every process answers: one may be a look behind the other.
            wait_until(lambda: all("Pool 4." in answers(client, "walrus 4") for _ in range(6)))
            encrypted = {"X-Forwarded-Proto": "https"}  # as a web server on this machine says
            session = client.post("owner/login", data={"key": KEY}, headers=encrypted).headers["set-cookie"]
            assert "Secure" in session
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    with (
        served(*options, folder=folder) as server,
        httpx.Client(base_url=server.address, headers=key, timeout=60) as client,
    ):
        assert "Pool 4." in answers(client, "walrus 4")
        assert client.post("/owner/api/entries", json={"words": "walrus"}).json()["count"] == 5
        cookie = {"Cookie": session.split(";")[0], "Authorization": ""}
        assert client.get("/owner", headers=cookie).status_code == 200, "the session goes on"
    documents = WatchedFolder(folder / "faq.csv", overlay=owners_changes(str(folder / "faq.db")))
    assert len(documents.read()) == len(read_faq(folder / "faq.csv")) + 5
