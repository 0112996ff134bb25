"""The owner's page over HTTP: who may see it, what it shows, and what its changes do to the search."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("hayhooks", reason="the extra serve is not installed")

from conftest import TEXTS
from search_server import served
from searches import write_pipeline
from starlette.testclient import TestClient

from ap_ranker.data.faq import Match, read_faq
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.search import watch_documents as live
from ap_ranker.search.setup import set_up
from ap_ranker.search.watch_documents import follow
from ap_ranker.web.app import HEADERS, build_app
from ap_ranker.web.changes import Action, owners_changes, read_changes
from ap_ranker.web.clicks import FeedbackFile
from ap_ranker.web.owner.routes import API, PAGE, ROUTES, OwnersPage
from ap_ranker.web.owner.service import OwnerService
from ap_ranker.web.owner.sessions import COOKIE, MOST, SECONDS, Sessions
from ap_ranker.web.question_log import QuestionLog

KEY = "the-owner's-key-0123456789"
PATIENCE = 20.0
"""Seconds; a busy machine is slow."""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAUSE", 0.05)


@pytest.fixture
def place(tmp_path: Path, checkpoint: Path) -> Path:
    rows = zip(TEXTS[::2], TEXTS[1::2], strict=True)
    lines = [json.dumps({"question": question, "answer": answer}) + "\n" for question, answer in rows]
    (tmp_path / "faq.jsonl").write_text("".join(lines))
    write_pipeline(tmp_path, checkpoint)
    return tmp_path


@pytest.fixture
def client(place: Path) -> Iterator[TestClient]:
    """A server's application with the owner's page; nobody has logged in."""
    limits = {"score_threshold": -1.0}
    pipeline, changes = place / "search.yaml", place / "changes.jsonl"
    with set_up(place / "faq.jsonl", pipeline=pipeline, limits=limits, overlay=owners_changes(changes)) as setup:
        search, documents = setup.load()
        setup.warm_up(search, documents)
        following = follow(search, setup)
        feedback, log = FeedbackFile(place / "feedback.jsonl"), QuestionLog(place / "questions.jsonl")
        desk = OwnerService(search, setup.documents, Match.both, feedback=feedback.path, log=log.path)
        app = build_app(search, feedback, limits=limits, question_log=log, owner=OwnersPage(KEY, desk))
        yield TestClient(app, "http://localhost", raise_server_exceptions=False, follow_redirects=False)
        log.close()
        for each in following:
            each.close()


def log_in(client: TestClient) -> TestClient:
    response = client.post("/owner/login", data={"key": KEY})
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


def wait_until(is_so: Callable[[], bool], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.05)


def answers(client: TestClient | httpx.Client, question: str) -> list[str]:
    return [one["answer"] for one in client.post("/api/search", json={"question": question}).json()["answers"]]


def ask(client: TestClient, path: str, **options: Any) -> Any:
    return client.get(path, **options) if path not in API else client.post(path, json={}, **options)


def test_without_a_key_there_is_no_such_page(search: Any) -> None:
    client = TestClient(build_app(search, FeedbackFile(search.path.with_name("feedback.jsonl"))), "http://localhost")
    assert {ask(client, path).status_code for path in ROUTES} == {404}


def test_without_logging_in_every_route_answers_401(client: TestClient, place: Path) -> None:
    wrong = [
        {},
        {"headers": {"Authorization": "Bearer wrong-key-0123456789"}},
        {"headers": {"Authorization": KEY}},
        {"headers": {"Cookie": f"{COOKIE}=wrong"}},
        {"headers": {"Cookie": f"{COOKIE}={KEY}"}},
        {"params": {"key": KEY}},
    ]
    for options in wrong:
        for path in (PAGE, *API, "/owner/owner.js", "/owner/texts.js", "/owner/owner.css"):
            response = ask(client, path, **options)
            assert response.status_code == 401, (path, options)
            assert TEXTS[0] not in response.text
        assert client.post("/owner/logout", data={"x": "1"}, **options).status_code == 401
    page = client.get(PAGE)
    assert 'type="password"' in page.text
    assert "<script" not in page.text
    change = {"action": "add entry", "question": "q", "answer": "a"}
    assert client.post("/owner/api/change", json=change).status_code == 401
    assert not (place / "changes.jsonl").exists()


def test_logging_in_and_out(client: TestClient) -> None:
    response = client.post("/owner/login", data={"key": "no"})
    assert response.status_code == 401
    assert "This is not the key" in response.text
    assert not response.cookies
    response = client.post("/owner/login", data={"key": KEY})
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert KEY not in cookie
    assert client.get(PAGE).status_code == 200
    assert client.get("/owner/owner.js").status_code == 200
    token = client.cookies[COOKIE]
    assert client.post("/owner/logout", data={"x": "1"}).status_code == 303
    assert client.get(PAGE).status_code == 401
    assert client.get(PAGE, headers={"Cookie": f"{COOKIE}={token}"}).status_code == 401, "the session has ended"
    assert client.post("/owner/api/counts", json={}, headers={"Authorization": f"Bearer {KEY}"}).status_code == 200


def test_sessions_end() -> None:
    now = [0.0]
    sessions = Sessions(KEY, clock=lambda: now[0])

    def begin() -> Any:
        from starlette.requests import Request
        from starlette.responses import Response

        response = Response()
        sessions.begin(response, secure=True)
        assert "Secure" in response.headers["set-cookie"]
        cookie = response.headers["set-cookie"].split(";")[0]
        return Request({"type": "http", "headers": [(b"cookie", cookie.encode())]})

    first = begin()
    assert sessions.allows(first)
    now[0] = SECONDS - 1
    assert sessions.allows(first)
    now[0] = SECONDS + 1
    assert not sessions.allows(first)
    second = begin()
    for _ in range(MOST):
        begin()
    assert not sessions.allows(second), "of too many, the oldest ends"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 401),
        ({"Sec-Fetch-Site": "same-site"}, 401),
        ({"Origin": "http://evil.example"}, 401),
        ({"Origin": "null"}, 401),
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
    for path in (PAGE, "/owner/owner.js", "/owner/api/counts", "/owner/none"):
        response = ask(owner, path)
        for name, value in HEADERS.items():
            assert response.headers[name] == value, path
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_the_numbers_and_the_gaps(owner: TestClient, place: Path) -> None:
    for question in ("do you rent bikes", "Do you rent bikes?", "xyzzy", TEXTS[0]):
        answers(owner, question)
    first = owner.post("/api/search", json={"question": "the battery of my parcel"}).json()["answers"][0]
    for helped, visit in ((False, "a"), (False, "b"), (True, "c")):
        judgement = {"question": "the battery of my parcel", "id": first["id"], "helped": helped, "visit": visit}
        assert owner.post("/api/feedback", json=judgement | {"receipt": first["receipt"]}).status_code == 200
    wait_until(lambda: len((place / "questions.jsonl").read_text().splitlines()) == 5)
    counts = post(owner, "counts")
    assert counts["questions"] == 5
    assert (counts["helped"], counts["did_not_help"]) == (1, 2)
    assert counts["outcomes"]["nothing found"] >= 1
    assert sum(counts["days"].values()) == 5
    [judged] = post(owner, "feedback")
    assert judged == {
        "question": "the battery of my parcel",
        "entry": first["question"],
        "helped": 1,
        "did_not_help": 2,
    }
    gaps = {gap["questions"][0]["text"]: gap for gap in gaps_of(owner)}
    assert gaps["the battery of my parcel"]["asked"] == 2
    assert gaps["the battery of my parcel"]["questions"] == [
        {"text": "the battery of my parcel", "asked": 2, "ticked": True, "more_like": ""}
    ]
    assert not gaps["the battery of my parcel"]["is_near"]  # the search is not calibrated
    assert gaps["xyzzy"]["nearest_entry"] is None
    assert TEXTS[0] not in gaps
    nearest = gaps["the battery of my parcel"]["nearest_entry"]
    assert nearest["question"] in TEXTS[::2]


def test_a_click_answers_no_gap(owner: TestClient, place: Path) -> None:
    """One visitor's "This answered it" neither hides what others were refused, nor joins what the FAQ knows."""
    log = QuestionLog(place / "questions.jsonl")
    log.add("the battery of my parcel", [], [])
    log.close()
    before = gaps_of(owner)
    assert list(map(texts_of, before)) == [["the battery of my parcel"]]
    for question in ("the battery of my parcel", "which okapi"):
        answer = {"question": question, "answer": f"{TEXTS[0]}\n{TEXTS[1]}", "stored_question": TEXTS[0]}
        FeedbackFile(place / "feedback.jsonl").append(**answer, helped=True, visit="v")
    assert post(owner, "counts")["helped"] == 2
    assert gaps_of(owner) == before


def test_changes_are_found_and_undone(owner: TestClient, place: Path) -> None:
    faq = (place / "faq.jsonl").read_bytes()
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
    assert (edited["action"], made["action"]) == ("change entry", "add entry")
    post(owner, "undo", change=edited["id"])
    wait_until(lambda: "In the pool." in answers(owner, "walrus"))
    assert owner.post("/owner/api/undo", json={"change": edited["id"]}).status_code == 409
    assert owner.post("/owner/api/undo", json={"change": "nothing"}).status_code == 409
    post(owner, "undo", change=made["id"])
    wait_until(lambda: "In the pool." not in answers(owner, "walrus"))
    assert [one["is_undone"] for one in post(owner, "history")] == [True, True]
    assert (place / "faq.jsonl").read_bytes() == faq
    assert [one.action for one in read_changes(place / "changes.jsonl")].count(Action.undo) == 2


def test_a_wording_with_one_click(owner: TestClient, place: Path) -> None:
    """The question of a gap becomes a wording of an entry, and is no gap any more."""
    answers(owner, "xyzzy plugh")
    wait_until(lambda: (place / "questions.jsonl").read_text() != "")
    assert list(map(texts_of, gaps_of(owner))) == [["xyzzy plugh"]]
    entry = post(owner, "entries", words="battery")["entries"][0]
    post(owner, "change", action="add wordings", entry=entry["key"], wordings=["xyzzy plugh"])
    wait_until(lambda: answers(owner, "xyzzy plugh")[:1] == [entry["answer"]])
    assert gaps_of(owner) == []
    post(owner, "change", action="remove wordings", entry=entry["key"], wordings=["xyzzy plugh"])
    wait_until(lambda: not answers(owner, "xyzzy plugh"))


def test_requests_that_are_refused(owner: TestClient, place: Path) -> None:
    entries = post(owner, "entries")["entries"]
    for body in (
        {"action": "burn"},
        {"action": "add entry", "question": "q"},
        {"action": "add entry", "answer": "a"},
        {"action": "add wordings", "entry": entries[0]["key"]},
        {"action": "add wordings", "entry": entries[0]["key"], "wordings": ["two\nlines"]},
        {"action": "add wordings", "entry": entries[0]["key"], "wordings": [" "]},
        {"action": "undo", "entry": "x"},
        {"action": "add entry", "question": "q", "answer": "a", "more": 1},
    ):
        response = owner.post("/owner/api/change", json=body)
        assert response.status_code == 422, body
        assert response.json()["error"]
    gone = owner.post("/owner/api/change", json={"action": "add wordings", "entry": "none", "wordings": ["w"]})
    assert gone.status_code == 409
    assert not (place / "changes.jsonl").exists()
    for entry in entries[:-1]:
        post(owner, "change", action="delete entry", entry=entry["key"], version=entry["version"])
    last = {"action": "delete entry", "entry": entries[-1]["key"], "version": entries[-1]["version"]}
    response = owner.post("/owner/api/change", json=last)
    assert (response.status_code, response.json()["error"]) == (409, "The last entry cannot be deleted.")


def test_a_broken_file_of_changes(owner: TestClient, place: Path, caplog: pytest.LogCaptureFixture) -> None:
    (place / "changes.jsonl").write_text("not JSON\n")
    response = owner.post("/owner/api/entries", json={})
    assert response.status_code == 503
    assert "line 1: expected a change" in caplog.text
    assert str(place) not in response.text
    assert answers(owner, TEXTS[0]), "the search goes on"


def test_a_search_whose_documents_the_page_cannot_change(search: Any, tmp_path: Path) -> None:
    feedback = FeedbackFile(tmp_path / "feedback.jsonl")
    desk = OwnerService(search, None, Match.both, feedback=feedback.path)
    client = log_in(
        TestClient(build_app(search, feedback, owner=OwnersPage(KEY, desk)), "http://localhost", follow_redirects=False)
    )
    counts = post(client, "counts")
    assert (counts["editable"], counts["logged"], counts["questions"]) == (False, False, 0)
    assert gaps_of(client) == []
    response = client.post("/owner/api/change", json={"action": "add entry", "question": "q", "answer": "a"})
    assert response.status_code == 409


def test_a_key_that_is_too_short() -> None:
    from ap_ranker.web.limits import check_key

    with pytest.raises(InputError, match="Expected AP_RANKER_OWNER_KEY to hold a key of at least 16"):
        check_key("short", "AP_RANKER_OWNER_KEY")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_is_killed(place: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Live within seconds in every process; after kill -9 all that was saved is there."""
    monkeypatch.setenv("AP_RANKER_OWNER_KEY", KEY)
    options = ("--pipeline", "search.yaml", "--documents", "faq.jsonl", "--workers", str(workers))
    with served(*options, folder=place) as server:
        with httpx.Client(base_url=server.address, headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as client:
            for number in range(5):
                body = {"action": "add entry", "question": f"Where is walrus {number}?", "answer": f"Pool {number}."}
                assert client.post("/owner/api/change", json=body).status_code == 200
            # Every process answers: one may be a look behind the other.
            wait_until(lambda: all("Pool 4." in answers(client, "walrus 4") for _ in range(6)))
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    with (
        served(*options, folder=place) as server,
        httpx.Client(base_url=server.address, headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as client,
    ):
        assert "Pool 4." in answers(client, "walrus 4")
        assert client.post("/owner/api/entries", json={"words": "walrus"}).json()["count"] == 5
    documents = WatchedFolder(place / "faq.jsonl", overlay=owners_changes(place / "changes.jsonl"))
    assert len(documents.read()) == len(read_faq(place / "faq.jsonl")) + 5
